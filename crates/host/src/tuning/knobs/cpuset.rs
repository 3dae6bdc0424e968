//! `cpuset`: a partition of CPUs on which the scheduler places no thread by itself.
//!
//! On cgroup version 2: a cgroup `latlab.isolated` with the CPUs, and `cpuset.cpus.partition` set to `isolated` (no
//! load balancing there) or `root` (balanced within). The kernel takes the CPUs away from all other cgroups.
//!
//! On version 1 the kernel takes no CPUs away. Every thread of the root cgroup that may move, the kernel's included,
//! moves to a cgroup `latlab.housekeeping`, and other cgroups are narrowed to the housekeeping CPUs. `latlab.isolated`
//! has its CPUs exclusively, so that no later cgroup may overlap it. Load balancing over all CPUs ends (`isolated`:
//! within the partition too). The cgroup and affinity of each thread are journaled and restored.

use std::path::{Path, PathBuf};

use latlab_model::profile::Cores;
use latlab_model::units::CpuList;

use super::prelude::*;
use crate::cgroup::PARTITION as ISOLATED;
use crate::sys::proc::{self, Mount};
use crate::tuning::items::{Attribute, Task};
use crate::tuning::root::Root;

/// The cgroup of all other threads, on version 1.
const HOUSEKEEPING: &str = "latlab.housekeeping";

pub const KNOB: Knob = Knob {
    name: "cpuset",
    about: "A partition of CPUs on which the scheduler places no thread by itself",
    evidence: "Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.partition; \
               Documentation/admin-guide/cgroup-v1/cpusets.rst, 1.4 and 1.7; Daichendt 2022, 5.5.2 and 6.5; \
               Welch 2015, 3.1.3.2 (isolcpus)",
    risk: "isolated: threads on the partition are not balanced, each must be pinned to one CPU; \
           version 1: every thread of the root cgroup is moved, which takes milliseconds each",
    items: Items::Moving(|m| {
        let (_, mount) = hierarchy(m.root)?;
        let group = mount.join(ISOLATED);
        Ok(vec![if m.root.has(&group) {
            Item::file(group.join("cpuset.cpus"), Form::List)
        } else {
            Item::Group { path: group }
        }])
    }),
    mapping: Mapping::Moving { each, retarget },
};

/// The CPUs of the partition in force; none without a partition.
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

