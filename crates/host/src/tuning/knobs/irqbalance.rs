//! `irqbalance`: whether the daemon that moves interrupts leaves the isolated CPUs alone.
//!
//! A daemon whose environment bans the isolated CPUs keeps running. Any other is stopped (SIGSTOP) and continued by
//! revert: interrupts stay where the other knobs put them, at once. Its own socket can ban CPUs too, but takes effect
//! after two rounds (20 s) and then moves every movable interrupt. Its files belong to the administrator and are not
//! touched. A service manager can still stop or restart it: systemd sends SIGCONT with its SIGTERM (systemd.kill(5)).

use latlab_model::units::CpuList;

use super::prelude::*;
use crate::tuning::items::{Attribute, Task};

/// The CPUs that the daemon leaves alone (irqbalance(1)).
const BANNED: &str = "IRQBALANCE_BANNED_CPULIST";

pub const KNOB: Knob = Knob {
    name: "irqbalance",
    about: "CPUs that the irqbalance daemon may use; a daemon that would use others is stopped meanwhile",
    evidence: "irqbalance(1), IRQBALANCE_BANNED_CPULIST; Documentation/core-api/irq/irq-affinity.rst",
    risk: "while it is stopped no interrupt is balanced, not even among the other CPUs; for good, ban \
           the isolated ones in /etc/default/irqbalance",
    // The daemon may be started again.
    items: Items::Moving(|m| Ok(vec![Item::task(daemon(m)?, Attribute::Activity)])),
    mapping: Mapping::Each(each),
};

/// The daemon's process, or why there is none.
fn daemon(machine: &Machine<'_>) -> Result<Task, String> {
    let root = machine.root;
    let daemon = Task::processes(root).find(|t| t.name == "irqbalance" && t.is_trusted(root));
    daemon.ok_or_else(|| "irqbalance does not run: nothing moves interrupts back".into())
}

fn banned(machine: &Machine<'_>, task: &Task) -> CpuList {
    let environment = machine.root.environ(task.tid).unwrap_or_default();
    let prefix = format!("{BANNED}=");
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(prefix.as_bytes()));
    let value = value.and_then(|value| std::str::from_utf8(value).ok());
    value.and_then(CpuList::parse).unwrap_or_default()
}

fn each(machine: &Machine<'_>, wanted: &Wanted) -> Result<Targets, KnobError> {
    let allowed = some_cpus(machine, wanted)?;
    let task = daemon(machine)?;
    let banned = banned(machine, &task);
    let all = machine.cores.all();
    let mut forbidden = all.iter().filter(|cpu| !allowed.contains(*cpu));
    if forbidden.all(|cpu| banned.contains(cpu)) {
        let reason = format!(
            "nothing to do: process {} leaves CPUs {banned} alone",
            task.tid
        );
        return Err(KnobError::Absent(reason));
    }
    Ok(vec![(
        Item::task(task, Attribute::Activity),
        Value::Stopped,
    )])
}

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::{ROOT, Tree};

    fn tree(environment: &str) -> Tree {
        let stat = "4190001 (irqbalance) S 1 0 0 0 -1 64 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n";
        Tree::new(&[
            ("/proc/4190001/stat", stat),
            ("/proc/4190001/status", ROOT),
            ("/proc/4190001/exe", ""),
            ("/proc/4190001/environ", environment),
        ])
    }

    /// A user's, a container's, one whose program others may write: each before the real one.
    #[test]
    fn only_a_daemon_of_root_is_stopped_whatever_the_name() {
        use std::os::unix::fs::PermissionsExt;
        let tree = tree("HOME=/\0");
        let (path, root) = (|p: &str| tree.root().path(p), tree.root());
        for (pid, status) in [
            ("4180001", "Uid:\t4321\t4321\t4321\t4321\nNSpid:\t4180001\n"),
            ("4180002", "Uid:\t0\t0\t0\t0\nNSpid:\t4180002\t1\n"),
            ("4180003", "Uid:\t0\t0\t0\t0\nNSpid:\t4180003\n"),
            ("4180004", ""),
        ] {
            let write = |file: &str, text: &str| {
                let file = path(&format!("/proc/{pid}/{file}"));
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, text).unwrap();
            };
            write(
                "stat",
                &root
                    .read("/proc/4190001/stat")
                    .unwrap()
                    .replace("4190001", pid),
            );
            write("status", status);
            write("exe", "");
        }
        let others = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(path("/proc/4180003/exe"), others).unwrap();
        let activity = "activity of thread 4190001 (irqbalance)";
        tree.turns("irqbalance", "housekeeping", activity, "running", "stopped");
    }

    #[test]
    fn an_environment_of_any_size_is_read_in_part_only() {
        let tree = tree("");
        let file = std::fs::File::create(tree.root().path("/proc/4190001/environ")).unwrap();
        let place = 9 << 20;
        let value = b"\0IRQBALANCE_BANNED_CPULIST=1-3\0";
        std::os::unix::fs::FileExt::write_all_at(&file, value, place).unwrap();
        assert_eq!(tree.root().environ(4_190_001).unwrap().len(), 8 << 20);
        let activity = "activity of thread 4190001 (irqbalance)";
        tree.turns("irqbalance", "housekeeping", activity, "running", "stopped");
    }

    #[test]
    fn only_a_daemon_without_the_ban_is_stopped() {
        let knows = tree("HOME=/\0IRQBALANCE_BANNED_CPULIST=1-3\0");
        let absent = knows.change("irqbalance", "housekeeping").absent.unwrap();
        assert!(absent.contains("leaves CPUs 1-3 alone"), "{absent}");
        let activity = "activity of thread 4190001 (irqbalance)";
        for ignorant in ["HOME=/\0", "IRQBALANCE_BANNED_CPULIST=0-2\0"] {
            tree(ignorant).turns("irqbalance", "housekeeping", activity, "running", "stopped");
        }
        Tree::lacks("irqbalance", "housekeeping", "does not run");
    }
}
