//! Ways that root in a container tries to get out, under crun and under runc. Needs root.
//!
//! Everything is as in `container.rs`: namespaces and a directory of the test's own, cgroups
//! that are removed. What is attacked is only looked at, or would be harmless if it were reached.

mod namespaces;
mod ways_out;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;

use latlab_host::cgroup::{Cgroups, Limits, NodeCgroup};
use latlab_host::images::{Cache, Image, RootView, prepare};
use latlab_host::nodes::container::{self, Container, ContainerConfig};
use latlab_host::nodes::session::{Command, Exit, Session};
use latlab_model::spec::{Bind, Runtime, Seccomp, Security};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::{MountFlags, UnmountFlags};

const RUNTIMES: [Runtime; 2] = [Runtime::Crun, Runtime::Runc];
const AGENT_INSIDE: &str = "/run/latlab/agent";

/// A container that is gone when it is dropped.
struct Node {
    scratch: PathBuf,
    config: ContainerConfig,
    cgroup: NodeCgroup,
    container: Option<Container>,
}

fn scratch(runtime: Runtime) -> PathBuf {
    std::env::temp_dir().join(format!("latlab-escape-{}-{runtime}", namespaces::id()))
}

impl Node {
    /// One that has not been started, with the limits that labs give.
    fn new(runtime: Runtime) -> Self {
        let scratch = scratch(runtime);
        fs::create_dir_all(&scratch).unwrap();
        let root = prepare(&Image::Host, &Cache::new(scratch.join("cache"))).unwrap();
        namespaces::pin_network(&scratch.join("netns"));
        let lab_id = format!("escape-{}", namespaces::id());
        let limits = Limits {
            memory_bytes: Some(256 << 20),
            pids: Some(100),
            devices: Some(Vec::new()),
            ..Limits::default()
        };
        let cgroups = Cgroups::discover().unwrap();
        let cgroup = cgroups
            .create(&lab_id, &runtime.to_string(), &limits)
            .unwrap();
        let config = ContainerConfig {
            name: runtime.to_string(),
            lab_id,
            runtime,
            root,
            covers: None,
            netns: scratch.join("netns"),
            dir: scratch.join("node"),
            hosts: String::new(),
            agent: namespaces::agent(),
            binds: Vec::new(),
            env: BTreeMap::new(),
            security: Security::default(),
        };
        Self {
            scratch,
            config,
            cgroup,
            container: None,
        }
    }

    fn bind(&mut self, source: &Path, target: &str) {
        self.config.binds.push(Bind {
            source: source.to_str().unwrap().to_owned(),
            target: target.to_owned(),
            read_only: true,
        });
    }

    fn start(&mut self) {
        let running = container::start(&self.config, &self.cgroup).unwrap();
        self.container = Some(Container {
            lab_id: self.config.lab_id.clone(),
            dir: self.config.dir.clone(),
            agent: self.config.agent.clone(),
            process: running.process,
            cgroup: self.cgroup.clone(),
        });
    }

    /// Runs a command to its end; how it ended, and what it wrote.
    fn run(&self, command: &Command) -> (Exit, String) {
        let mut session = self.container.as_ref().unwrap().start(command).unwrap();
        drop(session.take_stdin());
        let mut text = String::new();
        session
            .take_stdout()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        session
            .take_stderr()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        (session.wait().unwrap(), text)
    }

    fn shell(&self, line: &str) -> String {
        let (exit, text) = self.run(&Command::shell(line));
        assert_eq!(exit, Exit::Code(0), "{line}: {text}");
        text.trim_end().to_owned()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let deleted = container::delete(&self.config.dir, &self.cgroup);
        let unpinned = rustix::mount::unmount(&self.config.netns, UnmountFlags::DETACH);
        let below = self.scratch.join("data/below");
        let _ = rustix::mount::unmount(below, UnmountFlags::DETACH);
        let removed = fs::remove_dir_all(&self.scratch);
        if !std::thread::panicking() {
            deleted.unwrap();
            unpinned.unwrap();
            removed.unwrap();
        }
    }
}

