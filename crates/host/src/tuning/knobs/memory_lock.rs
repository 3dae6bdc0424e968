//! `memory-lock`: programs that may lock all their memory, by name. A locked page never faults in the middle of a
//! packet; only the program itself can lock it (mlockall(2), QEMU's `mem-lock=on`), if its limit permits.

use super::prelude::*;
use crate::tuning::items::{Attribute, Task};
use latlab_model::profile::fits;

pub const KNOB: Knob = Knob {
    name: "memory-lock",
    about: "Running programs that may lock all their memory, by name",
    evidence: "mlock(2), Notes on real-time processes; Welch 2015, Table 3.3 (-realtime mlock=on)",
    risk: "locked memory is lost to everything else; a leak in the program exhausts the machine",
    items: Items::Moving(|m| {
        let all = programs(m).into_iter();
        files::some(all.map(limit), "no program can be seen")
    }),
    mapping: Mapping::Each(each),
};

/// One item per process, not per thread: the limit is the process's.
fn programs(machine: &Machine<'_>) -> Vec<Task> {
    let processes = Task::processes(machine.root);
    processes.filter(|task| !task.is_kernel()).collect()
}

fn limit(task: Task) -> Item {
    Item::task(task, Attribute::MemoryLock)
}

fn each(machine: &Machine<'_>, wanted: &Wanted) -> Result<Targets, KnobError> {
    let Wanted::Names(patterns) = wanted else {
        return Err(KnobError::Absent("no programs are named".into()));
    };
    let mut tasks = programs(machine);
    tasks.retain(|task| patterns.iter().any(|p| fits(p, &task.name)));
    tasks.retain(|task| task.is_trusted(machine.root));
    let names = patterns.join(" or ");
    if tasks.is_empty() {
        let reason = format!("no program named {names} runs");
        return Err(KnobError::Absent(reason));
    }
    let unlimited = || Value::from("unlimited/unlimited");
    Ok(tasks.into_iter().map(|t| (limit(t), unlimited())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::knobs::testing::{ROOT, Tree};

    #[test]
    fn matching_programs_get_unlimited() {
        let stat = "4190001 (qemu-system-x86) S 2 0 0 0 -1 64 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n";
        let users = stat.replace("4190001", "4190002");
        let tree = Tree::new(&[
            ("/proc/4190001/stat", stat),
            ("/proc/4190001/status", ROOT),
            ("/proc/4190001/exe", ""),
            ("/proc/4190002/stat", &users),
            ("/proc/4190002/status", "Uid:\t4321\t4321\t4321\t4321\n"),
            ("/proc/4190002/exe", ""),
        ]);
        let root = tree.root();
        let cores =
            latlab_model::profile::Cores::shared(&latlab_model::units::CpuList::new(vec![0]));
        let machine = Machine {
            root: &root,
            cores: &cores,
        };
        let targets = |pattern: &str| each(&machine, &Wanted::Names(vec![pattern.into()]));
        let found = targets("qemu-system-*").unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1, "unlimited/unlimited".into());
        assert!(targets("testpmd").is_err());
        Tree::lacks("memory-lock", "testpmd", "no program named testpmd runs");
    }
}
