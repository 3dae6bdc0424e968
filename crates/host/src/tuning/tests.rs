//! The engine on a test tree: journal, owners, crashes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use latlab_model::profile::{Cores, Profile};
use latlab_model::units::CpuList;

use super::*;
use crate::dirs::Dirs;

const SWAPPINESS: &str = "proc/sys/vm/swappiness";
const KSM: &str = "sys/kernel/mm/ksm/run";
const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";

struct World {
    dir: PathBuf,
}

impl World {
    fn new(name: &str) -> World {
        let dir = std::env::temp_dir().join(format!("latlab-tune-{name}-{}", std::process::id()));
        fs::remove_dir_all(&dir).ok();
        let world = World { dir };
        for (path, text) in [
            (SWAPPINESS, "60\n"),
            (KSM, "1\n"),
            (THP, "always [madvise] never\n"),
            ("proc/sys/kernel/random/boot_id", "first\n"),
        ] {
            world.set(path, text);
        }
        world
    }

    fn set(&self, path: &str, text: &str) {
        let path = self.dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn get(&self, path: &str) -> String {
        let text = fs::read_to_string(self.dir.join(path)).unwrap();
        text.trim().to_string()
    }

    fn root(&self) -> Root {
        Root::at(&self.dir)
    }

    fn dirs(&self) -> Dirs {
        Dirs::below(&self.dir.join("latlab"))
    }

    fn plan(&self, wanted: &[(&str, &str)]) -> Vec<Change> {
        let mut profile = Profile::empty();
        for (knob, value) in wanted {
            profile.want(knob, value).unwrap();
        }
        let cores = Cores::shared(&CpuList::parse("0-1").unwrap());
        plan(&profile, &cores, &self.root()).unwrap()
    }

    fn apply(&self, owner: &str, wanted: &[(&str, &str)]) -> Result<Applied, Error> {
        let changes = self.plan(wanted);
        apply(
            owner,
            &changes,
            &self.dirs(),
            &self.root(),
            &mut |_, _, _| (),
        )
    }

    fn revert(&self, owner: &str) -> Reverted {
        revert(owner, &self.dirs(), &self.root(), &mut |_, _, _| ()).unwrap()
    }

    fn drift(&self) -> Vec<Drift> {
        verify(None, &self.dirs(), &self.root()).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.dir).ok();
    }
}

#[test]
fn applied_values_are_in_force_and_reverted() {
    let world = World::new("back");
    let applied = world
        .apply(USER, &[("swappiness", "1"), ("ksm", "on")])
        .unwrap();
    assert!(applied.is_good());
    let counts: Vec<_> = applied
        .knobs
        .iter()
        .map(|k| (k.turned, k.already))
        .collect();
    assert_eq!(counts, [(0, 1), (1, 0)]);
    assert_eq!(world.get(SWAPPINESS), "1");
    assert_eq!(world.drift(), []);
    let again = world.apply(USER, &[("swappiness", "1")]).unwrap();
    assert_eq!(again.knobs[0].already, 1);
    let reverted = world.revert(USER);
    assert!(reverted.is_good());
    assert_eq!((reverted.restored, reverted.nothing_to_do), (1, 1));
    assert_eq!(world.get(SWAPPINESS), "60");
    assert_eq!(world.revert(USER), Reverted::default());
    assert!(!world.dirs().tuning().exists());
}

#[test]
fn an_absent_knob_is_reported_and_not_journaled() {
    let world = World::new("absent");
    let applied = world.apply(USER, &[("nmi-watchdog", "off")]).unwrap();
    assert!(
        applied.knobs[0]
            .absent
            .as_ref()
            .unwrap()
            .contains("nmi_watchdog")
    );
    assert_eq!(applied.knobs[0].turned, 0);
    assert!(!world.dirs().tuning().exists());
    let shown = show(
        &Cores::shared(&CpuList::parse("0").unwrap()),
        &world.dirs(),
        &world.root(),
    );
    let shown = shown.unwrap();
    let knob = shown.iter().find(|s| s.knob == "nmi-watchdog").unwrap();
    assert!(knob.absent.is_some() && knob.in_force.is_empty());
}

#[test]
fn the_original_returns_when_the_last_owner_leaves() {
    let world = World::new("owners");
    world.apply(USER, &[("swappiness", "1")]).unwrap();
    world
        .apply("lab a", &[("swappiness", "1"), ("ksm", "off")])
        .unwrap();
    assert_eq!(world.revert(USER).kept, 1);
    assert_eq!(world.get(SWAPPINESS), "1");
    assert_eq!(world.revert("lab b"), Reverted::default());
    assert_eq!(world.revert("lab a").restored, 2);
    assert_eq!(
        (world.get(SWAPPINESS), world.get(KSM)),
        ("60".into(), "1".into())
    );
}

