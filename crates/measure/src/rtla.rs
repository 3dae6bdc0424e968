//! The kernel's noise tracers, through rtla: `osnoise` (interruptions of a CPU-bound kernel thread) and
//! `timerlat` (lateness of a timer's thread).
//!
//! These tracers see from inside the kernel what ours sees as a program does, so results are shown side by
//! side, unchanged.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

/// Where the kernel lists its tracers; the second is the older place.
const TRACERS: [&str; 2] = [
    "/sys/kernel/tracing/available_tracers",
    "/sys/kernel/debug/tracing/available_tracers",
];
const WANTED: [&str; 2] = ["osnoise", "timerlat"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TracerOutput {
    /// `osnoise` or `timerlat`.
    pub tracer: String,
    pub command: String,
    pub output: String,
}

#[must_use]
pub fn tracers() -> Vec<&'static str> {
    let listed = TRACERS
        .iter()
        .find_map(|path| std::fs::read_to_string(Path::new(path)).ok());
    of_list(&listed.unwrap_or_default())
}

fn of_list(listed: &str) -> Vec<&'static str> {
    let has = |name: &&str| listed.split_whitespace().any(|word| word == *name);
    WANTED.into_iter().filter(has).collect()
}

/// Runs a tracer for a time on some CPUs; the error is in words.
pub fn trace(tracer: &str, cpus: &[u16], duration: Duration) -> Result<TracerOutput, String> {
    let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    let seconds = duration.as_secs().max(1);
    let (cpus, duration) = (cpus.join(","), format!("{seconds}s"));
    let arguments = [tracer, "top", "-q", "-c", &cpus, "-d", &duration];
    let output = Command::new("rtla")
        .args(arguments)
        .output()
        .map_err(|error| {
            format!(
                "this kernel has the tracer {tracer}, and rtla, which reads it, cannot be run \
                 ({error}): Debian's package is rtla"
            )
        })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().next().unwrap_or("it said nothing");
        return Err(format!("rtla {tracer} failed: {first}"));
    }
    Ok(TracerOutput {
        tracer: tracer.to_owned(),
        command: format!("rtla {}", arguments.join(" ")),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_are_tracers() {
        assert_eq!(of_list("timerlat osnoise hwlat blk nop\n"), WANTED);
        assert_eq!(of_list("osnoise2 nop"), [""; 0]);
        assert_eq!(of_list(""), [""; 0]);
    }
}
