//! The study as one text: it goes to machines that do not have the lab's file.

use std::fs;

use latlab_model::spec::yaml::{Value, Yaml};
use latlab_model::spec::{LabSource, Study};

use crate::failure::Failure;
use crate::files::StudyFile;

/// The study's text with its lab inside. A lab in a file of its own takes the place of its path.
pub fn whole_text(file: &StudyFile) -> Result<String, Failure> {
    let LabSource::File(path) = &file.study.lab else {
        return Ok(file.source.text.clone());
    };
    let lab = match file.lab_file() {
        Some(path) => fs::read_to_string(path)?,
        None => String::new(),
    };
    let text = with_lab(&file.source.text, path.at.line, &lab);
    // The reader of YAML tells whether the lab arrived as it was.
    let arrived = Study::parse(&text).ok().and_then(|study| match study.lab {
        LabSource::Inline(yaml) => Some(is_same(&yaml, &file.lab)),
        LabSource::File(_) => None,
    });
    match arrived {
        Some(true) => Ok(text),
        _ => Err(Failure::new(
            format!("the lab {} cannot be written into the study", path.value),
            "write the lab below `lab:` in the study's file",
        )),
    }
}

/// Replaces the line `lab: FILE` by `lab:` and the indented lab.
fn with_lab(study: &str, line: usize, lab: &str) -> String {
    let mut text = String::new();
    for (number, of_study) in (1..).zip(study.lines()) {
        if number != line {
            text += of_study;
            text += "\n";
            continue;
        }
        text += "lab:\n";
        for of_lab in lab.lines().filter(|line| *line != "---") {
            text += "  ";
            text += of_lab;
            text += "\n";
        }
    }
    text
}

/// Whether two texts say the same, wherever they stand.
fn is_same(a: &Yaml, b: &Yaml) -> bool {
    match (&a.value, &b.value) {
        (Value::Seq(a), Value::Seq(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            let is_same_entry =
                |((k, v), (l, w)): (&(Yaml, Yaml), &(Yaml, Yaml))| is_same(k, l) && is_same(v, w);
            a.len() == b.len() && a.iter().zip(b).all(is_same_entry)
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_of_a_file_takes_the_place_of_its_path() {
        let text = with_lab(
            "name: s\nlab: x.yaml # here\nseed: 1\n",
            2,
            "---\nname: l\nsetup: |\n  a\n\n  b\n",
        );
        assert_eq!(
            text,
            "name: s\nlab:\n  name: l\n  setup: |\n    a\n  \n    b\nseed: 1\n"
        );
        let inside = Yaml::parse(&text).unwrap();
        let alone = Yaml::parse("name: l\nsetup: |\n  a\n\n  b\n").unwrap();
        assert!(is_same(inside.get("lab").unwrap(), &alone));
        assert!(!is_same(&inside, &alone));
    }
}
