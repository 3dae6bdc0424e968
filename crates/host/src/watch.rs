//! Tasks and interrupts seen on quiet CPUs: programs, kernel threads and interrupts, by name.
//!
//! A watcher looks every now and then from another CPU, and compares: a task whose last CPU
//! is a quiet one and whose run time grew ran there, an interrupt whose count there grew came there.
//! It costs the quiet CPUs nothing. A visit shorter than the polling interval
//! may be missed; the recorder of the kernel's own events sees those.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use latlab_model::results::{Intruder, IntruderKind};
use latlab_model::units::CpuList;

use crate::cgroup::{TOP, lab_group};
use crate::sys::proc::{self, Stat};

/// The flag of kernel threads in `/proc/PID/stat` (kernel: include/linux/sched.h, PF_KTHREAD).
const KERNEL_THREAD: u64 = 0x0020_0000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuOwner {
    pub cpus: CpuList,
    /// A lab's own groups: `/latlab/NAME/`.
    pub group: String,
}

impl CpuOwner {
    pub fn of_lab(name: &str, cpus: CpuList) -> CpuOwner {
        let group = lab_group(name);
        CpuOwner { cpus, group }
    }
}

#[derive(Debug)]
pub struct Watcher {
    cpus: BTreeSet<u32>,
    owners: Vec<CpuOwner>,
    tasks: BTreeMap<u32, Task>,
    interrupts: BTreeMap<(u32, u32), u64>,
}

impl Watcher {
    /// Begins to watch `cpus`. No task belongs on those without an owner.
    pub fn begin(cpus: impl IntoIterator<Item = u32>, owners: Vec<CpuOwner>) -> Watcher {
        let mut watcher = Watcher {
            cpus: cpus.into_iter().collect(),
            owners,
            tasks: BTreeMap::new(),
            interrupts: BTreeMap::new(),
        };
        watcher.look();
        watcher
    }

    /// Tasks and interrupts that ran there since the last poll and do not belong there.
    pub fn look(&mut self) -> Vec<Intruder> {
        let mut found = self.poll_tasks();
        found.extend(self.poll_interrupts());
        found.sort_by_key(|i| (i.kind, i.cpu, i.id));
        found
    }

    fn poll_tasks(&mut self) -> Vec<Intruder> {
        let mut now = BTreeMap::new();
        let mut found = Vec::new();
        for id in threads() {
            let Some(task) = Task::read(id, &self.cpus) else {
                continue;
            };
            let before = self.tasks.get(&id).filter(|b| b.started == task.started);
            let ran_ns = task.ran_since(before);
            let known = before.is_some() || !self.tasks.is_empty();
            if known && ran_ns > 0 && self.cpus.contains(&task.cpu) {
                found.extend(self.intruder(id, &task, ran_ns));
            }
            now.insert(id, task);
        }
        self.tasks = now;
        found
    }

    fn intruder(&self, id: u32, task: &Task, ran_ns: u64) -> Option<Intruder> {
        let groups = fs::read_to_string(format!("/proc/{id}/cgroup")).unwrap_or_default();
        let mut here = self.owners.iter().filter(|h| h.cpus.contains(task.cpu));
        if here.any(|owner| groups.contains(&owner.group)) {
            return None;
        }
        let group = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        // Version 1 has many: a lab's says most.
        let ours = format!("/{TOP}/");
        let group = group.max_by_key(|path| (path.contains(&ours), path.len()));
        let group = group.filter(|path| *path != "/");
        Some(Intruder {
            kind: if task.is_kernel {
                IntruderKind::KernelThread
            } else {
                IntruderKind::Process
            },
            name: task.name.clone(),
            id,
            cpu: task.cpu,
            ran_ns: Some(ran_ns),
            times: None,
            group: group.map(str::to_string),
        })
    }

