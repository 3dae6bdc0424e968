//! Text of others (a guest's error, names in a run directory, a lab file) is shown to the person and never
//! obeyed by the person's terminal, spreadsheet or browser.

#[path = "../../report/tests/synthetic/mod.rs"]
mod synthetic;

use std::fs;
use std::path::Path;
use std::process::Command;

use latlab_model::results::TrialOutcome;
use synthetic::{Plan, Scratch};

/// A title, a cleared screen, the cursor, C1's control sequence introducer, an override of direction.
const HOSTILE: &str = "x\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[1A\u{9b}31m\u{202e}\u{7f}\r";

fn latlab(args: &[&str]) -> String {
    let mut latlab = Command::new(env!("CARGO_BIN_EXE_latlab"));
    let output = latlab.args(args).env("NO_COLOR", "1").output().unwrap();
    let all = [output.stdout, output.stderr].concat();
    String::from_utf8(all).unwrap()
}

#[track_caller]
fn assert_harmless(what: &str, text: &str) {
    let obeyed = |c: char| (c.is_control() && !"\n\t".contains(c)) || c == '\u{202e}';
    let found = text.lines().find(|line| line.contains(obeyed));
    assert_eq!(found, None, "{what}");
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_foreign_run_cannot_inject_escapes_or_formulas() {
    let scratch = Scratch::new("escapes");
    let run = Plan::small().write(scratch.path().join("run"));
    let mut trial = run.read_trial(1).unwrap().unwrap();
    trial.outcome = TrialOutcome::Failed {
        reason: format!("in the guest: {HOSTILE}"),
    };
    run.write_trial(&trial).unwrap();
    let mut manifest = run.read_manifest().unwrap();
    manifest.study = format!("=study {HOSTILE}</script><script>alert(1)</script>");
    manifest.description = Some(HOSTILE.into());
    let cell = format!("=HYPERLINK(\"http://x\",{HOSTILE})");
    let old = manifest.cells[0].id.clone();
    manifest.cells[0].id.clone_from(&cell);
    for planned in manifest.order.iter_mut().filter(|p| p.cell == old) {
        planned.cell.clone_from(&cell);
        let mut trial = run.read_trial(planned.trial).unwrap().unwrap();
        trial.cell.clone_from(&cell);
        run.write_trial(&trial).unwrap();
    }
    manifest.checksums.insert(HOSTILE.into(), "00".into());
    run.write_manifest(&manifest).unwrap();
    let dir = path(run.root());
    for format in ["table", "csv", "json"] {
        let report = latlab(&["report", dir, "--print-only", "--format", format]);
        assert!(report.contains("owned"), "{format}: {report}");
        assert_harmless(format, &report);
        assert_harmless(format, &latlab(&["compare", dir, dir, "--format", format]));
        assert_harmless(format, &latlab(&["explain", dir, "--format", format]));
        let formula = report
            .lines()
            .any(|line| line.starts_with(['=', '"']) && line[1..].starts_with("=H"));
        assert!(
            !formula && !report.contains("\n=HYPERLINK"),
            "{format}: {report}"
        );
    }
    latlab(&["report", dir]);
    let page = fs::read_to_string(run.report_path()).unwrap();
    assert!(page.contains("alert(1)") && !page.contains("<script>alert"));
}

#[test]
fn mistakes_in_a_foreign_lab_are_printed_without_control_characters() {
    let scratch = Scratch::new("escapes-lab");
    let file = scratch.path().join("lab.yaml");
    for lab in [
        format!("name: x\ntopology: {{nodes: {{a: {{kind: \"{HOSTILE}\"}}}}}}\n"),
        "name: \"\\e]0;owned\\a\\e[2J\"\ntopology: {nodes: {a: {kind: native}}}\n".into(),
        "name: x\n\"\\e[2Jowned\": 1\ntopology: {nodes: {a: {kind: \"\\x9b2J\"}}}\n".into(),
    ] {
        fs::write(&file, lab).unwrap();
        let said = latlab(&["validate", path(&file)]);
        assert!(!said.is_empty());
        assert_harmless("validate", &said);
        assert_harmless("graph", &latlab(&["graph", path(&file)]));
        assert_harmless("deploy", &latlab(&["deploy", "--dry-run", path(&file)]));
    }
}
