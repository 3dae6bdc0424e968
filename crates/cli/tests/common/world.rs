//! All on a machine that a lab can leave behind, as text, so that two looks can be compared.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{namespaces, text, tool};

/// A snapshot.
#[derive(Debug, Default)]
pub struct World(BTreeSet<String>);

impl World {
    /// Takes a snapshot. Only mounts below `root` and cgroups of this test's labs count: others come and go on the
    /// same machine. Everything else in these namespaces belongs to the test.
    pub fn now(root: &Path) -> World {
        let mut all = BTreeSet::new();
        all.extend(processes().into_iter().filter_map(process));
        all.extend(interfaces());
        all.extend(mounts(root));
        all.extend(groups());
        let rules = tool(&["nft", "list", "ruleset"]);
        all.extend(rules.lines().map(|line| format!("nft {line}")));
        World(all)
    }

    /// The additions since another snapshot.
    pub fn beyond(&self, before: &World) -> Vec<String> {
        self.0.difference(&before.0).cloned().collect()
    }
}

/// Every process of this process namespace but this one.
pub fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != std::process::id()).collect()
}

/// A process with its start time, which tells it from one that has its number later. None for one
/// that the kernel is taking apart: it has no memory any more, so no label either. None for one that is killed.
fn process(pid: u32) -> Option<String> {
    let read = |file| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    if text(&read("statm"))
        .split_whitespace()
        .next()
        .is_none_or(|pages| pages == "0")
    {
        return None;
    }
    if is_killed(&text(&read("status"))) {
        return None;
    }
    let words = text(&read("cmdline")).replace('\0', " ");
    let stat = text(&read("stat"));
    let start = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(19));
    let short: String = words.chars().take(100).collect();
    Some(format!(
        "process {pid} since {}: {short}",
        start.unwrap_or("?")
    ))
}

/// Whether SIGKILL is pending: the kernel ends the process as soon as its system call returns. A tool that dies with a
/// killed latlab (PR_SET_PDEATHSIG) may be inside a long one, as nft is while its rules are committed.
fn is_killed(status: &str) -> bool {
    const SIGKILL: u64 = 1 << 8;
    let masks = status.lines().filter_map(|line| {
        let mask = line
            .strip_prefix("SigPnd:")
            .or(line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    });
    masks.fold(0, |all, mask| all | mask) & SIGKILL != 0
}

fn interfaces() -> Vec<String> {
    let all: Vec<Value> = serde_json::from_str(&tool(&["ip", "-json", "link"])).unwrap();
    let one = |link: &Value| {
        let up = link["flags"].as_array().unwrap().contains(&"UP".into());
        let of = |key: &str| link[key].to_string();
        let words = ["ifname", "link", "mtu", "address", "ifalias", "master"].map(of);
        format!("interface {}, up: {up}", words.join(" "))
    };
    all.iter().map(one).collect()
}

fn mounts(root: &Path) -> Vec<String> {
    let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let places = all.lines().filter_map(|line| line.split(' ').nth(4));
    let below = places.filter(|place| Path::new(place).starts_with(root));
    below.map(|place| format!("mount {place}")).collect()
}

/// Directories `.../latlab/LAB` in every hierarchy.
fn groups() -> Vec<String> {
    let ours = format!("t{}-", namespaces::id());
    let mut found = Vec::new();
    for top in hierarchies().iter().map(|root| root.join("latlab")) {
        for lab in fs::read_dir(top).into_iter().flatten().flatten() {
            if lab.file_name().to_string_lossy().starts_with(&ours) {
                found.push(format!("group {}", lab.path().display()));
            }
        }
    }
    found
}

/// The mount points of cgroups.
pub fn hierarchies() -> Vec<PathBuf> {
    let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let roots = all.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        kind.starts_with("cgroup")
            .then(|| place.split(' ').nth(4).map(PathBuf::from))?
    });
    roots.collect()
}

/// Collects what ended without a parent: in these namespaces this process is the first. To be called
/// when no child of its own is to be waited for.
pub fn reap() {
    use rustix::process::{WaitOptions, wait};
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}
