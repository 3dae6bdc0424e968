//! `irqbalance`: whether the daemon that moves interrupts about leaves the isolated processors alone.
//!
//! It is somebody else's service, configured by its own file and restarted by its own manager, so
//! latlab neither stops nor reconfigures it: what it undid in a running daemon would be gone with the
//! next restart. It is looked at instead. Where it would move interrupts back to the processors that
//! are to be quiet, tuning is refused before the first change, with what to tell it.

use latlab_model::units::CpuList;

use super::prelude::*;
use crate::tuning::items::task::Task;

/// What tells the daemon which processors to leave alone (irqbalance(1)).
const BANNED: &str = "IRQBALANCE_BANNED_CPULIST";

/// See the module.
pub const KNOB: Knob = Knob {
    name: "irqbalance",
    about: "Processors that the irqbalance daemon may use; it is looked at, never changed",
    evidence: "irqbalance(1), IRQBALANCE_BANNED_CPULIST; Documentation/core-api/irq/irq-affinity.rst",
    risk: "none: nothing of the daemon's is changed",
    items: |m| match daemon(m) {
        None => Err(NOT_RUNNING.into()),
        Some(task) => Err(format!(
            "process {} leaves alone: {}",
            task.tid,
            file::list(&banned(m, &task))
        )),
    },
    value: Value::Each(each),
    moves: false,
};

const NOT_RUNNING: &str = "irqbalance does not run: nothing moves interrupts back";

fn daemon(machine: &Machine<'_>) -> Option<Task> {
    let tasks = Task::all(machine.root);
    tasks.into_iter().find(|task| task.name == "irqbalance")
}

fn banned(machine: &Machine<'_>, task: &Task) -> CpuList {
    let environment = machine.root.read(format!("/proc/{}/environ", task.tid));
    let environment = environment.unwrap_or_default();
    let mut variables = environment.split('\0');
    let value = variables.find_map(|v| v.strip_prefix(BANNED)?.strip_prefix('='));
    value.and_then(CpuList::parse).unwrap_or_default()
}

fn each(machine: &Machine<'_>, wanted: &Wanted) -> Result<Wishes, Why> {
    let allowed = some_cpus(machine, wanted)?;
    let Some(task) = daemon(machine) else {
        return Err(Why::Absent(NOT_RUNNING.into()));
    };
    let banned = banned(machine, &task);
    let all = machine.cores.all();
    let open: Vec<u32> = all
        .iter()
        .filter(|c| !allowed.contains(*c) && !banned.contains(*c))
        .collect();
    if open.is_empty() {
        let reason = format!("nothing to do: process {} leaves alone {banned}", task.tid);
        return Err(Why::Absent(reason));
    }
    let forbidden = CpuList::new(all.iter().filter(|c| !allowed.contains(*c)).collect());
    Err(Why::Impossible(
        format!(
            "irqbalance (process {}) would move interrupts back to processors {}",
            task.tid,
            CpuList::new(open)
        ),
        format!(
            "set {BANNED}={forbidden} in /etc/default/irqbalance and restart it, stop it \
             (`systemctl stop irqbalance`), or use `--without irqbalance`"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(environment: &str) -> Tree {
        let stat = "4190001 (irqbalance) S 1 0 0 0 -1 64 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n";
        Tree::new(&[
            ("/proc/4190001/stat", stat),
            ("/proc/4190001/task/4190001/stat", ""),
            ("/proc/4190001/environ", environment),
        ])
    }

    #[test]
    fn a_daemon_that_would_come_back_is_refused_and_one_that_knows_is_not() {
        let list = |text| CpuList::parse(text).unwrap();
        let cores = latlab_model::profile::Cores::new(&list("0-3"), &list("2-3")).unwrap();
        let wanted = Wanted::Cpus(latlab_model::profile::CpuChoice::Housekeeping);
        let knows = tree("HOME=/\0IRQBALANCE_BANNED_CPULIST=1-3\0");
        let absent = knows.change("irqbalance", "housekeeping").absent.unwrap();
        assert!(absent.contains("leaves alone 1-3"), "{absent}");
        let ignorant = tree("HOME=/\0");
        let root = ignorant.root();
        let machine = Machine {
            root: &root,
            cores: &cores,
        };
        let Err(Why::Impossible(message, hint)) = each(&machine, &wanted) else {
            panic!("it must be refused")
        };
        assert!(message.contains("back to processors 2-3"), "{message}");
        assert!(hint.contains("IRQBALANCE_BANNED_CPULIST=2-3"), "{hint}");
        Tree::lacks("irqbalance", "housekeeping", "does not run");
    }
}
