//! Labs on machines of a cluster.

use std::fs;
use std::process::Command;

use super::address;
use crate::common::{Bench, Said, finish};

/// The address of the machine that the test is in.
const HERE: &str = "10.77.0.1";

/// `hosts:` with the first machines of a cluster, and this one where it is wanted.
pub fn hosts(count: usize, with_here: bool) -> String {
    let program = env!("CARGO_BIN_EXE_latlab");
    let mut text = "hosts:\n".to_string();
    if with_here {
        text += &format!("  here: {{address: {HERE}}}\n");
    }
    for number in 1..=count {
        let address = address(number);
        text +=
            &format!("  n{number}: {{ssh: n{number}, address: {address}, latlab: {program}}}\n");
    }
    text
}

/// latlab on a machine of the cluster.
pub fn on(number: usize, words: &[&str]) -> Said {
    let mut ssh = Command::new("ssh");
    ssh.arg(format!("n{number}"))
        .arg(env!("CARGO_BIN_EXE_latlab"));
    finish(ssh.args(words))
}

/// The labs on a machine of the cluster, as JSON.
pub fn labs_on(number: usize) -> String {
    on(number, &["inspect", "--here", "--format", "json"])
        .out
        .trim()
        .to_owned()
}

/// No part of any lab is on the first machines of the cluster, and no process or interface of one.
#[track_caller]
pub fn nothing_is_left(bench: &Bench, machines: std::ops::RangeInclusive<usize>) {
    for number in machines {
        assert_eq!(labs_on(number), "{}", "on n{number}");
        let mut ssh = Command::new("ssh");
        let look = "pgrep --list-full latlab-overlay; pgrep --list-full latlab-agent; ls /run/latlab 2>/dev/null; true";
        let processes = finish(ssh.args([&format!("n{number}"), look])).good();
        assert_eq!(processes.out.trim(), "", "on n{number}");
    }
    let records = fs::read_dir(bench.root().join("state/hosts"));
    assert_eq!(records.map_or(0, Iterator::count), 0, "records are left");
}
