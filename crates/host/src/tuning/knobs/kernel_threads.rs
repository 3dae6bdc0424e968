//! `kernel-threads`: the affinity of the kernel's own threads. Threads bound to a CPU stay there, and interrupt
//! threads follow their interrupt; all others can move.

use latlab_model::units::CpuList;

use super::prelude::*;
use crate::tuning::items::{Attribute, Task};

pub const KNOB: Knob = Knob {
    name: "kernel-threads",
    about: "CPUs of the kernel's own threads, where they are not bound",
    evidence: "Documentation/admin-guide/kernel-per-CPU-kthreads.rst; Daichendt 2022, 5.6.4 (binding RCU's threads)",
    risk: "RCU's and memory management's threads share the housekeeping CPUs",
    items: Items::Moving(|m| {
        let mut tasks = Task::all(m.root);
        tasks.retain(|t| t.is_kernel() && !t.is_bound() && !t.name.starts_with("irq/"));
        let items = tasks
            .into_iter()
            .map(|t| Item::task(t, Attribute::Affinity));
        files::some(
            items,
            "no kernel thread can be seen from here, as in a container",
        )
    }),
    mapping: Mapping::Moving { each, retarget },
};

fn each(machine: &Machine<'_>, wanted: &Wanted) -> Result<Targets, KnobError> {
    let cpus = some_cpus(machine, wanted)?;
    let targets = KNOB.items.find(machine)?.into_iter().filter_map(|item| {
        let now = item.read(machine.root).ok().flatten()?;
        Some((item, narrowed(&now, &cpus)))
    });
    Ok(targets.collect())
}

fn retarget(machine: &Machine<'_>, wanted: &Wanted, entry: &Entry) -> Result<Value, KnobError> {
    Ok(narrowed(&entry.original, &some_cpus(machine, wanted)?))
}

/// A thread that already runs on a subset of the CPUs only is left there.
fn narrowed(now: &Value, cpus: &CpuList) -> Value {
    let subset = |list: CpuList| list.iter().all(|cpu| cpus.contains(cpu));
    if now.cpus().is_some_and(subset) {
        now.clone()
    } else {
        cpus.to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    /// `/proc/PID/stat`: a name in brackets, then numbers.
    fn stat(tid: u32, name: &str, flags: u32) -> String {
        format!("{tid} ({name}) S 2 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n")
    }

    #[test]
    fn only_unbound_kernel_threads_are_moved() {
        let (kernel, bound) = (0x0020_8040, 0x0420_8040);
        let threads = [
            (2, "kthreadd", kernel, "0-3"),
            (16, "ksoftirqd/2", bound, "2"),
            (17, "rcu_preempt", kernel, "0-3"),
            (18, "kswapd0", kernel, "1"),
            (19, "irq/24-eth0", kernel, "2"),
            (40, "bash", 0x0040_0000, "0-3"),
        ];
        let mut files = Vec::new();
        for (tid, name, flags, cpus) in threads {
            files.push((format!("/proc/{tid}/stat"), stat(tid, name, flags)));
            files.push((format!("/proc/{tid}/task/{tid}/stat"), String::new()));
            files.push((
                format!("/proc/{tid}/status"),
                format!("Cpus_allowed_list:\t{cpus}\n"),
            ));
        }
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(p, t)| (p.as_str(), t.as_str()))
            .collect();
        let plan = Tree::new(&files).plan("kernel-threads", "housekeeping");
        let text = |(a, b, c): (&str, &str, &str)| (a.to_string(), b.to_string(), c.to_string());
        assert_eq!(
            plan,
            [
                text(("CPUs of thread 2 (kthreadd)", "0-3", "0-1")),
                text(("CPUs of thread 17 (rcu_preempt)", "0-3", "0-1")),
                text(("CPUs of thread 18 (kswapd0)", "1", "1")),
            ]
        );
        Tree::lacks("kernel-threads", "housekeeping", "as in a container");
    }
}