#[test]
fn a_conflict_with_another_owner_is_refused_before_any_change() {
    let world = World::new("conflict");
    world.apply("lab a", &[("swappiness", "1")]).unwrap();
    let error = world
        .apply("lab b", &[("thp", "never"), ("swappiness", "10")])
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("is `1` for lab a, and `10` is wanted"),
        "{text}"
    );
    assert!(error.hint().contains("end lab a first"));
    assert!(world.get(THP).contains("[madvise]"));
    assert_eq!(world.revert("lab b"), Reverted::default());
    assert_eq!(world.get(SWAPPINESS), "1");
}

#[test]
fn a_foreign_change_is_drift_and_is_left_alone() {
    let world = World::new("foreign");
    world
        .apply(USER, &[("swappiness", "1"), ("ksm", "off")])
        .unwrap();
    world.set(SWAPPINESS, "33\n");
    let drift = world.drift();
    assert_eq!(drift.len(), 1);
    assert_eq!(
        (drift[0].wanted.as_str(), drift[0].found.as_str()),
        ("1", "33")
    );
    let reverted = world.revert(USER);
    assert!(!reverted.is_good());
    assert!(reverted.foreign[0].reason.contains("it is `33` now"));
    assert_eq!(
        (world.get(SWAPPINESS), world.get(KSM)),
        ("33".into(), "1".into())
    );
    assert_eq!(world.revert(USER), Reverted::default());
}

#[test]
fn what_another_owner_gave_back_since_the_plan_is_no_original() {
    let world = World::new("since");
    world.apply("lab a", &[("swappiness", "1")]).unwrap();
    let changes = world.plan(&[("swappiness", "1")]);
    assert!(changes[0].targets[0].holds());
    assert!(world.revert("lab a").is_good());
    let (dirs, root) = (world.dirs(), world.root());
    apply("lab b", &changes, &dirs, &root, &mut |_, _, _| ()).unwrap();
    assert_eq!(world.get(SWAPPINESS), "1");
    assert_eq!(world.revert("lab b").restored, 1);
    assert_eq!(world.get(SWAPPINESS), "60");
}

/// The kernel takes the digits of this file as octal ones, and so makes other CPUs of those that are wanted.
#[test]
fn a_value_that_the_kernel_made_of_the_wanted_one_is_undone() {
    const FILE: &str = "/proc/self/coredump_filter";
    const RPS: &str = "sys/class/net/eth0/queues/rx-0/rps_cpus";
    let before = fs::read_to_string(FILE).unwrap();
    fs::write(FILE, "0x7").unwrap();
    let world = World::new("rounded");
    let file = world.dir.join(RPS);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    symlink(FILE, &file).unwrap();
    let mut profile = Profile::empty();
    profile.want("rps", "0-1,4").unwrap();
    let cores = Cores::shared(&CpuList::parse("0-4").unwrap());
    let (dirs, root) = (world.dirs(), world.root());
    // Twice: what is in force then comes from latlab, and is no original.
    for _ in 0..2 {
        let changes = plan(&profile, &cores, &root).unwrap();
        let applied = apply(USER, &changes, &dirs, &root, &mut |_, _, _| ()).unwrap();
        let reason = &applied.knobs[0].refused[0].reason;
        assert!(
            reason.contains("`0-1,4` was written, and `0-1,3` is read back"),
            "{reason}"
        );
        assert!(applied.unsettled.is_empty());
    }
    // The value stays with its owner when another one leaves.
    world.apply("lab a", &[("swappiness", "1")]).unwrap();
    assert!(world.revert("lab a").is_good());
    assert_eq!(world.get(RPS), "0000000b");
    let reverted = world.revert(USER);
    assert!(reverted.is_good(), "{reverted:?}");
    assert_eq!(reverted.restored, 1);
    assert_eq!(world.get(RPS), "00000007");
    fs::write(FILE, format!("0x{}", before.trim())).unwrap();
}

#[test]
fn applying_over_a_foreign_change_returns_to_that_change() {
    let world = World::new("over");
    world.apply(USER, &[("swappiness", "1")]).unwrap();
    world.set(SWAPPINESS, "33\n");
    assert_eq!(
        world.apply(USER, &[("swappiness", "1")]).unwrap().knobs[0].turned,
        1
    );
    assert_eq!(world.revert(USER).restored, 1);
    assert_eq!(world.get(SWAPPINESS), "33");
}