/// A disk of this machine, or whatever block device it has; never opened but by who must not.
fn a_disk() -> (u32, u32) {
    let entries = fs::read_dir("/sys/class/block").unwrap().flatten();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path().join("dev")).ok());
    let numbers = texts.filter_map(|text| {
        let (major, minor) = text.trim().split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    numbers.min().unwrap_or((7, 0))
}

/// State of the machine that the ways out would change.
fn state_of_the_machine(scratch: &Path, outside: &mut process::Child) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    let files = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/user/max_user_namespaces",
        "/proc/irq/default_smp_affinity",
        "/proc/swaps",
        "/proc/modules",
        "/proc/self/mountinfo",
        "/sys/devices/system/cpu/online",
        "/sys/kernel/uevent_helper",
    ];
    for file in files {
        let text = fs::read_to_string(file).unwrap_or_default();
        state.insert(file.to_owned(), text);
    }
    for file in ["data/file", "data/below/file"] {
        let text = fs::read_to_string(scratch.join(file)).unwrap();
        state.insert(file.to_owned(), text);
    }
    let agent = fs::metadata(namespaces::agent()).unwrap();
    let agent = format!("{} {} {}", agent.ino(), agent.len(), agent.mtime());
    state.insert("the agent".into(), agent);
    let alive = outside.try_wait().unwrap().is_none();
    state.insert("the process outside".into(), alive.to_string());
    let marker = Path::new("/").join(ways_out::MARKER).exists();
    state.insert("a file in the root".into(), marker.to_string());
    state
}

/// When the machine was booted by its wall clock, in seconds: changes when that is set.
fn booted() -> u64 {
    let since_epoch = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_secs();
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    since_epoch - uptime as u64
}

#[test]
fn no_known_escape_leads_out_of_a_container() {
    const NAME: &str = "no_known_escape_leads_out_of_a_container";
    if std::env::var_os(ways_out::VARIABLE).is_some() {
        return ways_out::try_one();
    }
    namespaces::enter(NAME, || {
        let ways = ways_out::all();
        assert!(ways.len() >= 90, "{} ways", ways.len());
        for runtime in RUNTIMES {
            let mut node = Node::new(runtime);
            let data = node.scratch.join("data");
            let below = data.join("below");
            fs::create_dir_all(&below).unwrap();
            rustix::mount::mount("test", &below, "tmpfs", MountFlags::empty(), None).unwrap();
            let (major, minor) = a_disk();
            for dir in [&data, &below] {
                fs::write(dir.join("file"), "untouched").unwrap();
                let (disk, mode) = (dir.join("disk"), Mode::RUSR | Mode::WUSR);
                let device = makedev(major, minor);
                mknodat(CWD, &disk, FileType::BlockDevice, mode, device).unwrap();
            }
            node.bind(&data, "/bound");
            node.bind(&std::env::current_exe().unwrap(), "/attacker");
            // With a number that no process of the container has.
            let _ = fs::write("/proc/sys/kernel/ns_last_pid", "29999");
            let mut outside = process::Command::new("sleep").arg("600").spawn().unwrap();
            let name = format!("latlab-escape-{}", namespaces::id());
            let address = <std::os::unix::net::SocketAddr as
                std::os::linux::net::SocketAddrExt>::from_abstract_name(&name);
            let _listener = std::os::unix::net::UnixListener::bind_addr(&address.unwrap()).unwrap();
            node.start();
            let before = state_of_the_machine(&node.scratch, &mut outside);
            let booted_before = booted();
            let mut wrong = Vec::new();
            for way in &ways {
                let mut command = Command::new(["/attacker"]);
                let arguments = namespaces::test_arguments(NAME);
                command
                    .argv
                    .extend(arguments.map(|a| a.into_string().unwrap()));
                for (variable, value) in [
                    (ways_out::VARIABLE, way.name.to_owned()),
                    (ways_out::DISK, format!("{major}:{minor}")),
                    (ways_out::OUTSIDE, outside.id().to_string()),
                    (ways_out::SOCKET, name.clone()),
                ] {
                    command.env.insert(variable.into(), value);
                }
                let (exit, text) = node.run(&command);
                let outcome = text.lines().find_map(|l| l.split_once(ways_out::OUTCOME));
                let outcome = outcome.and_then(|(_, errno)| errno.parse::<i32>().ok());
                let stopped = match outcome {
                    Some(0) | None => way.stopped_by.is_empty() && outcome.is_some(),
                    Some(errno) => way.stopped_by.is_empty() || way.stopped_by.contains(&errno),
                };
                if !stopped {
                    wrong.push(format!("{}: {outcome:?} {exit}", way.name));
                }
                let after = state_of_the_machine(&node.scratch, &mut outside);
                if booted().abs_diff(booted_before) > 60 {
                    wrong.push(format!("{}: the clock was set", way.name));
                }
                for (what, was) in &before {
                    if after.get(what) != Some(was) {
                        wrong.push(format!("{}: {what} is not {was}", way.name));
                    }
                }
            }
            outside.kill().unwrap();
            outside.wait().unwrap();
            assert!(wrong.is_empty(), "under {runtime}: {wrong:#?}");
        }
    });
}

