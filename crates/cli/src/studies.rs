//! `latlab studies`: the studies that come with latlab, inside the binary.

use latlab_model::spec::Study;

use crate::failure::{Failure, Outcome};
use crate::{print, table};

/// Names of studies with their texts.
macro_rules! texts {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("../../../studies/", $name, ".yaml")))),*]
    };
}

const BUILT_IN: &[(&str, &str)] = texts! {
    "first-light", "quick", "paths", "bulk", "isolation", "tuning", "forwarder", "overlay",
    "carriers", "hardware", "streams", "mpi", "forwarder-quick", "devices", "boot", "density",
    "density-io", "runtimes", "workloads", "load", "storage", "pause", "migration", "snapshot",
    "welch2015", "felter2014", "felter2014-servers", "felter2014-network",
};

pub fn run(name: Option<&str>) -> Outcome {
    if let Some(name) = name {
        let Some(text) = built_in(name) else {
            let known: Vec<&str> = names().collect();
            return Err(Failure::new(
                format!("no study `{name}`"),
                format!("one of: {}", known.join(", ")),
            ));
        };
        return print::document(text);
    }
    let rows = BUILT_IN.iter().map(|(name, text)| {
        let about = Study::parse(text)
            .ok()
            .and_then(|s| s.description)
            .unwrap_or_default();
        let first = about
            .split(". ")
            .next()
            .unwrap_or_default()
            .replace('\n', " ");
        vec![(*name).to_string(), first.trim().to_string()]
    });
    let rows: Vec<_> = rows.collect();
    print::document(&table::render(&["STUDY", "WHAT IT ASKS"], &rows))
}

pub fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, text)| *text)
}

pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_study_of_the_project_is_built_in() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies");
        for entry in std::fs::read_dir(directory).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let name = name.strip_suffix(".yaml").unwrap();
            // Its lab is a file of its own.
            assert!(name == "limits" || built_in(name).is_some(), "{name}");
        }
    }

    #[test]
    fn every_built_in_study_is_self_contained() {
        for (name, text) in BUILT_IN {
            let study = Study::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            let inline = matches!(study.lab, latlab_model::spec::LabSource::Inline(_));
            assert!(inline, "{name}: a built-in study carries its lab");
            assert!(study.description.is_some(), "{name} says what it asks");
        }
    }
}
