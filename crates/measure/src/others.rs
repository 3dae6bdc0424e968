//! The processes outside a lab's nodes, by the CPU time that they had over a trial.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;

use latlab_host::cgroup::lab_group;
use latlab_host::lab::Lab;
use latlab_host::sys::proc::{Stat, numbers};
use latlab_model::results::Consumer;

use crate::affinity::{cpus_of, is_within};

/// Names that are told.
const MAX_NAMES: usize = 3;
/// Share of the CPUs below which a name is not told.
const MIN_SHARE: f64 = 0.01;

#[derive(Debug, Clone, PartialEq)]
struct Process {
    name: String,
    cpu_ns: u64,
}

impl Process {
    /// With the start, which tells it from a later process of the same number.
    fn parse(text: &str) -> Option<(u64, Process)> {
        let stat = Stat::parse(text)?;
        let name = stat.name.to_owned();
        let cpu_ns = stat.cpu_ns()?;
        Some((stat.start_time()?, Process { name, cpu_ns }))
    }
}

/// All processes of the machine at one time, by their numbers and starts.
#[derive(Debug)]
pub(crate) struct Processes(HashMap<(u32, u64), Process>);

/// The owner of a process's time.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Owner {
    /// A node's, which its cgroup counts, latlab's own, or none of the watched CPUs'.
    Counted,
    /// The lab's beside its nodes: the daemon of an overlay, or the supervisor of streams.
    Daemon,
    Other,
}

/// Time since an earlier moment.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Used {
    pub daemons_ns: f64,
    /// By name, those with the most first. A process that has ended meanwhile is not known.
    pub others: Vec<(String, f64)>,
}

impl Used {
    /// The names that had most of the CPUs, of `capacity_ns` in all.
    pub fn most(&self, capacity_ns: f64) -> Vec<Consumer> {
        let shares = self.others.iter().map(|(name, ns)| Consumer {
            name: name.clone(),
            share: ns / capacity_ns,
        });
        let most = shares.filter(|one| one.share >= MIN_SHARE);
        most.take(MAX_NAMES).collect()
    }
}

impl Processes {
    pub fn read() -> Self {
        let all = numbers("/proc").into_iter().filter_map(|pid| {
            let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
            let (start, process) = Process::parse(&String::from_utf8_lossy(&text))?;
            Some(((pid, start), process))
        });
        Self(all.collect())
    }

    /// The time since. A daemon of the lab's that may leave the `watched` CPUs has an unknown share of them, and is not
    /// counted; nor is a process that never comes there.
    pub fn since(&self, lab: &Lab, watched: Option<&BTreeSet<u32>>) -> Used {
        let labelled: HashSet<u32> = lab.labelled().into_iter().collect();
        let group = lab_group(&lab.plan().lab);
        let comes_there = |pid| watched.is_none_or(|watched| !cpus_of(pid).is_disjoint(watched));
        Self::read().beyond(self, |pid| match () {
            () if pid == std::process::id() || is_in(pid, &group) => Owner::Counted,
            () if labelled.contains(&pid) => match is_within(&cpus_of(pid), watched) {
                true => Owner::Daemon,
                false => Owner::Counted,
            },
            () if comes_there(pid) => Owner::Other,
            () => Owner::Counted,
        })
    }

    fn beyond(&self, before: &Self, owner: impl Fn(u32) -> Owner) -> Used {
        let mut used = Used::default();
        let mut others: HashMap<&str, f64> = HashMap::new();
        for (id, process) in &self.0 {
            let earlier = before.0.get(id).map_or(0, |earlier| earlier.cpu_ns);
            let ns = process.cpu_ns.saturating_sub(earlier) as f64;
            // Most processes of a machine sleep.
            if ns == 0.0 {
                continue;
            }
            match owner(id.0) {
                Owner::Counted => {}
                Owner::Daemon => used.daemons_ns += ns,
                Owner::Other => *others.entry(&process.name).or_default() += ns,
            }
        }
        let others = others.into_iter().map(|(name, ns)| (name.to_owned(), ns));
        used.others = others.collect();
        used.others
            .sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        used
    }
}

/// Whether a process is in a cgroup below `group`.
fn is_in(pid: u32, group: &str) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup"));
    text.is_ok_and(|text| text.contains(group))
}

#[cfg(test)]
mod tests {
    use latlab_host::sys::proc::TICK_NS;

    use super::*;

    fn processes(all: &[(u32, u64, &str, u64)]) -> Processes {
        let one = |(pid, start, name, ticks): &(u32, u64, &str, u64)| {
            let name = (*name).to_owned();
            let cpu_ns = ticks * TICK_NS;
            ((*pid, *start), Process { name, cpu_ns })
        };
        Processes(all.iter().map(one).collect())
    }

    #[test]
    fn names_are_told_by_what_all_their_processes_had_since() {
        let before = processes(&[(1, 1, "init", 500), (7, 9, "rustc", 100), (8, 9, "sh", 40)]);
        let after = processes(&[
            (1, 1, "init", 500),
            (7, 9, "rustc", 130),
            // A new one, another of the same number, and one with too little.
            (9, 50, "rustc", 20),
            (8, 60, "cargo", 10),
            (10, 60, "top", 1),
            (11, 1, "qemu", 100),
            (12, 1, "latlab-overlay", 25),
        ]);
        let used = after.beyond(&before, |pid| match pid {
            11 => Owner::Counted,
            12 => Owner::Daemon,
            _ => Owner::Other,
        });
        assert_eq!(used.daemons_ns, 0.25e9);
        // Two CPUs for one second.
        let told = used.most(2e9);
        let told: Vec<_> = told.iter().map(|o| (o.name.as_str(), o.share)).collect();
        assert_eq!(told, [("rustc", 0.25), ("cargo", 0.05)]);
    }

    #[test]
    fn time_in_the_kernel_counts_too() {
        let text = "77 (a b) R 1 1 1 0 -1 4194560 1 2 3 4 30 12 7 8 20 0 1 0 987654 22 1";
        let expected = Process {
            name: "a b".into(),
            cpu_ns: 42 * TICK_NS,
        };
        assert_eq!(Process::parse(text), Some((987_654, expected)));
    }
}