#[test]
fn every_process_of_a_container_is_confined_and_only_a_lab_grants_more() {
    let name = "every_process_of_a_container_is_confined_and_only_a_lab_grants_more";
    namespaces::enter(name, || {
        for runtime in RUNTIMES {
            let status = |node: &Node, pid: &str, key: &str| {
                let text = node.shell(&format!("cat /proc/{pid}/status"));
                let line = text.lines().find_map(|l| l.strip_prefix(key)).unwrap();
                line.trim_start_matches(':').trim().to_owned()
            };
            let mut node = Node::new(runtime);
            node.start();
            for pid in ["1", "self"] {
                assert_eq!(status(&node, pid, "NoNewPrivs"), "1");
                assert_eq!(status(&node, pid, "Seccomp"), "2");
                // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE,
                // NET_ADMIN, NET_RAW, SYS_CHROOT, AUDIT_WRITE, SETFCAP.
                for set in ["CapEff", "CapPrm", "CapBnd"] {
                    assert_eq!(
                        status(&node, pid, set),
                        "00000000a00435fb",
                        "{set} of {pid}"
                    );
                }
            }
            drop(node);

            let mut node = Node::new(runtime);
            node.config.security = Security {
                capabilities: vec!["SYS_NICE".into()],
                seccomp: Seccomp::Unconfined,
                ..Security::default()
            };
            node.start();
            for pid in ["1", "self"] {
                assert_eq!(status(&node, pid, "Seccomp"), "0");
                assert_eq!(status(&node, pid, "CapBnd"), "00000000a08435fb");
            }
            assert_eq!(node.shell("chrt -f 1 echo real-time"), "real-time");
        }
    });
}

#[test]
fn a_node_program_cannot_execute_latlab_through_its_interpreter() {
    let name = "a_node_program_cannot_execute_latlab_through_its_interpreter";
    namespaces::enter(name, || {
        for runtime in RUNTIMES {
            let mut node = Node::new(runtime);
            node.start();
            // CVE-2019-5736: a process that starts it would execute its own binary, inside.
            node.shell("echo '#!/proc/self/exe' >/usr/bin/trap; chmod +x /usr/bin/trap");
            for program in ["trap", "/usr/bin/trap"] {
                let (exit, text) = node.run(&Command::new([program]));
                assert_eq!(exit, Exit::Code(2), "{text}");
                assert!(text.starts_with("latlab-agent: usage"), "{text}");
            }
        }
    });
}

