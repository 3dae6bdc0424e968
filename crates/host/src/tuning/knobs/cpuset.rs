//! `cpuset`: a part of the processors that the scheduler gives to nobody by itself.
//!
//! On control groups version 2 it is a partition: a group `latlab.isolated` with the processors, and
//! `cpuset.cpus.partition` set to `isolated` (nobody balances load there) or `root` (balanced within).
//! The kernel takes the processors away from everybody else.
//!
//! On version 1 nothing is taken away by itself. So every thread of the root that may move, the
//! kernel's included, is moved to a group `latlab.housekeeping`; groups of others are narrowed to the
//! housekeeping processors; `latlab.isolated` has its processors exclusively, so that no group made
//! later may overlap it, and load balancing over all processors ends (`isolated`: within it too).
//! Each thread's group and processors are journaled and given back.

use std::path::{Path, PathBuf};

use latlab_model::units::CpuList;

use super::prelude::*;
use crate::cgroup::PARTITION as ISOLATED;
use crate::sys::mount::unescape;
use crate::tuning::items::group::PRESENT;
use crate::tuning::items::task::{Attribute, Task, WITHIN};
use crate::tuning::root::Root;

/// The group with everything else, on version 1.
const HOUSEKEEPING: &str = "latlab.housekeeping";

/// See the module.
pub const KNOB: Knob = Knob {
    name: "cpuset",
    about: "A partition of processors that the scheduler gives to nobody by itself",
    evidence: "Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.partition; \
               Documentation/admin-guide/cgroup-v1/cpusets.rst, 1.4 and 1.7; Daichendt 2022, 5.5.2 and 6.5; \
               Welch 2015, 3.1.3.2 (isolcpus)",
    risk: "isolated: threads on the partition are not balanced, each must be pinned to one processor; \
           version 1: every thread of the root control group is moved, which takes milliseconds each",
    items: |m| {
        let (_, mount) = hierarchy(m.root)?;
        let group = mount.join(ISOLATED);
        Ok(vec![match m.root.has(&group) {
            true => Item::file(group.join("cpuset.cpus"), Form::List),
            false => Item::Group { path: group },
        }])
    },
    value: Value::Moving { each, again },
    moves: true,
};