    fn poll_interrupts(&mut self) -> Vec<Intruder> {
        let text = fs::read_to_string("/proc/interrupts").unwrap_or_default();
        let mut found = Vec::new();
        for (number, cpu, count, name) in interrupts(&text) {
            if !self.cpus.contains(&cpu) {
                continue;
            }
            let before = self.interrupts.insert((number, cpu), count);
            let times = count.saturating_sub(before.unwrap_or(count));
            if times > 0 {
                found.push(Intruder {
                    kind: IntruderKind::Interrupt,
                    name,
                    id: number,
                    cpu,
                    ran_ns: None,
                    times: Some(times),
                    group: None,
                });
            }
        }
        found
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Task {
    name: String,
    is_kernel: bool,
    started: u64,
    cpu: u32,
    /// In timer ticks' time.
    ran_ns: u64,
    /// The scheduler's own count, in nanoseconds: read of those on a quiet CPU only, as a machine
    /// has thousands of threads, and where the kernel keeps it.
    exact_ns: Option<u64>,
}

impl Task {
    fn read(id: u32, cpus: &BTreeSet<u32>) -> Option<Task> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let mut task = Task::parse(&stat)?;
        if cpus.contains(&task.cpu) {
            let exact = fs::read_to_string(format!("/proc/{id}/schedstat")).ok();
            task.exact_ns = exact.and_then(|text| text.split(' ').next()?.parse().ok());
        }
        Some(task)
    }

    /// From the text of `/proc/PID/stat` (proc_pid_stat(5)); a name may contain anything.
    fn parse(stat: &str) -> Option<Task> {
        let stat = Stat::parse(stat)?;
        Some(Task {
            name: stat.name.to_string(),
            is_kernel: stat.number(9)? & KERNEL_THREAD != 0,
            started: stat.start_time()?,
            cpu: u32::try_from(stat.number(39)?).ok()?,
            ran_ns: stat.cpu_ns()?,
            exact_ns: None,
        })
    }

    /// For how long it ran since `before`; one born since then, for all of its life.
    fn ran_since(&self, before: Option<&Task>) -> u64 {
        match (before, self.exact_ns, before.and_then(|b| b.exact_ns)) {
            (None, exact, _) => exact.unwrap_or(self.ran_ns),
            (_, Some(now), Some(before)) => now.saturating_sub(before),
            (Some(before), ..) => self.ran_ns.saturating_sub(before.ran_ns),
        }
    }
}

fn threads() -> Vec<u32> {
    let processes = proc::numbers("/proc").into_iter();
    processes.flat_map(proc::threads).collect()
}

/// Interrupts of devices: number, CPU, count, name. Those with a word for a number (timer,
/// rescheduling, function call) are the CPU's own business.
fn interrupts(text: &str) -> Vec<(u32, u32, u64, String)> {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let cpus: Vec<u32> = header
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect();
    let mut all = Vec::new();
    for line in lines {
        let mut words = line.split_whitespace();
        let number = words.next().and_then(|w| w.strip_suffix(':')?.parse().ok());
        let Some(number) = number else { continue };
        let counts: Vec<u64> = words
            .by_ref()
            .take(cpus.len())
            .map_while(|w| w.parse().ok())
            .collect();
        let name = words.last().unwrap_or("?").to_string();
        let each = cpus.iter().zip(counts);
        all.extend(each.map(|(cpu, count)| (number, *cpu, count, name.clone())));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_read_whatever_its_name() {
        let rest = (3..=52).map(|field| match field {
            3 => "S".to_string(),
            9 => (KERNEL_THREAD | 0x40).to_string(),
            14 => "7".into(),
            15 => "5".into(),
            22 => "900".into(),
            39 => "3".into(),
            _ => "0".into(),
        });
        let rest: Vec<String> = rest.collect();
        let task = Task::parse(&format!("12 (a ) (b) {}", rest.join(" "))).unwrap();
        assert_eq!(
            (task.name.as_str(), task.is_kernel, task.cpu),
            ("a ) (b", true, 3)
        );
        assert_eq!((task.started, task.ran_ns), (900, 120_000_000));
        assert_eq!(Task::parse("12 (cut) S 1 2"), None);
        assert_eq!(Task::parse(""), None);
    }

    #[test]
    fn interrupts_of_devices_are_read_by_cpu() {
        let text = "           CPU0       CPU2\n 38:   5   20823  PCI-MSIX-0000:00:03.0 1-edge virtio2-input.0\n\
                    LOC:  1  2  Local timer interrupts\n 39: 1\n";
        assert_eq!(
            interrupts(text),
            [
                (38, 0, 5, "virtio2-input.0".to_string()),
                (38, 2, 20823, "virtio2-input.0".to_string()),
                (39, 0, 1, "?".to_string()),
            ]
        );
    }

    #[test]
    fn a_busy_thread_is_seen_where_it_runs_and_not_where_it_is_welcome() {
        let cpu = rustix::thread::sched_getcpu() as u32;
        let all = 0..1024;
        let mut watcher = Watcher::begin(all, Vec::new());
        let until = std::time::Instant::now() + std::time::Duration::from_millis(30);
        while std::time::Instant::now() < until {}
        let found = watcher.look();
        let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let seen = found
            .iter()
            .find(|i| i.id == me && i.kind == IntruderKind::Process);
        assert!(
            seen.is_some_and(|i| i.ran_ns > Some(10_000_000)),
            "on {cpu}: {found:?}"
        );
        let mut elsewhere = Watcher::begin([4095], Vec::new());
        assert_eq!(elsewhere.look(), []);
    }
}
