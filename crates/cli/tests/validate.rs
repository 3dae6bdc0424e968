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

#[test]
fn a_file_that_cannot_be_read_does_not_hide_the_others() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let validate = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latlab"));
        command.current_dir(&root).args(["validate", "--facts"]);
        command.arg(model_tests().join("facts/large.json"));
        let output = command.args(words).output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|s| String::from_utf8(s).unwrap());
        (output.status.code(), out, err)
    };
    let files = [
        "nowhere.yaml",
        "studies/limits.yaml",
        "README.md",
        "labs/pair.yaml",
    ];
    let (code, out, err) = validate(&files);
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.starts_with("latlab: cannot read nowhere.yaml: "),
        "{err}"
    );
    assert!(err.contains("in README.md; nothing was changed"), "{err}");
    assert_eq!(out.lines().count(), 2, "{out}");
    let (code, out, err) = validate(&[&["--json"][..], &files].concat());
    assert_eq!((code, err.lines().count()), (Some(2), 2), "{err}");
    let all: serde_json::Value = serde_json::from_str(&out).unwrap();
    let all = all.as_array().unwrap();
    for (document, (file, key)) in all
        .iter()
        .zip(files.iter().zip(["error", "cells", "mistakes", "nodes"]))
    {
        assert_eq!(document["file"], *file);
        assert!(!document[key].is_null(), "{document:#}");
    }
    assert_eq!(all.len(), files.len());
    // One alone has no name, and no array around it.
    let (code, out, _) = validate(&["--json", "labs/pair.yaml"]);
    let one: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(code == Some(0) && one["nodes"].is_array() && one["file"].is_null());
    let (code, out, _) = validate(&["--json", "nowhere.yaml"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
}