fn hierarchy(root: &Root) -> Result<(Version, PathBuf), String> {
    let mounts = root.read("/proc/self/mountinfo").unwrap_or_default();
    let mut reason = "no cgroup hierarchy with `cpuset` is mounted".to_string();
    for Mount {
        root: inside,
        point,
        kind,
        super_options,
        ..
    } in proc::mounts(mounts.as_bytes())
    {
        let version = match kind.as_str() {
            "cgroup" if super_options.split(',').any(|option| option == "cpuset") => Version::V1,
            "cgroup2" if has_cpuset(root, &point) => Version::V2,
            _ => continue,
        };
        if inside != Path::new("/") {
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

fn each(machine: &Machine<'_>, wanted: &Wanted) -> Result<Targets, KnobError> {
    let mode = word(machine, wanted)?;
    let (version, mount) = hierarchy(machine.root)?;
    let cores = machine.cores;
    if cores.isolated.is_empty() {
        let hint = "name them with `--cpus`, or leave `cpuset` out";
        return Err(KnobError::Impossible(
            "no CPUs are to be isolated".into(),
            hint.into(),
        ));
    }
    let mut targets = Targets::new();
    // Once the cgroups exist, the affinity of threads is no longer the one that programs chose.
    if !machine.root.has(mount.join(ISOLATED)) {
        keep_pinned(machine, version, &mut targets);
    }
    narrow_others(machine, &mount, &mount, &mut targets)?;
    match version {
        Version::V2 => partition(&mount, &cores.isolated, &mode, &mut targets),
        Version::V1 => shield(machine, &mount, &mode, &mut targets)?,
    }
    Ok(targets)
}

fn file(group: &Path, name: &str, form: Form, value: impl Into<Value>) -> (Item, Value) {
    (Item::file(group.join(name), form), value.into())
}

fn group(path: &Path) -> (Item, Value) {
    let path = path.to_path_buf();
    (Item::Group { path }, Value::Present)
}

/// Remembers the affinity of threads that are pinned to fewer than all CPUs. Threads that move to another cgroup
/// keep theirs in [`Value::Cpuset`].
fn keep_pinned(machine: &Machine<'_>, version: Version, targets: &mut Targets) {
    let (root, cores) = (machine.root, machine.cores);
    let all = Value::from(cores.all().to_string());
    for task in Task::all(root) {
        let group = root.read(format!("/proc/{}/cpuset", task.tid));
        let moved = version == Version::V1 && group.is_ok_and(|g| g.trim() == "/");
        let bound = task.is_bound();
        let item = Item::task(task, Attribute::Pinning);
        let now = item.read(root).ok().flatten();
        if !moved && !bound && now.is_some_and(|now| now != all) {
            targets.push((item, Value::Within(cores.housekeeping.clone())));
        }
    }
}

fn partition(mount: &Path, isolated: &CpuList, mode: &str, targets: &mut Targets) {
    let own = mount.join(ISOLATED);
    let hand_on = |group: &Path| file(group, "cgroup.subtree_control", Form::Cpuset, "+cpuset");
    targets.extend([
        hand_on(mount),
        group(&own),
        // A service manager takes `cpuset` from the root as soon as no unit of its own uses it, and the partition's
        // files would go with it. The kernel refuses that (EBUSY) while a group hands the controller on.
        hand_on(&own),
        file(&own, "cpuset.cpus", Form::List, isolated.to_string()),
        file(&own, "cpuset.cpus.partition", Form::Text, mode),
    ]);
}

fn shield(
    machine: &Machine<'_>,
    mount: &Path,
    mode: &str,
    targets: &mut Targets,
) -> Result<(), KnobError> {
    let (root, cores) = (machine.root, machine.cores);
    let mems = root.read(mount.join("cpuset.mems"));
    let mems = mems.map_err(|e| format!("{} cannot be read: {e}", mount.display()))?;
    let mems = CpuList::parse(&mems).unwrap_or_default();
    for (name, cpus) in [
        (HOUSEKEEPING, &cores.housekeeping),
        (ISOLATED, &cores.isolated),
    ] {
        let own = mount.join(name);
        targets.extend([
            group(&own),
            file(&own, "cpuset.cpus", Form::List, cpus.to_string()),
            file(&own, "cpuset.mems", Form::List, files::list(&mems)),
        ]);
    }
    let balance = |group: &Path, on: &str| file(group, "cpuset.sched_load_balance", Form::Text, on);
    let isolated = mount.join(ISOLATED);
    targets.extend([
        file(&isolated, "cpuset.cpu_exclusive", Form::Text, "1"),
        balance(&isolated, balanced(mode)),
        balance(mount, "0"),
    ]);
    let attribute = Attribute::Cpuset {
        mount: mount.to_path_buf(),
    };
    for task in Task::all(root) {
        // The kernel refuses to move bound threads, and the parent of its own threads.
        let stays = task.is_bound() || (task.is_kernel() && task.name == "kthreadd");
        let item = Item::task(task, attribute.clone());
        let in_root = |value: &Value| matches!(value, Value::Cpuset { group, .. } if group == "/");
        if !stays && item.read(root).ok().flatten().as_ref().is_some_and(in_root) {
            let housekeeping = Value::Cpuset {
                group: format!("/{HOUSEKEEPING}"),
                affinity: None,
            };
            targets.push((item, housekeeping));
        }
    }
    Ok(())
}

/// Narrows other cgroups to the housekeeping CPUs, the innermost first.
fn narrow_others(
    machine: &Machine<'_>,
    mount: &Path,
    directory: &Path,
    targets: &mut Targets,
) -> Result<(), KnobError> {
    let root = machine.root;
    for name in root.names(directory) {
        let group = directory.join(&name);
        let own = directory == mount && (name == ISOLATED || name == HOUSEKEEPING);
        if own || !root.path(&group).is_dir() {
            continue;
        }
        narrow_others(machine, mount, &group, targets)?;
        let item = Item::file(group.join("cpuset.cpus"), Form::List);
        let value = item.read(root).ok().flatten();
        if let Some(cpus) = value.and_then(|value| value.cpus()) {
            let rest = without_isolated(&group, &cpus, machine.cores)?;
            targets.extend(rest.map(|rest| (item, Value::from(rest.to_string()))));
        }
    }
    Ok(())
}

/// The CPUs that a cgroup keeps; `None` if none of them is to be isolated.
fn without_isolated(
    group: &Path,
    cpus: &CpuList,
    cores: &Cores,
) -> Result<Option<CpuList>, KnobError> {
    if !cpus.iter().any(|cpu| cores.isolated.contains(cpu)) {
        return Ok(None);
    }
    let rest = cpus.iter().filter(|cpu| cores.housekeeping.contains(*cpu));
    let rest = CpuList::new(rest.collect());
    if rest.is_empty() {
        return Err(KnobError::Impossible(
            format!(
                "cgroup {} has only CPUs {cpus}, which are to be isolated",
                group.display()
            ),
            "isolate other CPUs, or end what runs there".into(),
        ));
    }
    Ok(Some(rest))
}

/// The value of a tuned item in a new CPU split.
fn retarget(machine: &Machine<'_>, wanted: &Wanted, entry: &Entry) -> Result<Value, KnobError> {
    let cores = machine.cores;
    let (path, form) = match &entry.item {
        Item::File { path, form } => (path, form),
        Item::Task {
            attribute: Attribute::Pinning,
            ..
        } => return Ok(Value::Within(cores.housekeeping.clone())),
        _ => return Ok(entry.wanted.clone()),
    };
    let (_, mount) = hierarchy(machine.root)?;
    let group = path.parent().unwrap_or(path);
    let file = path.file_name().unwrap_or_default();
    let mode = word(machine, wanted)?;
    if group == mount.join(ISOLATED) {
        return Ok(match file.to_str() {
            Some("cpuset.cpus") => cores.isolated.to_string().into(),
            Some("cpuset.cpus.partition") => mode.into(),
            Some("cpuset.sched_load_balance") => balanced(&mode).into(),
            _ => entry.wanted.clone(),
        });
    }
    if group == mount.join(HOUSEKEEPING) && file == "cpuset.cpus" {
        return Ok(cores.housekeeping.to_string().into());
    }
    match (form, entry.original.cpus()) {
        (Form::List, Some(had)) if file == "cpuset.cpus" => {
            let rest = without_isolated(group, &had, cores)?;
            Ok(rest.unwrap_or(had).to_string().into())
        }
        _ => Ok(entry.wanted.clone()),
    }
}

/// Load balancing within a partition of this type, on version 1.
fn balanced(mode: &str) -> &'static str {
    if mode == "root" { "1" } else { "0" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::knobs::testing::Tree;

    const V1: &str = "34 31 0:31 / /cg rw,relatime - cgroup cgroup rw,cpuset\n";
    const V2: &str = "34 31 0:31 / /cg rw,relatime - cgroup2 cgroup2 rw\n";

    fn values(plan: Vec<(String, String, String)>) -> Vec<String> {
        plan.into_iter()
            .map(|(what, from, to)| format!("{what}: {from} → {to}"))
            .collect()
    }

    #[test]
    fn version_2_creates_a_partition_and_narrows_other_cgroups() {
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
                "cgroup /cg/latlab.isolated: absent → present",
                "/cg/latlab.isolated/cgroup.subtree_control: absent → +cpuset",
                "/cg/latlab.isolated/cpuset.cpus: absent → 2-3",
                "/cg/latlab.isolated/cpuset.cpus.partition: absent → isolated",
            ]
        );
        Tree::lacks("cpuset", "isolated", "no cgroup hierarchy with `cpuset`");
    }

    #[test]
    fn version_1_moves_every_movable_thread() {
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
    fn a_cgroup_with_isolated_cpus_only_is_refused() {
        let tree = Tree::new(&[
            ("/proc/self/mountinfo", V1),
            ("/cg/cpuset.mems", "0\n"),
            ("/cg/other/deep/cpuset.cpus", "3\n"),
        ]);
        let list = |text| CpuList::parse(text).unwrap();
        let cores = Cores::new(&list("0-3"), &list("2-3")).unwrap();
        let root = tree.root();
        let machine = Machine {
            root: &root,
            cores: &cores,
        };
        let Err(KnobError::Impossible(message, _)) = each(&machine, &Wanted::Word("isolated"))
        else {
            panic!("it must be refused")
        };
        assert!(
            message.contains("/cg/other/deep has only CPUs 3"),
            "{message}"
        );
    }
}
