//! The daemon's arguments; needs no root.

use std::path::PathBuf;
use std::process::{Command, Output};

fn daemon(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_latlab-overlay"))
        .args(arguments)
        .output()
        .unwrap()
}

fn file(name: &str, text: &str) -> PathBuf {
    let file = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn a_file_is_checked_without_a_control_socket() {
    let good = file("latlab-check-good", "add network lan vni 7\n");
    let output = daemon(&["--config", good.to_str().unwrap(), "--check"]);
    std::fs::remove_file(&good).unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("good: 1 networks, 0 interfaces"), "{text}");
    let bad = file("latlab-check-bad", "add network lan\nadd nothing\n");
    let output = daemon(&["--config", bad.to_str().unwrap(), "--check"]);
    std::fs::remove_file(&bad).unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_daemon_needs_a_control_socket() {
    let output = daemon(&[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && text.contains("--control"),
        "{text}"
    );
}
