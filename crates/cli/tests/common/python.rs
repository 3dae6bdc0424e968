//! Programs in Python that run in nodes while a test goes on.

use std::fs;
use std::time::{Duration, Instant};

use super::Bench;

/// Waits until a file has one of these lines; its text.
pub fn await_line(file: &str, wanted: &[&str]) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if text.lines().any(|line| wanted.contains(&line)) {
            return text;
        }
        assert!(Instant::now() < end, "{wanted:?} is not in {file}: {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a program with its arguments, and waits until it has written `ready`. Returns the file of its output.
pub fn start(bench: &Bench, lab: &str, node: &str, arguments: &[&str]) -> String {
    let mut command = vec!["exec", "--detach", lab, node, "--", "python3", "-u", "-c"];
    command.extend(arguments);
    let told = bench.latlab(&command).good().out;
    let output = told.lines().find_map(|line| line.strip_prefix("output "));
    let output = output.unwrap().to_owned();
    await_line(&output, &["ready"]);
    output
}