/// The processors of the partition that is in force; none when there is no partition.
pub fn partition_cpus(root: &Root) -> CpuList {
    let text = hierarchy(root).and_then(|(_, mount)| {
        let file = mount.join(ISOLATED).join("cpuset.cpus");
        root.read(file).map_err(|e| e.to_string())
    });
    text.ok()
        .and_then(|t| CpuList::parse(t.trim()))
        .unwrap_or_default()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// Where `cpuset` is mounted.
fn hierarchy(root: &Root) -> Result<(Version, PathBuf), String> {
    let mounts = root.read("/proc/self/mountinfo").unwrap_or_default();
    let mut reason = "no control groups with `cpuset` are mounted".to_string();
    for line in mounts.lines() {
        // 34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let left: Vec<&str> = left.split(' ').collect();
        let (Some(inside), Some(point)) = (left.get(3), left.get(4)) else {
            continue;
        };
        let point = unescape(point.as_bytes());
        let mut right = right.split(' ');
        let version = match right.next() {
            Some("cgroup")
                if right
                    .nth(1)
                    .is_some_and(|o| o.split(',').any(|o| o == "cpuset")) =>
            {
                Version::V1
            }
            Some("cgroup2") if has_cpuset(root, &point) => Version::V2,
            _ => continue,
        };
        if *inside != "/" {
            reason = format!(
                "{} is only a part of the hierarchy, as in a container",
                point.display()
            );
            continue;
        }
        return Ok((version, point));
    }
    Err(reason)
}

fn has_cpuset(root: &Root, point: &Path) -> bool {
    let controllers = root.read(point.join("cgroup.controllers"));
    controllers.is_ok_and(|text| text.split_whitespace().any(|word| word == "cpuset"))
}

fn each(machine: &Machine<'_>, wanted: &Wanted) -> Result<Wishes, Why> {
    let mode = word(machine, wanted)?;
    let (version, mount) = hierarchy(machine.root)?;
    let cores = machine.cores;
    if cores.isolated.is_empty() {
        let hint = "name them with `--cpus`, or leave `cpuset` out";
        return Err(Why::Impossible(
            "no processors are to be isolated".into(),
            hint.into(),
        ));
    }
    let mut wishes = Wishes::new();
    // Once the groups are there, what is seen of threads is what the groups made of it.
    if !machine.root.has(mount.join(ISOLATED)) {
        keep_pinned(machine, version, &mut wishes);
    }
    narrow_others(
        machine.root,
        &mount,
        &mount,
        &cores.isolated,
        &cores.housekeeping,
        &mut wishes,
    )?;
    match version {
        Version::V2 => partition(&mount, &cores.isolated, &mode, &mut wishes),
        Version::V1 => shield(machine, &mount, &mode, &mut wishes)?,
    }
    Ok(wishes)
}

fn set(wishes: &mut Wishes, directory: &Path, file: &str, form: Form, value: impl Into<String>) {
    wishes.push((Item::file(directory.join(file), form), value.into()));
}

fn make(wishes: &mut Wishes, path: &Path) {
    let path = path.to_path_buf();
    wishes.push((Item::Group { path }, PRESENT.into()));
}

/// Remembers the processors of threads that were given fewer than all. Those that are moved to another
/// group carry them along.
fn keep_pinned(machine: &Machine<'_>, version: Version, wishes: &mut Wishes) {
    let (root, cores) = (machine.root, machine.cores);
    let all = cores.all().to_string();
    for task in Task::all(root) {
        let group = root.read(format!("/proc/{}/cpuset", task.tid));
        let moved = version == Version::V1 && group.is_ok_and(|g| g.trim() == "/");
        let bound = task.is_bound();
        let attribute = Attribute::Pinning;
        let item = Item::Task { task, attribute };
        let now = item.read(root).ok().flatten();
        if !moved && !bound && now.is_some_and(|now| now != all) {
            wishes.push((item, format!("{WITHIN}{}", cores.housekeeping)));
        }
    }
}

fn partition(mount: &Path, isolated: &CpuList, mode: &str, wishes: &mut Wishes) {
    let group = mount.join(ISOLATED);
    set(
        wishes,
        mount,
        "cgroup.subtree_control",
        Form::Cpuset,
        "+cpuset",
    );
    make(wishes, &group);
    set(
        wishes,
        &group,
        "cpuset.cpus",
        Form::List,
        isolated.to_string(),
    );
    set(wishes, &group, "cpuset.cpus.partition", Form::Text, mode);
}

fn shield(machine: &Machine<'_>, mount: &Path, mode: &str, wishes: &mut Wishes) -> Result<(), Why> {
    let (root, cores) = (machine.root, machine.cores);
    let mems = root.read(mount.join("cpuset.mems"));
    let mems = mems.map_err(|e| format!("{} cannot be read: {e}", mount.display()))?;
    let mems = CpuList::parse(&mems).unwrap_or_default();
    for (name, cpus) in [
        (HOUSEKEEPING, &cores.housekeeping),
        (ISOLATED, &cores.isolated),
    ] {
        let group = mount.join(name);
        make(wishes, &group);
        set(wishes, &group, "cpuset.cpus", Form::List, cpus.to_string());
        set(wishes, &group, "cpuset.mems", Form::List, file::list(&mems));
    }
    let isolated = mount.join(ISOLATED);
    set(wishes, &isolated, "cpuset.cpu_exclusive", Form::Text, "1");
    set(
        wishes,
        &isolated,
        "cpuset.sched_load_balance",
        Form::Text,
        balanced(mode),
    );
    set(wishes, mount, "cpuset.sched_load_balance", Form::Text, "0");
    let attribute = Attribute::Cpuset {
        mount: mount.to_path_buf(),
    };
    for task in Task::all(root) {
        // The kernel refuses to move what is bound, and the thread that makes its threads.
        let stays = task.is_bound() || (task.is_kernel() && task.name == "kthreadd");
        let item = Item::Task {
            task,
            attribute: attribute.clone(),
        };
        let group = || item.read(root).ok().flatten();
        if !stays && group().is_some_and(|g| g.starts_with("/ ")) {
            wishes.push((item, format!("/{HOUSEKEEPING}")));
        }
    }
    Ok(())
}

/// Narrows the groups of others to the housekeeping processors, the innermost first.
fn narrow_others(
    root: &Root,
    mount: &Path,
    directory: &Path,
    isolated: &CpuList,
    housekeeping: &CpuList,
    wishes: &mut Wishes,
) -> Result<(), Why> {
    for name in root.names(directory) {
        let group = directory.join(&name);
        let own = directory == mount && (name == ISOLATED || name == HOUSEKEEPING);
        if own || !root.path(&group).is_dir() {
            continue;
        }
        narrow_others(root, mount, &group, isolated, housekeeping, wishes)?;
        let item = Item::file(group.join("cpuset.cpus"), Form::List);
        let Some(cpus) = item
            .read(root)
            .ok()
            .flatten()
            .and_then(|t| CpuList::parse(&t))
        else {
            continue;
        };
        if let Some(rest) = without_isolated(&group, &cpus, isolated, housekeeping)? {
            wishes.push((item, rest.to_string()));
        }
    }
    Ok(())
}

/// What a group keeps of its processors; nothing said where none of them is to be isolated.
fn without_isolated(
    group: &Path,
    cpus: &CpuList,
    isolated: &CpuList,
    housekeeping: &CpuList,
) -> Result<Option<CpuList>, Why> {
    if !cpus.iter().any(|cpu| isolated.contains(cpu)) {
        return Ok(None);
    }
    let rest = cpus.iter().filter(|cpu| housekeeping.contains(*cpu));
    let rest = CpuList::new(rest.collect());
    match rest.is_empty() {
        false => Ok(Some(rest)),
        true => Err(Why::Impossible(
            format!(
                "control group {} has processors {cpus} only, which are to be isolated",
                group.display()
            ),
            "isolate other processors, or end what runs there".into(),
        )),
    }
}

/// What was made for one division of the processors, in another.
fn again(machine: &Machine<'_>, wanted: &Wanted, entry: &Entry) -> Result<String, Why> {
    let cores = machine.cores;
    let (path, form) = match &entry.item {
        Item::File { path, form } => (path, form),
        Item::Task {
            attribute: Attribute::Pinning,
            ..
        } => return Ok(format!("{WITHIN}{}", cores.housekeeping)),
        _ => return Ok(entry.wanted.clone()),
    };
    let (_, mount) = hierarchy(machine.root)?;
    let group = path.parent().unwrap_or(path);
    let file = path.file_name().unwrap_or_default();
    let mode = word(machine, wanted)?;
    if group == mount.join(ISOLATED) {
        return Ok(match file.to_str() {
            Some("cpuset.cpus") => cores.isolated.to_string(),
            Some("cpuset.cpus.partition") => mode,
            Some("cpuset.sched_load_balance") => balanced(&mode).into(),
            _ => entry.wanted.clone(),
        });
    }
    if group == mount.join(HOUSEKEEPING) && file == "cpuset.cpus" {
        return Ok(cores.housekeeping.to_string());
    }
    match (form, CpuList::parse(&entry.original)) {
        (Form::List, Some(had)) if file == "cpuset.cpus" => {
            let rest = without_isolated(group, &had, &cores.isolated, &cores.housekeeping)?;
            Ok(rest.unwrap_or(had).to_string())
        }
        _ => Ok(entry.wanted.clone()),
    }
}

/// Whether the scheduler balances within a partition of this kind, on version 1.
fn balanced(mode: &str) -> &'static str {
    if mode == "root" { "1" } else { "0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "34 31 0:31 / /cg rw,relatime - cgroup cgroup rw,cpuset\n";
    const V2: &str = "34 31 0:31 / /cg rw,relatime - cgroup2 cgroup2 rw\n";

    fn values(plan: Vec<(String, String, String)>) -> Vec<String> {
        plan.into_iter()
            .map(|(what, from, to)| format!("{what}: {from} → {to}"))
            .collect()
    }

    #[test]
    fn version_2_makes_a_partition_and_narrows_others() {
        let tree = Tree::new(&[
            ("/proc/self/mountinfo", V2),
            ("/cg/cgroup.controllers", "cpuset cpu memory\n"),
            ("/cg/cgroup.subtree_control", "cpu\n"),
            ("/cg/docker/cpuset.cpus", "1-2\n"),
            ("/cg/system.slice/cpuset.cpus", "\n"),
        ]);
        assert_eq!(
            values(tree.plan("cpuset", "isolated")),
            [
                "/cg/docker/cpuset.cpus: 1-2 → 1",
                "/cg/cgroup.subtree_control: -cpuset → +cpuset",
                "control group /cg/latlab.isolated: absent → present",
                "/cg/latlab.isolated/cpuset.cpus: absent → 2-3",
                "/cg/latlab.isolated/cpuset.cpus.partition: absent → isolated",
            ]
        );
        Tree::lacks("cpuset", "isolated", "no control groups with `cpuset`");
    }

    #[test]
    fn version_1_moves_what_may_move() {
        let stat = |tid: u32, flags: u32| {
            format!("{tid} (x) S 2 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n")
        };
        let (free, bound) = (stat(4_190_001, 64), stat(4_190_002, 0x0420_8040));
        let status = "Cpus_allowed_list:\t0-3\n";
        let mut files = vec![
            ("/proc/self/mountinfo", V1),
            ("/cg/cpuset.mems", "0\n"),
            ("/cg/cpuset.sched_load_balance", "1\n"),
            ("/proc/4190001/stat", &*free),
            ("/proc/4190002/stat", &*bound),
        ];
        for pid in ["4190001", "4190002"] {
            for (file, text) in [("cpuset", "/\n"), ("status", status), ("task/PID/stat", "")] {
                let path = format!("/proc/{pid}/{}", file.replace("PID", pid));
                files.push((Box::leak(path.into_boxed_str()), text));
            }
        }
        let tree = Tree::new(&files);
        let plan = values(tree.plan("cpuset", "isolated"));
        assert_eq!(plan.len(), 10, "{plan:#?}");
        assert_eq!(plan[8], "/cg/cpuset.sched_load_balance: 1 → 0");
        assert_eq!(
            plan[9],
            "cpuset of thread 4190001 (x): / 0-3 → /latlab.housekeeping"
        );
    }

    #[test]
    fn a_group_with_isolated_processors_only_is_refused() {
        let tree = Tree::new(&[
            ("/proc/self/mountinfo", V1),
            ("/cg/cpuset.mems", "0\n"),
            ("/cg/other/deep/cpuset.cpus", "3\n"),
        ]);
        let list = |text| CpuList::parse(text).unwrap();
        let cores = latlab_model::profile::Cores::new(&list("0-3"), &list("2-3")).unwrap();
        let root = tree.root();
        let machine = Machine {
            root: &root,
            cores: &cores,
        };
        let Err(Why::Impossible(message, _)) = each(&machine, &Wanted::Word("isolated")) else {
            panic!("it must be refused")
        };
        assert!(
            message.contains("/cg/other/deep has processors 3 only"),
            "{message}"
        );
    }
}
