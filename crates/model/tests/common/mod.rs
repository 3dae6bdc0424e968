//! Shared by the tests over files: reading a document as `latlab validate` does, and golden files.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::fs;
use std::path::{Path, PathBuf};

use latlab_model::diagnostic::Diagnostics;
use latlab_model::facts::Facts;
use latlab_model::plan::{Plan, RunPlan, plan, plan_run};
use latlab_model::profile::Profile;
use latlab_model::spec::yaml::Yaml;
use latlab_model::spec::{DocumentKind, Lab, LabSource, Study};

/// The result for a document without a mistake.
pub enum Checked {
    Lab(Box<Plan>),
    Study(Box<RunPlan>),
}

/// A folder of the repository.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name)
}

/// A folder of these tests.
pub fn tests(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

/// The YAML files of a folder, by name.
pub fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|e| e.expect("a folder's entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    files
}

pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// One of the machines in `tests/facts`.
pub fn facts(name: &str) -> Facts {
    let text = read(&tests("facts").join(name).with_extension("json"));
    serde_json::from_str(&text).expect("facts")
}

/// Reads and plans the document at `path`; on mistakes, what a person is shown.
pub fn check(path: &Path, facts: &Facts) -> Result<Checked, String> {
    let name = |p: &Path| {
        p.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let this = name(path);
    let shown = |errors: Diagnostics| errors.render(&this);
    let yaml = Yaml::parse(&read(path)).map_err(shown)?;
    if DocumentKind::of(&yaml) == DocumentKind::Lab {
        let lab = Lab::read(&yaml).map_err(shown)?;
        let planned = plan(&lab, facts).map_err(shown)?;
        return Ok(Checked::Lab(Box::new(planned)));
    }
    let study = Study::read(&yaml).map_err(shown)?;
    let (lab, files) = match &study.lab {
        LabSource::Inline(lab) => (lab.clone(), vec![this]),
        LabSource::File(file) => {
            let file = path.with_file_name(&file.value);
            let files = vec![this, name(&file)];
            let lab = Yaml::parse_file(&read(&file), 1);
            (lab.map_err(|e| render(&e, &files))?, files)
        }
    };
    let planned =
        plan_run(&study, &lab, facts, &Profile::builtin).map_err(|e| render(&e, &files))?;
    Ok(Checked::Study(Box::new(planned)))
}

fn render(errors: &Diagnostics, files: &[String]) -> String {
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    errors.render_files(&files)
}

/// Compares `text` with the golden file, or rewrites the file when `UPDATE_EXPECT=1`. What differs
/// is returned, so that a test can show all differences of a folder.
pub fn against_golden(golden: &Path, text: &str) -> Result<(), String> {
    if std::env::var_os("UPDATE_EXPECT").is_some_and(|v| v == "1") {
        fs::write(golden, text).unwrap_or_else(|e| panic!("{}: {e}", golden.display()));
        return Ok(());
    }
    let expected = fs::read_to_string(golden).unwrap_or_default();
    if expected == text {
        Ok(())
    } else {
        Err(format!(
            "{} differs (UPDATE_EXPECT=1 rewrites it).\n--- expected\n{expected}--- found\n{text}",
            golden.display()
        ))
    }
}
