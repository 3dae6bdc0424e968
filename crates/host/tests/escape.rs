//! Ways that root in a container tries to get out, under every runtime. Needs root.
//!
//! Everything is as in `container.rs`: namespaces and a directory of the test's own, cgroups
//! that are removed. What is attacked is only looked at, or would be harmless if it were reached.

mod containers;
mod namespaces;
mod ways_out;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process;

use latlab_host::cgroup::Limits;
use latlab_host::images::{Cache, Image, RootView, prepare};
use latlab_host::nodes::container::{self, Container};
use latlab_host::nodes::session::{Command, Exit};
use latlab_model::kinds::{Runtime, Seccomp, Security};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::MountFlags;

use containers::{Node, run, runtimes, shell};

const AGENT_INSIDE: &str = "/run/latlab/agent";

/// A node with the limits that labs give.
fn new_node(runtime: Runtime) -> Node {
    let limits = Limits {
        memory_bytes: Some(256 << 20),
        pids: Some(100),
        devices: Some(Vec::new()),
        ..Limits::default()
    };
    Node::new(runtime, &limits)
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
        for runtime in runtimes() {
            let mut node = new_node(runtime);
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
            node.bind(&data, "/bound", true);
            node.bind(&std::env::current_exe().unwrap(), "/attacker", true);
            // With a number that no process of the container has.
            let _ = fs::write("/proc/sys/kernel/ns_last_pid", "29999");
            let mut outside = process::Command::new("sleep").arg("600").spawn().unwrap();
            let name = format!("latlab-escape-{}", namespaces::id());
            let address = <std::os::unix::net::SocketAddr as
                std::os::linux::net::SocketAddrExt>::from_abstract_name(&name);
            let _listener = std::os::unix::net::UnixListener::bind_addr(&address.unwrap()).unwrap();
            let c = node.start();
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
                let (exit, text) = run(&c, &command, b"");
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
        for runtime in runtimes() {
            let status = |c: &Container, pid: &str, key: &str| {
                let text = shell(c, &format!("cat /proc/{pid}/status"));
                let line = text.lines().find_map(|l| l.strip_prefix(key)).unwrap();
                line.trim_start_matches(':').trim().to_owned()
            };
            let node = new_node(runtime);
            let c = node.start();
            for pid in ["1", "self"] {
                assert_eq!(status(&c, pid, "NoNewPrivs"), "1");
                assert_eq!(status(&c, pid, "Seccomp"), "2");
                // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE,
                // NET_ADMIN, NET_RAW, SYS_CHROOT, AUDIT_WRITE, SETFCAP.
                for set in ["CapEff", "CapPrm", "CapBnd"] {
                    assert_eq!(status(&c, pid, set), "00000000a00435fb", "{set} of {pid}");
                }
            }
            drop(node);

            let mut node = new_node(runtime);
            node.config.security = Security {
                capabilities: vec!["SYS_NICE".into()],
                seccomp: Seccomp::Unconfined,
                ..Security::default()
            };
            let c = node.start();
            for pid in ["1", "self"] {
                assert_eq!(status(&c, pid, "Seccomp"), "0");
                assert_eq!(status(&c, pid, "CapBnd"), "00000000a08435fb");
            }
            assert_eq!(shell(&c, "chrt -f 1 echo real-time"), "real-time");
        }
    });
}

#[test]
fn a_node_program_cannot_execute_latlab_through_its_interpreter() {
    let name = "a_node_program_cannot_execute_latlab_through_its_interpreter";
    namespaces::enter(name, || {
        for runtime in runtimes() {
            let node = new_node(runtime);
            let c = node.start();
            // CVE-2019-5736: a process that starts it would execute its own binary, inside.
            shell(
                &c,
                "echo '#!/proc/self/exe' >/usr/bin/trap; chmod +x /usr/bin/trap",
            );
            for program in ["trap", "/usr/bin/trap"] {
                let (exit, text) = run(&c, &Command::new([program]), b"");
                assert_eq!(exit, Exit::Code(2), "{text}");
                assert!(text.starts_with("latlab-agent: usage"), "{text}");
            }
        }
    });
}

#[test]
fn a_probe_is_latlabs_own_whatever_lies_in_its_place() {
    namespaces::enter("a_probe_is_latlabs_own_whatever_lies_in_its_place", || {
        for runtime in runtimes() {
            let node = new_node(runtime);
            let c = node.start();
            let replace = "mv /run/latlab /run/moved && mkdir /run/latlab && \
                 printf '#!/bin/sh\\necho mine; cat /proc/self/status\\n' >/run/latlab/agent && \
                 chmod +x /run/latlab/agent";
            shell(&c, replace);
            // A probe has more capabilities than the container's own programs.
            let (exit, text) = run(&c, &Command::new([AGENT_INSIDE, "probe"]), b"");
            assert!(!exit.success() && !text.contains("mine"), "{text}");
            // Without that they are what the container has.
            let (_, text) = run(&c, &Command::new([AGENT_INSIDE, "get"]), b"");
            assert!(text.contains("mine") && text.contains("a00435fb"), "{text}");
        }
    });
}

#[test]
fn a_working_directory_does_not_lead_through_descriptors() {
    namespaces::enter(
        "a_working_directory_does_not_lead_through_descriptors",
        || {
            for runtime in runtimes() {
                let mut node = new_node(runtime);
                let marker = node.scratch.join("marker");
                fs::write(&marker, "of the machine").unwrap();
                // CVE-2024-21626. The container has a /tmp of its own, in which the file is not.
                let up = "../".repeat(12);
                let line =
                    |from: &str| Command::shell(&format!("cat {from}{up}{}", marker.display()));
                node.config.root.config.working_dir = "/proc/self/fd/7".into();
                let c = node.start();
                let mut of_the_first = line("/proc/1/cwd/");
                of_the_first.cwd = Some("/".into());
                let (exit, text) = run(&c, &of_the_first, b"");
                assert!(!exit.success(), "{text}");
                for number in 3..40 {
                    let mut command = line("");
                    command.cwd = Some(format!("/proc/self/fd/{number}"));
                    match c.start(&command) {
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
            for runtime in runtimes() {
                let mut node = new_node(runtime);
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
                node.bind(&data, "/mnt/bound", true);
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
        for runtime in runtimes() {
            let mut node = new_node(runtime);
            node.config.env.insert("SECRET".into(), "x".into());
            let c = node.start();
            shell(
                &c,
                "cp /bin/sh /usr/bin/everybodys && chmod 4755 /usr/bin/everybodys",
            );
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            let dir = &node.config.dir;
            assert_eq!(mode(&dir.join("bundle/config.json")), 0o600);
            for private in [dir.clone(), dir.join("bundle"), dir.join("layer")] {
                assert_eq!(mode(&private), 0o700, "{}", private.display());
            }
        }
    });
}
