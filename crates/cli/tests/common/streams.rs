//! The supervisor of a lab's streams.

use super::Bench;

/// The process that decides, below the one that keeps its listeners.
pub fn supervisor(lab: &str, bench: &Bench) -> rustix::process::Pid {
    let config = bench.run_dir().join(lab).join("streams/config");
    let is_it = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("--kept") && line.contains(&config.display().to_string())
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let mut all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    rustix::process::Pid::from_raw(all.find(is_it).unwrap()).unwrap()
}
