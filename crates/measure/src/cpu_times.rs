//! CPU time so far: of tasks, and stolen by a hypervisor.
//!
//! The kernel's usual account, `/proc/stat`, charges a whole timer tick to the task that the tick
//! interrupts. A generator that sends ten thousand times a second runs in step with the tick and is
//! interrupted always or never, so the account errs by a tenth of a CPU. The scheduler's accounts are exact:
//! `/proc/schedstat` (kernel: scheduler/sched-stats) and version 1 of cgroups. Ticks are the last resort.

use std::collections::BTreeSet;
use std::fs;

use latlab_host::cgroup::Cgroups;
use latlab_host::sys::proc::TICK_NS;
use rustix::time::{ClockId, clock_gettime};

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CpuTimes {
    pub busy_ns: f64,
    /// Stolen by the hypervisor underneath.
    pub steal_ns: f64,
    /// Used by latlab itself, on any CPU.
    pub own_ns: f64,
    pub count: usize,
}

impl CpuTimes {
    /// Reads the times of all CPUs, or of `only` some.
    pub fn read(only: Option<&BTreeSet<u32>>) -> Option<CpuTimes> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let ticks = of_stat(&stat, only)?;
        let exact = fs::read_to_string("/proc/schedstat")
            .ok()
            .and_then(|text| of_schedstat(&text, only))
            .or_else(|| of_cgroups(only));
        let own = clock_gettime(ClockId::ProcessCPUTime);
        Some(CpuTimes {
            busy_ns: exact.unwrap_or(ticks.busy_ns),
            own_ns: own.tv_sec as f64 * 1e9 + own.tv_nsec as f64,
            ..ticks
        })
    }
}

fn of_cgroups(only: Option<&BTreeSet<u32>>) -> Option<f64> {
    let times = Cgroups::discover().ok()?.cpu_times()?;
    let wanted = (0..)
        .zip(times)
        .filter(|(number, _)| only.is_none_or(|only| only.contains(number)));
    Some(wanted.map(|(_, ns)| ns as f64).sum())
}

/// Fields of each `cpuN` line with its N. The line of the sum has no number.
pub fn by_cpu(text: &str) -> impl Iterator<Item = (u32, Vec<f64>)> {
    text.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let number = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
        Some((number, fields.filter_map(|v| v.parse().ok()).collect()))
    })
}

/// Sum of the seventh field of each `cpuN` line: task time in nanoseconds.
fn of_schedstat(text: &str, only: Option<&BTreeSet<u32>>) -> Option<f64> {
    let times: Option<Vec<f64>> = by_cpu(text)
        .filter(|(number, _)| only.is_none_or(|only| only.contains(number)))
        .map(|(_, fields)| fields.get(6).copied())
        .collect();
    times.filter(|t| !t.is_empty()).map(|t| t.iter().sum())
}

fn of_stat(text: &str, only: Option<&BTreeSet<u32>>) -> Option<CpuTimes> {
    let mut all = CpuTimes::default();
    for (number, times) in by_cpu(text) {
        if only.is_some_and(|only| !only.contains(&number)) {
            continue;
        }
        // user, nice, system, idle, iowait, irq, softirq, steal (proc(5)): interrupts are left out
        // of `busy` because they serve the measured packets.
        let [user, nice, system, _, _, _, _, steal, ..] = times[..] else {
            return None;
        };
        all.busy_ns += (user + nice + system) * TICK_NS as f64;
        all.steal_ns += steal * TICK_NS as f64;
        all.count += 1;
    }
    (all.count > 0).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  52 6 27 501 2 4 5 12 0 0\ncpu0 50 5 25 500 1 3 4 10 0 0\ncpu1 2 1 2 1 1 1 1 2 0 0\nintr 5\n";

    #[test]
    fn ticks_are_read_from_stat() {
        let p = of_stat(STAT, None).unwrap();
        assert_eq!((p.busy_ns, p.steal_ns, p.count), (85e7, 12e7, 2));
        let p = of_stat(STAT, Some(&BTreeSet::from([1]))).unwrap();
        assert_eq!((p.busy_ns, p.steal_ns, p.count), (5e7, 2e7, 1));
        assert_eq!(of_stat(STAT, Some(&BTreeSet::from([7]))), None);
        assert_eq!(of_stat("cpu0 1 2\n", None), None);
        assert_eq!(of_stat("", None), None);
    }

    #[test]
    fn exact_times_are_read_from_schedstat() {
        let text = "version 15\ntimestamp 4295\ncpu0 0 0 0 0 0 0 700 80 9\ndomain0 3 1 2\ncpu1 0 0 0 0 0 0 41 5 6\n";
        assert_eq!(of_schedstat(text, None), Some(741.0));
        assert_eq!(of_schedstat(text, Some(&BTreeSet::from([1]))), Some(41.0));
        assert_eq!(of_schedstat(text, Some(&BTreeSet::from([2]))), None);
        assert_eq!(of_schedstat("cpu0 1 2\n", None), None);
    }

    #[test]
    fn this_machine_can_be_read() {
        let before = CpuTimes::read(None).unwrap();
        let after = CpuTimes::read(None).unwrap();
        assert!(before.count > 0 && after.busy_ns >= before.busy_ns);
        assert!(after.own_ns > 0.0);
    }
}