#[test]
fn a_crash_between_journal_and_write_leaves_nothing_to_restore() {
    let world = World::new("death");
    world
        .apply(USER, &[("swappiness", "1"), ("ksm", "off")])
        .unwrap();
    // As after a crash between journal and second write.
    world.set(KSM, "1\n");
    let reverted = world.revert(USER);
    assert_eq!((reverted.restored, reverted.nothing_to_do), (1, 1));
    assert!(reverted.is_good());
}

#[test]
fn after_a_reboot_there_is_nothing_to_restore() {
    let world = World::new("reboot");
    world.apply(USER, &[("swappiness", "1")]).unwrap();
    world.set("proc/sys/kernel/random/boot_id", "second\n");
    assert_eq!(world.drift(), []);
    let reverted = world.revert(USER);
    assert_eq!((reverted.forgotten, reverted.restored), (1, 0));
    assert_eq!(world.get(SWAPPINESS), "1");
    assert!(!world.dirs().tuning().exists());
}

#[test]
fn a_write_without_effect_is_reported_as_refused() {
    let world = World::new("refused");
    let file = world.dir.join(SWAPPINESS);
    fs::remove_file(&file).unwrap();
    symlink("/dev/null", &file).unwrap();
    let applied = world.apply(USER, &[("swappiness", "1")]).unwrap();
    assert!(!applied.is_good());
    assert_eq!(applied.knobs[0].turned, 0);
    let reason = &applied.knobs[0].refused[0].reason;
    assert!(
        reason.contains("`1` was written, and `` is read back"),
        "{reason}"
    );
    assert!(!world.dirs().tuning().exists());
}

#[test]
fn a_read_only_file_is_refused_before_any_change() {
    let world = World::new("read-only");
    let locked = fs::Permissions::from_mode(0o444);
    fs::set_permissions(world.dir.join(KSM), locked).unwrap();
    let error = world
        .apply(USER, &[("swappiness", "1"), ("ksm", "off")])
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("/sys/kernel/mm/ksm/run cannot be written"),
        "{error}"
    );
    assert_eq!(world.get(SWAPPINESS), "60");
    assert!(!world.dirs().tuning().exists());
}

#[test]
fn a_vanished_item_needs_no_undo() {
    let world = World::new("vanished");
    world.apply(USER, &[("swappiness", "1")]).unwrap();
    fs::remove_file(world.dir.join(SWAPPINESS)).unwrap();
    assert_eq!(world.drift(), []);
    let reverted = world.revert(USER);
    assert!(reverted.is_good());
    assert_eq!(reverted.nothing_to_do, 1);
}

#[test]
fn a_damaged_journal_is_refused_and_kept() {
    let world = World::new("damaged");
    world.apply(USER, &[("swappiness", "1")]).unwrap();
    fs::write(world.dirs().tuning(), "{}").unwrap();
    let error = revert(USER, &world.dirs(), &world.root(), &mut |_, _, _| ()).unwrap_err();
    assert!(
        error.to_string().contains("is not a journal of tuning"),
        "{error}"
    );
    assert!(Path::new(&world.dirs().tuning()).exists());
}

const IRQ: &str = "proc/irq/5/smp_affinity_list";
const OTHERS: &str = "cg/docker/cpuset.cpus";
const QUIET: &str = "cg/latlab.isolated/cpuset.cpus";
const MODE: &str = "cg/latlab.isolated/cpuset.cpus.partition";

/// A machine with four CPUs and cgroup version 2.
fn divided(name: &str) -> World {
    let world = World::new(name);
    for (path, text) in [
        (
            "proc/self/mountinfo",
            "34 31 0:31 / /cg rw - cgroup2 cgroup2 rw\n",
        ),
        ("cg/cgroup.controllers", "cpuset cpu\n"),
        ("cg/cgroup.subtree_control", "cpuset\n"),
        (OTHERS, "0-3\n"),
        (IRQ, "0-3\n"),
        // The kernel creates these with the cgroup; this tree has them from the start.
        ("cg/latlab.isolated/cgroup.subtree_control", "cpuset\n"),
        (QUIET, "\n"),
        (MODE, "member\n"),
    ] {
        world.set(path, text);
    }
    for cpu in 0..4 {
        world.set(&resume(cpu), "0\n");
    }
    world
}

