//! `threads`: the scheduling policy of threads by name: SCHED_FIFO, SCHED_RR or SCHED_DEADLINE for threads that
//! must run at once (vCPUs, ksoftirqd, threaded interrupts), another nice value for threads that may wait.

use super::prelude::*;
use crate::tuning::items::{Attribute, Task};
use latlab_model::profile::fits;

pub const KNOB: Knob = Knob {
    name: "threads",
    about: "Scheduling policy of threads by their name",
    evidence: "sched(7); Documentation/scheduler/sched-rt-group.rst and sched-deadline.rst; Welch 2015, 3.1.3.1 (PREEMPT_RT)",
    risk: "a real-time thread that does not sleep keeps others off its core, the kernel's included",
    items: Items::Moving(|m| {
        let all = Task::all(m.root).into_iter();
        files::some(all.map(policy), "no thread can be seen")
    }),
    mapping: Mapping::Each(each),
};

fn policy(task: Task) -> Item {
    Item::task(task, Attribute::Policy)
}

fn each(machine: &Machine<'_>, wanted: &Wanted) -> Result<Targets, KnobError> {
    let Wanted::Threads(rules) = wanted else {
        return Err(KnobError::Absent("no threads are named".into()));
    };
    let mut targets = Targets::new();
    for task in Task::all(machine.root) {
        let rule = rules.iter().find(|r| fits(&r.pattern, &task.name));
        if let Some(rule) = rule.filter(|_| task.is_trusted(machine.root)) {
            let policy_of_rule = Value::Policy {
                policy: rule.policy.to_string(),
                nice: None,
            };
            targets.push((policy(task), policy_of_rule));
        }
    }
    let names: Vec<&str> = rules.iter().map(|r| r.pattern.as_str()).collect();
    if targets.is_empty() {
        let reason = format!("no thread is named {}", names.join(" or "));
        return Err(KnobError::Absent(reason));
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::knobs::testing::{ROOT, Tree};

    #[test]
    fn the_first_matching_pattern_of_a_thread_wins() {
        let stat = |tid: u32, name: &str| {
            format!("{tid} ({name}) S 2 0 0 0 -1 64 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n")
        };
        let (one, two) = (stat(4_190_001, "worker/1"), stat(4_190_002, "worker/2"));
        let (three, four) = (stat(4_190_003, "worker/1"), stat(4_190_004, "worker/2"));
        let five = stat(4_190_005, "worker/5");
        let tree = Tree::new(&[
            ("/proc/4190001/stat", &one),
            ("/proc/4190001/status", ROOT),
            ("/proc/4190001/exe", ""),
            ("/proc/4190001/task/4190001/stat", ""),
            ("/proc/4190001/task/4190002/stat", ""),
            ("/proc/4190002/stat", &two),
            ("/proc/4190002/status", ROOT),
            ("/proc/4190002/exe", ""),
            // Threads of the same name: of another user, and of a lab's container.
            ("/proc/4190003/stat", &three),
            ("/proc/4190003/status", "Uid:\t4321\t4321\t4321\t4321\n"),
            ("/proc/4190003/exe", ""),
            ("/proc/4190003/task/4190003/stat", ""),
            ("/proc/4190004/stat", &four),
            (
                "/proc/4190004/status",
                "Uid:\t0\t0\t0\t0\nNSpid:\t4190004\t7\n",
            ),
            ("/proc/4190004/cgroup", "0::/latlab/lab/c\n"),
            ("/proc/4190004/task/4190004/stat", ""),
            // A lab's QEMU, running as an unprivileged user.
            ("/proc/4190005/stat", &five),
            (
                "/proc/4190005/status",
                "Uid:\t4321\t4321\t4321\t4321\nNSpid:\t4190005\n",
            ),
            ("/proc/4190005/cgroup", "0::/latlab/lab/v\n"),
            ("/proc/4190005/task/4190005/stat", ""),
        ]);
        let root = tree.root();
        let cores =
            latlab_model::profile::Cores::shared(&latlab_model::units::CpuList::new(vec![0]));
        let machine = Machine {
            root: &root,
            cores: &cores,
        };
        let mut profile = latlab_model::profile::Profile::empty();
        profile
            .want("threads", "{worker/2: fifo:2, worker/*: \"other:5\"}")
            .unwrap();
        let targets = each(&machine, &profile.knobs["threads"]).unwrap();
        let values: Vec<String> = targets.iter().map(|(_, v)| v.to_string()).collect();
        assert_eq!(values, ["other:5", "fifo:2", "other:5"]);
        Tree::lacks(
            "threads",
            "{worker/*: fifo:2}",
            "no thread is named worker/*",
        );
    }
}