#[test]
fn a_probe_is_latlabs_own_whatever_lies_in_its_place() {
    namespaces::enter("a_probe_is_latlabs_own_whatever_lies_in_its_place", || {
        for runtime in RUNTIMES {
            let mut node = Node::new(runtime);
            node.start();
            let replace = "mv /run/latlab /run/moved && mkdir /run/latlab && \
                 printf '#!/bin/sh\\necho mine; cat /proc/self/status\\n' >/run/latlab/agent && \
                 chmod +x /run/latlab/agent";
            node.shell(replace);
            // A probe has more capabilities than the container's own programs.
            let (exit, text) = node.run(&Command::new([AGENT_INSIDE, "probe"]));
            assert!(!exit.success() && !text.contains("mine"), "{text}");
            // Without that they are what the container has.
            let (_, text) = node.run(&Command::new([AGENT_INSIDE, "get"]));
            assert!(text.contains("mine") && text.contains("a00435fb"), "{text}");
        }
    });
}

#[test]
fn a_working_directory_does_not_lead_through_descriptors() {
    namespaces::enter(
        "a_working_directory_does_not_lead_through_descriptors",
        || {
            for runtime in RUNTIMES {
                let mut node = Node::new(runtime);
                let marker = node.scratch.join("marker");
                fs::write(&marker, "of the machine").unwrap();
                // CVE-2024-21626. The container has a /tmp of its own, in which the file is not.
                let up = "../".repeat(12);
                let line =
                    |from: &str| Command::shell(&format!("cat {from}{up}{}", marker.display()));
                node.config.root.config.working_dir = "/proc/self/fd/7".into();
                node.start();
                let mut of_the_first = line("/proc/1/cwd/");
                of_the_first.cwd = Some("/".into());
                let (exit, text) = node.run(&of_the_first);
                assert!(!exit.success(), "{text}");
                for number in 3..40 {
                    let mut command = line("");
                    command.cwd = Some(format!("/proc/self/fd/{number}"));
                    let container = node.container.as_ref().unwrap();
                    match container.start(&command) {
                        Ok(_) => panic!("descriptor {number} is a directory to start in"),
                        Err(e) => assert!(e.to_string().contains("enter directory"), "{e}"),
                    }
                }
            }
        },
    );
}

#[test]
fn binds_and_links_of_a_hostile_image_stay_in_the_container() {
    namespaces::enter(
        "binds_and_links_of_a_hostile_image_stay_in_the_container",
        || {
            for runtime in RUNTIMES {
                let mut node = Node::new(runtime);
                let [image, victim, data] =
                    ["image", "victim", "data"].map(|name| node.scratch.join(name));
                for dir in [&image, &victim, &data] {
                    fs::create_dir(dir).unwrap();
                }
                // Each mount point of the container leads to the machine's files, by path.
                for name in ["mnt", "run", "dev", "tmp"] {
                    std::os::unix::fs::symlink(&victim, image.join(name)).unwrap();
                }
                let Ok(root) = prepare(&Image::Directory(image.clone()), &Cache::new("/none"))
                else {
                    panic!("a directory is an image");
                };
                node.config.root = RootView { ..root };
                node.bind(&data, "/mnt/bound");
                // The container starts with everything inside its own root, or not at all.
                let started = container::start(&node.config, &node.cgroup);
                assert_eq!(fs::read_dir(&victim).unwrap().count(), 0, "{started:?}");
            }
        },
    );
}

#[test]
fn only_root_reads_the_files_of_a_container() {
    namespaces::enter("only_root_reads_the_files_of_a_container", || {
        for runtime in RUNTIMES {
            let mut node = Node::new(runtime);
            node.config.env.insert("SECRET".into(), "x".into());
            node.start();
            node.shell("cp /bin/sh /usr/bin/everybodys && chmod 4755 /usr/bin/everybodys");
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            let dir = &node.config.dir;
            assert_eq!(mode(&dir.join("bundle/config.json")), 0o600);
            for private in [dir.clone(), dir.join("bundle"), dir.join("layer")] {
                assert_eq!(mode(&private), 0o700, "{}", private.display());
            }
        }
    });
}
