//! Cgroups on this machine.
//!
//! Needs root. Touches only groups named `latlab/test-<pid>/` and removes them; processes are its
//! own, in a process namespace that ends with the test.

mod namespaces;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use latlab_host::cgroup::{Cgroups, Error, Limits, NodeCgroup};
use latlab_host::sys::devices::Device;
use latlab_host::sys::process::{Exit, Process};
use latlab_host::sys::spawn::Spawn;

/// More than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A group that is gone when this is dropped.
struct Group(NodeCgroup);

impl Group {
    fn new(node: &str, limits: &Limits) -> Self {
        let cgroups = Cgroups::discover().unwrap();
        Self(cgroups.create(&lab(), node, limits).unwrap())
    }

    fn start(&self, script: &str) -> Process {
        let entry = self.0.entry().unwrap();
        let spawn = Spawn::new("sh", &lab()).args(["-c", script]);
        spawn.cgroup(&entry).start().unwrap()
    }

    /// Waits until it holds this many processes, or more.
    fn wait_for(&self, processes: usize) {
        let started = std::time::Instant::now();
        while self.0.pids().unwrap().len() < processes {
            assert!(started.elapsed() < TIMEOUT, "{:?}", self.0.pids());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let ended = self.0.kill_all().and_then(|()| self.0.remove());
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

fn lab() -> String {
    format!("test-{}", namespaces::id())
}

#[test]
fn processes_are_born_in_their_group_and_counted_there() {
    namespaces::enter(
        "processes_are_born_in_their_group_and_counted_there",
        || {
            let all = Limits {
                cpus: Some(2.0),
                memory_bytes: Some(64 << 20),
                pids: Some(100),
                ..Limits::default()
            };
            for (node, limits) in [("plain", Limits::default()), ("limited", all)] {
                let group = Group::new(node, &limits);
                let before = group.0.cpu_usage().unwrap();
                let script =
                    "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 60 & sleep 60";
                let shell = group.start(script);
                group.wait_for(3);
                let pids = group.0.pids().unwrap();
                assert!(pids.contains(&shell.id().pid));
                // In every hierarchy, not only in the one that is asked for the list.
                for dir in group.0.dirs() {
                    let listed = fs::read_to_string(dir.join("cgroup.procs")).unwrap();
                    assert_eq!(listed.lines().count(), 3, "{}", dir.display());
                }
                let used = group.0.cpu_usage().unwrap();
                assert!(used.total_ns > before.total_ns);
                group.0.kill_all().unwrap();
                assert!(group.0.pids().unwrap().is_empty());
                assert!(shell.wait(TIMEOUT).unwrap());
                assert_eq!(shell.collect().unwrap(), Some(Exit::Signal(libc::SIGKILL)));
            }
        },
    );
}

/// Each is the last lab at times, whose end takes the level away that all share.
#[test]
fn labs_come_and_go_at_the_same_time() {
    namespaces::enter("labs_come_and_go_at_the_same_time", || {
        std::thread::scope(|scope| {
            for number in 0..3 {
                scope.spawn(move || {
                    let cgroups = Cgroups::discover().unwrap();
                    let lab = format!("{}-{number}", lab());
                    for _ in 0..1000 {
                        let group = cgroups.create(&lab, "n", &Limits::default()).unwrap();
                        group.remove().unwrap();
                    }
                });
            }
        });
    });
}

#[test]
fn processes_that_fork_while_killed_do_not_escape() {
    namespaces::enter("processes_that_fork_while_killed_do_not_escape", || {
        let group = Group::new("forks", &Limits::default());
        // Each shell starts two more, six generations deep: 126 processes, were it left alone.
        let script = "f() { [ $1 -gt 0 ] && { f $(($1-1)) & f $(($1-1)) & }; sleep 60; }; f 5";
        group.start(script);
        group.wait_for(20);
        group.0.kill_all().unwrap();
        assert!(group.0.pids().unwrap().is_empty());
    });
}

#[test]
fn a_group_is_known_again_by_its_directories() {
    namespaces::enter("a_group_is_known_again_by_its_directories", || {
        let cgroups = Cgroups::discover().unwrap();
        let planned = cgroups.dirs(&lab(), "one", &Limits::default()).unwrap();
        assert!(
            planned.iter().all(|dir| !dir.exists()),
            "planning makes nothing"
        );
        let one = Group::new("one", &Limits::default());
        let two = Group::new("two", &Limits::default());
        assert_eq!(one.0.dirs(), planned);
        let again = cgroups
            .create(&lab(), "one", &Limits::default())
            .unwrap_err();
        assert!(matches!(again, Error::Io { .. }), "{again}");
        assert!(
            planned[0].exists(),
            "a refused second one takes nothing away from the first"
        );

        one.start("sleep 60");
        // A program may make groups inside its own.
        fs::create_dir(planned[0].join("inner")).unwrap();
        let error = NodeCgroup::from_dirs(planned.clone())
            .unwrap()
            .remove()
            .unwrap_err();
        assert!(matches!(error, Error::Populated { .. }), "{error}");
        let known = NodeCgroup::from_dirs(planned.clone()).unwrap();
        known.kill_all().unwrap();
        known.remove().unwrap();
        known.remove().unwrap();
        assert!(planned.iter().all(|dir| !dir.exists()));
        assert!(two.0.dirs().iter().all(|dir| dir.exists()));
        let labs: Vec<PathBuf> = two
            .0
            .dirs()
            .iter()
            .map(|d| d.parent().unwrap().into())
            .collect();
        drop(two);
        assert!(
            labs.iter().all(|dir| !dir.exists()),
            "the last node takes the lab's along"
        );
    });
}

/// Version 1 without the unified tree beside it, where nothing kills a group in one step.
#[test]
fn a_frozen_group_is_killed_one_by_one() {
    namespaces::enter("a_frozen_group_is_killed_one_by_one", || {
        let freezer = Path::new("/sys/fs/cgroup/freezer");
        if !freezer.join("release_agent").exists() {
            println!("skipped: version 2 has no freezer hierarchy");
            return;
        }
        let dir = freezer.join("latlab").join(lab()).join("frozen");
        fs::create_dir_all(&dir).unwrap();
        let group = Group(NodeCgroup::from_dirs(vec![dir]).unwrap());
        group.start("for i in 1 2 3 4 5; do sleep 60 & done; wait");
        group.wait_for(6);
        group.0.kill_all().unwrap();
        assert!(group.0.pids().unwrap().is_empty());
    });
}

/// By the BPF program of the unified tree, and where that is away by the controller of version 1.
#[test]
fn a_group_opens_the_common_devices_and_those_it_was_given() {
    namespaces::enter(
        "a_group_opens_the_common_devices_and_those_it_was_given",
        || {
            let log = Path::new("/dev/kmsg");
            let given = Device::of_file(log).unwrap();
            let mut tried = 0;
            for unified in [true, false] {
                let trees = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
                if !unified {
                    let tree = trees
                        .iter()
                        .find(|t| Path::new(t).join("cgroup.procs").exists());
                    let Some(tree) = tree else { continue };
                    rustix::mount::unmount(*tree, rustix::mount::UnmountFlags::DETACH).unwrap();
                }
                for (node, own) in [("common", None), ("given", Some(given))] {
                    let limits = Limits {
                        devices: Some(own.into_iter().collect()),
                        ..Limits::default()
                    };
                    if Cgroups::discover().unwrap().check(&limits).is_err() {
                        continue;
                    }
                    tried += 1;
                    let group = Group::new(&format!("{node}-{unified}"), &limits);
                    let open = |device: &str| {
                        let shell = group.start(&format!("exec 3<{device}"));
                        assert!(shell.wait(TIMEOUT).unwrap());
                        shell.collect().unwrap() == Some(Exit::Code(0))
                    };
                    for common in ["/dev/null", "/dev/zero", "/dev/urandom"] {
                        assert!(open(common), "{common} in {node}, unified: {unified}");
                    }
                    let what = format!("{node}, unified: {unified}");
                    assert_eq!(open("/dev/kmsg"), own.is_some(), "{what}");
                }
            }
            assert!(tried > 0);
        },
    );
}