fn resume(cpu: u32) -> String {
    format!("sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us")
}

impl World {
    fn isolate(&self, owner: &str, cpus: &str, mode: &str) -> Result<Applied, Error> {
        let mut profile = Profile::empty();
        profile.cores = latlab_model::profile::Isolation::Isolated;
        for (knob, value) in [
            ("cpuset", mode),
            ("irq-affinity", "housekeeping"),
            ("resume-latency", "0us"),
        ] {
            profile.want(knob, value).unwrap();
        }
        let list = |text| CpuList::parse(text).unwrap();
        let cores = Cores::new(&list("0-3"), &list(cpus)).unwrap();
        let changes = plan(&profile, &cores, &self.root())?;
        apply(
            owner,
            &changes,
            &self.dirs(),
            &self.root(),
            &mut |_, _, _| (),
        )
    }

    /// CPUs of interrupts, of other cgroups, of the partition; then the resume latency of each CPU.
    fn split(&self) -> Vec<String> {
        let mut all = vec![self.get(IRQ), self.get(OTHERS), self.get(QUIET)];
        all.push(
            (0..4)
                .map(|cpu| self.get(&resume(cpu)))
                .collect::<Vec<_>>()
                .join(" "),
        );
        all
    }
}

#[test]
fn the_isolated_cpus_are_those_of_all_owners_in_any_order_of_leaving() {
    const ORIGINAL: [&str; 4] = ["0-3", "0-3", "", "0 0 0 0"];
    for (first, left) in [
        ("lab a", ["0-1,3", "0-1,3", "2", "0 0 n/a 0"]),
        ("lab b", ["0-2", "0-2", "3", "0 0 0 n/a"]),
    ] {
        let world = divided("split");
        assert!(world.isolate("lab a", "3", "isolated").unwrap().is_good());
        assert_eq!(world.split(), ["0-2", "0-2", "3", "0 0 0 n/a"]);
        assert!(world.isolate("lab b", "2", "isolated").unwrap().is_good());
        assert_eq!(world.split(), ["0-1", "0-1", "2-3", "0 0 n/a n/a"]);
        assert_eq!(world.drift(), []);
        let reverted = world.revert(first);
        assert!(reverted.is_good(), "{reverted:?}");
        assert_eq!(world.split(), left, "without {first}");
        assert_eq!(world.drift(), []);
        let second = if first == "lab a" { "lab b" } else { "lab a" };
        assert!(world.revert(second).is_good());
        assert_eq!(world.split()[..2], ORIGINAL[..2]);
        assert_eq!(world.split()[3], ORIGINAL[3]);
        assert!(!world.dirs().tuning().exists());
    }
}

#[test]
fn a_partition_is_balanced_within_while_an_owner_wants_that() {
    let world = divided("balanced");
    world.isolate(USER, "3", "isolated").unwrap();
    world.isolate("lab a", "1-2", "root").unwrap();
    assert_eq!(world.get(MODE), "root");
    assert!(world.revert("lab a").is_good());
    assert_eq!(world.get(MODE), "isolated");
    assert!(world.revert(USER).is_good());
}

#[test]
fn a_lab_on_the_cpus_that_the_user_isolated_changes_nothing() {
    let world = divided("same");
    world.isolate(USER, "2-3", "isolated").unwrap();
    let before = world.split();
    world.isolate("lab a", "3", "isolated").unwrap();
    assert_eq!(world.split(), before);
    assert!(world.revert("lab a").is_good());
    assert_eq!(world.split(), before);
    assert!(world.revert(USER).is_good());
    assert_eq!(world.get(IRQ), "0-3");
}

#[test]
fn who_isolates_nothing_keeps_its_setting_of_every_cpu_while_others_isolate_some() {
    let world = divided("every");
    let everywhere = "n/a n/a n/a n/a";
    let mut profile = Profile::empty();
    profile.want("resume-latency", "0us").unwrap();
    let cores = Cores::shared(&CpuList::parse("0-3").unwrap());
    let (dirs, root) = (world.dirs(), world.root());
    let apply_everywhere = || {
        let changes = plan(&profile, &cores, &root).unwrap();
        apply(USER, &changes, &dirs, &root, &mut |_, _, _| ()).unwrap();
        assert_eq!(world.split()[3], everywhere);
    };
    apply_everywhere();
    world.isolate("lab a", "3", "isolated").unwrap();
    world.isolate("lab b", "2", "isolated").unwrap();
    for lab in ["lab b", "lab a"] {
        assert!(world.revert(lab).is_good());
        assert_eq!(world.split()[3], everywhere, "without {lab}");
        assert_eq!(world.drift(), []);
    }
    assert!(world.revert(USER).is_good());
    assert_eq!(world.split()[3], "0 0 0 0");
    // Also beside a lab that was there before.
    world.isolate("lab a", "3", "isolated").unwrap();
    apply_everywhere();
    assert!(world.revert("lab a").is_good());
    assert_eq!(world.split()[3], everywhere);
    assert!(world.revert(USER).is_good());
    assert_eq!(world.split()[3], "0 0 0 0");
}

