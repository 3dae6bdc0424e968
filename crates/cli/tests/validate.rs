//! `latlab validate` on every bad document: the exact words on standard error, exit code 2, and
//! nothing changed.

use std::path::{Path, PathBuf};
use std::process::Command;

fn model_tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests")
}

#[test]
fn every_bad_document_is_refused_with_place_hint_and_exit_code_2() {
    let folder = model_tests().join("bad");
    let facts = model_tests().join("facts/small.json");
    // A state directory that must still be absent afterwards.
    let state = std::env::temp_dir().join(format!("latlab-validate-{}", std::process::id()));
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    assert!(files.len() >= 40);
    for file in &files {
        let name = file.file_name().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_latlab"))
            .current_dir(&folder)
            .env("LATLAB_STATE_DIR", state.join("state"))
            .env("LATLAB_RUN_DIR", state.join("run"))
            .arg("validate")
            .arg("--facts")
            .arg(&facts)
            .arg(name)
            .output()
            .unwrap();
        // A lab that a study names is shown by its path, in the expected text by its name.
        let said = String::from_utf8(output.stderr)
            .unwrap()
            .replace("parts/", "");
        let expected = std::fs::read_to_string(file.with_extension("expected")).unwrap();
        assert_eq!(
            output.status.code(),
            Some(2),
            "{}: {said}",
            name.to_string_lossy()
        );
        assert!(
            said.starts_with(expected.trim_end()),
            "{}:\n{said}",
            name.to_string_lossy()
        );
        assert!(
            said.trim_end().ends_with("nothing was changed"),
            "{}:\n{said}",
            name.to_string_lossy()
        );
    }
    assert!(!state.exists(), "validate made {}", state.display());
}

#[test]
fn every_example_is_good_on_a_large_machine() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let facts = model_tests().join("facts/large.json");
    for folder in ["labs", "studies"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|e| e != "yaml") {
                continue;
            }
            let output = Command::new(env!("CARGO_BIN_EXE_latlab"))
                .arg("validate")
                .arg("--facts")
                .arg(&facts)
                .arg(&path)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{}: {said}", path.display());
        }
    }
}
