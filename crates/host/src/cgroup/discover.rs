//! Which cgroup hierarchies this machine offers, read from two texts of the kernel.
//!
//! `/proc/self/mountinfo` says what is mounted where; a few files of the unified tree say what may be used there.
//! There is nothing to configure. The same binary runs on version 2 (everything in one tree), on version 1 (a tree for
//! each controller), on the mixture that systemd calls hybrid, and where nothing is mounted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::limits::Controller;
use crate::sys::proc;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Mount point of the unified hierarchy, when it is writable.
    pub unified: Option<PathBuf>,
    pub on_unified: Vec<Controller>,
    /// Mount points of the controllers that have a hierarchy of their own.
    pub on_own: BTreeMap<Controller, PathBuf>,
    pub missing: BTreeMap<Controller, String>,
}

/// The hierarchies among the mounts. Controller files of the unified one are read through its mount point.
pub(super) fn discover(mounts: &[proc::Mount]) -> Found {
    let is_hierarchy = |mount: &&proc::Mount| matches!(mount.kind.as_str(), "cgroup" | "cgroup2");
    let mounts: Vec<&proc::Mount> = mounts.iter().filter(is_hierarchy).collect();
    let mut found = Found::default();
    for mount in &mounts {
        let is_read_only = mount.options.split(',').any(|option| option == "ro");
        let is_unified = mount.kind == "cgroup2";
        let names = mount.super_options.split(',').filter(|_| !is_unified);
        let controllers = names.filter_map(Controller::from_name);
        if is_read_only {
            let reason = format!("{} is mounted read-only", mount.point.display());
            let missing = controllers.map(|controller| (controller, reason.clone()));
            found.missing.extend(missing);
        } else if !is_unified {
            for controller in controllers {
                let place = found.on_own.entry(controller);
                place.or_insert_with(|| mount.point.clone());
            }
        } else if found.unified.is_none() {
            found.unified = Some(mount.point.clone());
            unified_controllers(&mount.point, &mut found);
        }
    }
    if found.unified.is_some() {
        // A BPF program does it there, and one hierarchy less is to be joined.
        found.on_own.remove(&Controller::Devices);
        found.missing.remove(&Controller::Devices);
    }
    explain_missing(&mounts, &mut found);
    // A node with huge pages has a file system with an end as well.
    found.missing.remove(&Controller::Hugetlb);
    found
}

/// Fills in the controllers that the unified tree below `root` lets us enable for children.
///
/// A group other than the true root cannot both hold processes and hand controllers to children
/// ("no internal processes"). Inside another manager's container the visible root is such a group,
/// so there only what is enabled already can be used.
fn unified_controllers(root: &Path, found: &mut Found) {
    let available = read_controllers(&root.join("cgroup.controllers"));
    let enabled = read_controllers(&root.join("cgroup.subtree_control"));
    let true_root = !root.join("cgroup.type").exists();
    let occupied = !true_root
        && fs::read_to_string(root.join("cgroup.procs")).is_ok_and(|s| !s.trim().is_empty());
    for controller in available {
        if occupied && !enabled.contains(&controller) {
            let reason = format!(
                "{} holds processes of its own, so the kernel does not let it enable `{}` for \
                 children",
                root.display(),
                controller.name()
            );
            found.missing.insert(controller, reason);
        } else {
            found.on_unified.push(controller);
        }
    }
}

fn read_controllers(file: &Path) -> Vec<Controller> {
    fs::read_to_string(file)
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(Controller::from_name)
        .collect()
}

/// Gives every controller that ended up nowhere a reason, and drops reasons that do not apply.
fn explain_missing(mounts: &[&proc::Mount], found: &mut Found) {
    let devices = found.unified.is_none().then_some(Controller::Devices);
    for controller in Controller::LIMITING.into_iter().chain(devices) {
        if found.on_unified.contains(&controller) || found.on_own.contains_key(&controller) {
            found.missing.remove(&controller);
            continue;
        }
        found.missing.entry(controller).or_insert_with(|| {
            if mounts.is_empty() {
                "no cgroup file system is mounted".to_owned()
            } else {
                format!(
                    "no mounted hierarchy carries the `{}` controller",
                    controller.name()
                )
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(mountinfo: &str) -> Found {
        discover(&proc::mounts(mountinfo.as_bytes()))
    }

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:5 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory ro,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
";

    #[test]
    fn version_1_has_a_place_for_each_controller() {
        let found = found_in(HYBRID);
        assert_eq!(
            found.on_own[&Controller::Cpu],
            Path::new("/sys/fs/cgroup/cpu,cpuacct")
        );
        assert_eq!(
            found.on_own[&Controller::Cpuacct],
            Path::new("/sys/fs/cgroup/cpu,cpuacct")
        );
        assert!(found.missing[&Controller::Memory].contains("read-only"));
        assert!(found.missing[&Controller::Pids].contains("no mounted hierarchy"));
        assert_eq!(found.unified, None);
    }

    fn unified_tree(name: &str, files: &[(&str, &str)]) -> (PathBuf, Found) {
        let root = std::env::temp_dir().join(format!("latlab-cg-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        for (file, text) in files {
            fs::write(root.join(file), text).unwrap();
        }
        let line = format!("30 23 0:26 / {} rw - cgroup2 cgroup2 rw\n", root.display());
        let found = found_in(&line);
        fs::remove_dir_all(&root).unwrap();
        (root, found)
    }

    #[test]
    fn version_2_lists_the_controllers_the_root_can_enable() {
        let (root, found) = unified_tree(
            "root",
            &[
                ("cgroup.controllers", "cpuset cpu io memory pids\n"),
                ("cgroup.procs", "1\n"),
            ],
        );
        assert_eq!(found.unified.as_deref(), Some(&*root));
        let all = [
            Controller::Cpuset,
            Controller::Cpu,
            Controller::Memory,
            Controller::Pids,
        ];
        assert_eq!(found.on_unified, all);
    }

    #[test]
    fn an_occupied_group_hands_on_only_enabled_controllers() {
        let (_, found) = unified_tree(
            "leaf",
            &[
                ("cgroup.type", "domain\n"),
                ("cgroup.controllers", "cpu memory pids\n"),
                ("cgroup.subtree_control", "memory\n"),
                ("cgroup.procs", "17\n"),
            ],
        );
        assert_eq!(found.on_unified, [Controller::Memory]);
        assert!(found.missing[&Controller::Cpu].contains("processes of its own"));
    }

    #[test]
    fn nothing_mounted_is_a_reason_for_everything() {
        let found = found_in("22 27 0:21 / /proc rw - proc proc rw\ngarbage\n");
        for controller in Controller::LIMITING {
            assert_eq!(
                found.missing[&controller],
                "no cgroup file system is mounted"
            );
        }
    }
}
