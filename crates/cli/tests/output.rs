//! Output that cannot be written, or whose reader is gone: the first is a failure, and neither hides another one.

mod common;
mod made_up;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{enter, text};

/// The exit code, and the words on the standard error.
fn ended(command: &mut Command) -> (Option<i32>, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.code(), text(&output.stderr))
}

/// An output on a file system without room.
fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// An output whose reader is gone.
fn unread() -> OwnedFd {
    rustix::pipe::pipe().unwrap().1
}

#[track_caller]
fn is_told((code, said): (Option<i32>, String), output: &str) {
    let line = format!("latlab: cannot write to {output}: No space left on device");
    assert!(
        code == Some(2) && said.starts_with(&line),
        "{code:?}: {said}"
    );
    assert_eq!(said.lines().count(), 2, "not a line and a hint: {said}");
}

#[test]
fn a_document_that_cannot_be_written_is_a_failure() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let [facts, lab] = ["crates/model/tests/facts/large.json", "labs/pair.yaml"];
    for words in [
        &["schema", "lab"][..],
        &["studies"],
        &["studies", "quick"],
        &["paper"],
        &["validate", "--json", "--facts", facts, lab],
        &["validate", "--facts", facts, lab],
        &["place", "--facts", facts, lab],
    ] {
        let command = &mut Command::new(env!("CARGO_BIN_EXE_latlab"));
        let command = command.args(words).current_dir(&root);
        println!("{words:?}");
        is_told(ended(command.stdout(full())), "standard output");
        let read = ended(command.stdout(unread()));
        assert_eq!(read, (Some(0), String::new()));
    }
}

/// Each ratio of a run to itself is 1.
#[test]
fn a_verdict_does_not_depend_on_a_reader() {
    let runs = made_up::Runs::new("output");
    let run = runs.write("quick", 3);
    let run = run.root().to_str().unwrap();
    for format in ["table", "json", "csv"] {
        for (limit, code) in [("median > 0.5", 1), ("median > 1.5", 0)] {
            let command = &mut Command::new(env!("CARGO_BIN_EXE_latlab"));
            command.args(["compare", run, run, "--format", format, "--fail-if", limit]);
            let (found, said) = ended(command.stdout(unread()));
            assert_eq!(found, Some(code), "{said}");
            is_told(ended(command.stdout(full())), "standard output");
        }
    }
}

#[test]
fn the_output_of_a_command_that_cannot_be_written_is_a_failure() {
    const NAME: &str = "the_output_of_a_command_that_cannot_be_written_is_a_failure";
    enter(NAME, |bench| {
        let lab = bench.deploy(
            "one",
            "name: NAME\ntopology: {nodes: {a: {kind: native}}}\n",
        );
        let exec = |line: &str| bench.command(&["exec", &lab, "a", "--", "sh", "-c", line]);
        is_told(ended(exec("echo x").stdout(full())), "standard output");
        // The words about a full standard error are lost, too.
        let status = exec("echo x >&2").stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(2));
        let (code, said) = ended(exec("echo x; exit 7").stdout(unread()));
        assert_eq!((code, said.as_str()), (Some(7), ""));
        bench.latlab(&["destroy", &lab]).good();
    });
}