#[test]
fn isolating_every_cpu_is_refused() {
    let world = divided("all");
    world.set(OTHERS, "\n");
    world.isolate("lab a", "2-3", "isolated").unwrap();
    let before = world.split();
    let error = world.isolate("lab b", "0-1", "isolated").unwrap_err();
    assert!(error.to_string().contains("leaves no CPU"), "{error}");
    assert_eq!(world.split(), before);
    let error = world.isolate("lab a", "1", "isolated").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the list of quiet CPUs is `2-3`"),
        "{error}"
    );
    assert!(world.revert("lab a").is_good());
}

#[test]
fn a_crash_between_two_cpu_splits_is_finished_by_the_next_revert() {
    let world = divided("between");
    world.isolate("lab a", "3", "isolated").unwrap();
    world.isolate("lab b", "2", "isolated").unwrap();
    // As after a crash of lab b's revert right after it wrote the journal.
    let mut held = journal::LockedJournal::take(&world.dirs(), &world.root()).unwrap();
    for entry in &mut held.journal.entries {
        if entry.item.to_string().ends_with(IRQ) {
            entry.wanted = "0-2".into();
            entry.earlier = Some("0-1".into());
        }
    }
    held.sync().unwrap();
    drop(held);
    assert_eq!(world.drift().len(), 1);
    assert!(world.revert("lab b").is_good());
    assert_eq!(world.split(), ["0-2", "0-2", "3", "0 0 0 n/a"]);
    assert!(world.revert("lab a").is_good());
    assert_eq!(world.get(IRQ), "0-3");
}

/// `-cpuset` is EBUSY while child cgroups use it, and takes it from others that rely on it.
#[test]
fn an_enabled_controller_stays_enabled() {
    let world = divided("enabled");
    world.isolate("lab a", "3", "isolated").unwrap();
    let mut held = journal::LockedJournal::take(&world.dirs(), &world.root()).unwrap();
    let handed = |e: &&mut journal::Entry| e.item.to_string().ends_with("subtree_control");
    let entry = held.journal.entries.iter_mut().find(handed).unwrap();
    entry.original = "-cpuset".into();
    held.sync().unwrap();
    drop(held);
    let reverted = world.revert("lab a");
    assert!(reverted.is_good(), "{reverted:?}");
    assert_eq!(world.get("cg/cgroup.subtree_control"), "cpuset");
}

/// The owner of a cgroup may remove it and create another one of the same name.
#[test]
fn cgroups_of_other_programs_that_change_or_vanish_are_no_failure() {
    let world = divided("others");
    let changes = {
        let mut profile = Profile::empty();
        profile.cores = latlab_model::profile::Isolation::Isolated;
        profile.want("cpuset", "isolated").unwrap();
        let list = |text| CpuList::parse(text).unwrap();
        let cores = Cores::new(&list("0-3"), &list("3")).unwrap();
        plan(&profile, &cores, &world.root()).unwrap()
    };
    let (dirs, root) = (world.dirs(), world.root());
    // Gone between the plan and its application.
    fs::remove_dir_all(world.dir.join("cg/docker")).unwrap();
    let applied = apply(USER, &changes, &dirs, &root, &mut |_, _, _| ()).unwrap();
    assert!(applied.is_good(), "{applied:?}");
    world.revert(USER);
    world.set(OTHERS, "0-3\n");
    world.isolate(USER, "3", "isolated").unwrap();
    assert_eq!(world.get(OTHERS), "0-2");
    world.set(OTHERS, "\n");
    assert_eq!(world.drift(), [], "the other cgroup has no isolated CPU");
    world.set(OTHERS, "1-3\n");
    assert_eq!(world.drift().len(), 1);
    let reverted = world.revert(USER);
    assert!(reverted.is_good(), "{reverted:?}");
    assert_eq!(reverted.strayed.len(), 1);
    assert_eq!(world.get(OTHERS), "1-3");
}
