//! Containers on this machine, with each runtime.
//!
//! Needs root. Each test runs in mount, process and network namespaces of its own, with everything
//! of the node in a directory that is removed; of the machine it touches only cgroups named
//! `latlab/test-<pid>/`, which it removes too. Traffic there is none.

mod containers;
mod namespaces;

use std::fs;
use std::io::{BufRead, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, Instant};

use latlab_host::cgroup::{Cgroups, Limits, NodeCgroup};
use latlab_host::dirs::Dirs;
use latlab_host::facts::{self, CpusInUse, ReadOptions};
use latlab_host::images::{Cache, Image, prepare};
use latlab_host::nodes::container;
use latlab_host::nodes::session::{Command, Exit, Session};
use latlab_host::sys::process::Process;
use latlab_host::sys::{inside, mount};
use latlab_model::facts::Facts;
use latlab_model::units::CpuList;
use rustix::mount::{MountFlags, UnmountFlags};

use containers::{Node, run, runtimes, scratch, shell};

/// More than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn commands_run_as_in_a_shell() {
    namespaces::enter("commands_run_as_in_a_shell", || {
        for runtime in runtimes() {
            let mut node = Node::new(runtime, &Limits::default());
            node.config.env.insert("GREETING".into(), "hello".into());
            node.config.env.insert("LATLAB_LAB".into(), "forged".into());
            let c = node.start();

            let (exit, text) = run(&c, &Command::new(["cat"]), b"through the pipe");
            assert_eq!((exit, &*text), (Exit::Code(0), "through the pipe"));
            assert_eq!(run(&c, &Command::shell("exit 7"), b"").0, Exit::Code(7));
            assert_eq!(
                run(&c, &Command::shell("kill -SEGV $$"), b"").0,
                Exit::Signal(11)
            );
            assert_eq!(shell(&c, "echo out; echo err >&2"), "out\nerr");
            assert_eq!(
                shell(&c, "head -c 3000000 /dev/zero | tr '\\0' x").len(),
                3_000_000
            );

            let mut command = Command::shell("echo $GREETING $OWN $PWD $LATLAB_LAB ${SHLVL-}");
            command.env.insert("OWN".into(), "mine".into());
            command.cwd = Some("/etc".into());
            let expected = format!("hello mine /etc {}", node.config.lab_id);
            assert!(run(&c, &command, b"").1.starts_with(&expected));
            assert_eq!(std::env::var("INHERITED_BY_MISTAKE").ok(), None);
            assert_eq!(
                shell(&c, "env | grep -c CARGO || true"),
                "0",
                "latlab's own environment"
            );

            for (argv, reason) in [
                (["no-such-program"], "not found in PATH="),
                (["/no/such/program"], "No such file"),
                (["/etc/passwd"], "Permission denied"),
                ([""], "no program is named"),
            ] {
                let error = c.start(&Command::new(argv)).unwrap_err().to_string();
                assert!(error.contains(reason), "{argv:?}: {error}");
            }
        }
    });
}

#[test]
fn a_container_is_a_world_of_its_own() {
    namespaces::enter("a_container_is_a_world_of_its_own", || {
        for runtime in runtimes() {
            let node = Node::new(runtime, &Limits::default());
            let c = node.start();
            assert_eq!(shell(&c, "hostname"), format!("{runtime}-node"));
            let init = shell(&c, "tr '\\0' ' ' </proc/1/cmdline");
            assert_eq!(init, "/run/latlab/agent pause");
            assert_eq!(shell(&c, "ls -A /tmp | wc -l"), "0");

            // All namespaces differ from ours, except that the network is the pinned one.
            for kind in ["pid", "ipc", "uts", "mnt", "cgroup"] {
                let ours = fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
                let theirs = shell(&c, &format!("readlink /proc/self/ns/{kind}"));
                assert_ne!(ours.to_str().unwrap(), theirs);
                let init = fs::read_link(format!("/proc/{}/ns/{kind}", c.process.pid)).unwrap();
                assert_eq!(
                    init.to_str().unwrap(),
                    theirs,
                    "commands are where the init is"
                );
            }
            let pinned = fs::metadata(&node.config.netns).unwrap().ino();
            assert_eq!(
                shell(&c, "readlink /proc/self/ns/net"),
                format!("net:[{pinned}]")
            );

            // Root inside may configure the network, and nothing of the machine.
            shell(&c, "echo 1 >/proc/sys/net/ipv4/ip_forward");
            let refused = run(&c, &Command::shell("echo 1 >/proc/sys/kernel/sysrq"), b"").0;
            assert_ne!(refused, Exit::Code(0));
            let bounding = shell(&c, "grep CapBnd /proc/self/status");
            let of_init = shell(&c, "grep CapBnd /proc/1/status");
            assert_eq!(bounding, of_init);
            let bits = u64::from_str_radix(bounding.rsplit('\t').next().unwrap(), 16).unwrap();
            assert_ne!(bits & 1 << 12, 0, "CAP_NET_ADMIN");
            assert_eq!(bits & 1 << 21, 0, "CAP_SYS_ADMIN");

            // Every process is labelled and in the node's group, and nothing else is.
            let environ = fs::read(format!("/proc/{}/environ", c.process.pid)).unwrap();
            let label = format!("LATLAB_LAB={}", node.config.lab_id);
            assert!(environ.split(|b| *b == 0).any(|v| v == label.as_bytes()));
            let pids = node.cgroup.pids().unwrap();
            assert!(pids.contains(&c.process.pid));
            assert_eq!(pids.len() == 1, runtime.leaves(), "{runtime}: {pids:?}");
            assert!(node.cgroup.cpu_usage().unwrap().total_ns > 0);

            // Files written stay in the node's layer; the machine sees no mount of ours.
            shell(
                &c,
                "echo x >/etc/latlab-test && rm /etc/hostname && test -e /etc/latlab-test",
            );
            assert!(!Path::new("/etc/latlab-test").exists());
            let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
            assert!(!mounts.contains(node.config.dir.to_str().unwrap()));
        }
    });
}

#[test]
fn binds_show_files_of_the_machine() {
    namespaces::enter("binds_show_files_of_the_machine", || {
        for runtime in runtimes() {
            let mut node = Node::new(runtime, &Limits::default());
            let data = node.scratch.join("data");
            fs::create_dir(&data).unwrap();
            fs::write(data.join("in"), "from outside").unwrap();
            node.bind(&data, "/data", false);
            node.bind(&data, "/mnt/made/ro", true);
            let c = node.start();
            assert_eq!(
                shell(&c, "cat /data/in /mnt/made/ro/in"),
                "from outsidefrom outside"
            );
            shell(&c, "echo from inside >/data/out");
            assert_eq!(
                fs::read_to_string(data.join("out")).unwrap(),
                "from inside\n"
            );
            let (exit, text) = run(&c, &Command::shell("echo x >/mnt/made/ro/out"), b"");
            assert_ne!(exit, Exit::Code(0), "{text}");
        }
    });
}

#[test]
fn signals_and_the_end_reach_every_process() {
    namespaces::enter("signals_and_the_end_reach_every_process", || {
        for runtime in runtimes() {
            let mut node = Node::new(runtime, &Limits::default());
            let told = node.scratch.join("told");
            fs::create_dir(&told).unwrap();
            node.bind(&told, "/told", false);
            let c = node.start();

            let script = "trap 'exit 3' USR1; echo ready; while :; do sleep 0.01; done";
            let mut session = c.start(&Command::shell(script)).unwrap();
            let mut ready = [0; 6];
            session
                .take_stdout()
                .unwrap()
                .read_exact(&mut ready)
                .unwrap();
            session.signaller()(libc::SIGUSR1).unwrap();
            assert_eq!(session.wait().unwrap(), Exit::Code(3));

            let listen =
                "trap 'echo bye >/told/bye; exit 0' TERM; echo r; while :; do sleep 0.01; done";
            let mut polite = c.start(&Command::shell(listen)).unwrap();
            polite
                .take_stdout()
                .unwrap()
                .read_exact(&mut ready[..2])
                .unwrap();
            let waiter = std::thread::spawn(move || polite.wait().unwrap());
            containers::stop(&c, TIMEOUT);
            assert_eq!(waiter.join().unwrap(), Exit::Code(0));
            assert_eq!(fs::read_to_string(told.join("bye")).unwrap(), "bye\n");
            assert!(node.cgroup.pids().unwrap().is_empty());
            containers::stop(&c, TIMEOUT);
            let error = c.start(&Command::new(["true"])).unwrap_err();
            assert!(matches!(error, container::Error::Ended), "{error}");
            containers::delete(&node.config.dir, &node.cgroup).unwrap();
            containers::delete(&node.config.dir, &node.cgroup).unwrap();
            assert!(!node.config.dir.exists());
            assert!(node.cgroup.dirs().iter().all(|dir| !dir.exists()));
        }
    });
}

#[test]
fn a_process_that_ignores_sigterm_is_killed() {
    namespaces::enter("a_process_that_ignores_sigterm_is_killed", || {
        for runtime in runtimes() {
            let node = Node::new(runtime, &Limits::default());
            let c = node.start();
            let deaf = "trap '' TERM; echo r; while :; do sleep 1; done";
            let mut session = c.start(&Command::shell(deaf)).unwrap();
            session
                .take_stdout()
                .unwrap()
                .read_exact(&mut [0; 2])
                .unwrap();
            containers::stop(&c, Duration::from_millis(50));
            assert_eq!(session.wait().unwrap(), Exit::Signal(libc::SIGKILL));
            assert!(node.cgroup.pids().unwrap().is_empty());
            let init = Process::open(c.process).unwrap();
            assert!(init.is_none_or(|p| p.wait(TIMEOUT).unwrap()));
        }
    });
}

#[test]
fn limits_hold_and_are_seen_from_inside() {
    namespaces::enter("limits_hold_and_are_seen_from_inside", || {
        let limits = Limits {
            partition: false,
            memory_nodes: None,
            cpus: Some(0.5),
            cpuset: Some(CpuList::new(vec![0])),
            memory_bytes: Some(128 << 20),
            pids: Some(64),
            devices: None,
            huge_pages: None,
        };
        let available = Cgroups::discover().unwrap();
        available.check(&limits).unwrap();
        for runtime in runtimes() {
            let node = Node::new(runtime, &limits);
            let c = node.start();
            let read = |v1: &str, v2: &str| {
                shell(
                    &c,
                    &format!("cd /sys/fs/cgroup; cat {v2} 2>/dev/null || cat {v1}"),
                )
            };
            let quota = read("cpu*/cpu.cfs_quota_us", "cpu.max");
            assert!(["50000", "50000 100000"].contains(&&*quota), "{quota}");
            assert_eq!(
                read("memory/memory.limit_in_bytes", "memory.max"),
                "134217728"
            );
            assert_eq!(read("cpuset/cpuset.cpus", "cpuset.cpus"), "0");
            assert_eq!(read("pids/pids.max", "pids.max"), "64");
            assert_eq!(shell(&c, "nproc"), "1");
            let write = "cd /sys/fs/cgroup; echo max >pids.max || echo max >pids/pids.max";
            assert_ne!(
                run(&c, &Command::shell(write), b"").0,
                Exit::Code(0),
                "read-only"
            );

            // `tail` keeps a line until it ends. Of 160 MB it is killed, and the node lives on.
            let hog = "{ head -c 160000000 /dev/zero | tail >/dev/null; } 2>/dev/null; echo $?";
            assert_eq!(shell(&c, hog), "137");
            // 70 processes cannot be; the shell says so when it cannot fork.
            let many = "i=0; while [ $i -lt 70 ]; do sleep 99 >/dev/null 2>&1 & i=$((i+1)); done";
            let (exit, text) = run(&c, &Command::shell(many), b"");
            assert_ne!(exit, Exit::Code(0), "{text}");
            assert!(text.to_lowercase().contains("fork"), "{text}");
        }
    });
}

#[test]
fn leftovers_of_a_killed_start_can_be_deleted() {
    const HELPER: &str = "LATLAB_TEST_START";
    const NAME: &str = "leftovers_of_a_killed_start_can_be_deleted";
    namespaces::enter(NAME, || {
        if let Ok(runtime) = std::env::var(HELPER) {
            // The process that will be killed while it does this.
            let runtime = runtimes()
                .into_iter()
                .find(|r| r.to_string() == runtime)
                .unwrap();
            let node = Node::new(runtime, &Limits::default());
            println!("going");
            node.start();
            println!("started");
            // Not to be cleaned up by this process, and to be killed rather than to end.
            std::mem::forget(node);
            loop {
                std::thread::park();
            }
        }
        for runtime in runtimes() {
            let mut finished = 0;
            for round in 0..12 {
                let mut helper = process::Command::new(std::env::current_exe().unwrap())
                    .args(namespaces::test_arguments(NAME))
                    .env(HELPER, runtime.to_string())
                    .stdout(process::Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut said = String::new();
                let mut stdout = std::io::BufReader::new(helper.stdout.take().unwrap());
                while !said.ends_with("going\n") {
                    assert_ne!(stdout.read_line(&mut said).unwrap(), 0, "{said}");
                }
                std::thread::sleep(Duration::from_millis(round * round));
                helper.kill().unwrap();
                helper.wait().unwrap();
                said.clear();
                // The runtime, should it live on, is not among those that hold this pipe.
                stdout.read_to_string(&mut said).unwrap();
                finished += usize::from(said.contains("started"));

                let lab = format!("test-{}", namespaces::id());
                let cgroups = Cgroups::discover().unwrap();
                let dirs = cgroups
                    .dirs(&lab, &runtime.to_string(), &Limits::default())
                    .unwrap();
                let cgroup = NodeCgroup::from_dirs(dirs).unwrap();
                let dir = scratch(runtime).join("node");
                containers::delete(&dir, &cgroup).unwrap();
                assert!(!dir.exists());
                assert!(cgroup.dirs().iter().all(|dir| !dir.exists()));
                let netns = scratch(runtime).join("netns");
                let _ = rustix::mount::unmount(&netns, UnmountFlags::DETACH);
                let _ = fs::remove_dir_all(scratch(runtime));
            }
            println!("{runtime}: {finished} of 12 had finished");
            // And the name is free for the next.
            shell(&Node::new(runtime, &Limits::default()).start(), "true");
            wait_alone();
        }
    });
}

/// Waits until this process, the first of its process namespace, and its helpers are alone.
fn wait_alone() {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        // Orphans come to the first process of a namespace, which is us.
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
        let others: Vec<String> = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok())
            .filter(|name| name.parse::<u32>().is_ok_and(|pid| pid != process::id()))
            .map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or(pid))
            .collect();
        if others.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "still there: {others:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn failures_have_reasons() {
    namespaces::enter("failures_have_reasons", || {
        for runtime in runtimes() {
            let mut node = Node::new(runtime, &Limits::default());
            let agent = std::mem::replace(&mut node.config.agent, "/no/such/agent".into());
            let error = container::start(&node.config, &node.cgroup)
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with(&format!("{runtime} cannot start")),
                "{error}"
            );
            assert!(error.contains("/no/such/agent"), "{error}");
            containers::delete(&node.config.dir, &node.cgroup).unwrap();
            drop(node);

            // A first process that ends without a word.
            let mut node = Node::new(runtime, &Limits::default());
            node.config.agent = "/bin/true".into();
            let error = container::start(&node.config, &node.cgroup)
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("did not start") || error.contains("cannot start"),
                "{error}"
            );
            node.config.agent = agent;
        }
    });
}

/// An OCI archive of one layer: busybox and the names it answers to.
fn busybox_archive(path: &Path) {
    let append = |tar: &mut tar::Builder<Vec<u8>>, name: &str, mode, bytes: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(&mut header, name, bytes).unwrap();
    };
    let mut layer = tar::Builder::new(Vec::new());
    append(
        &mut layer,
        "bin/busybox",
        0o755,
        &fs::read("/bin/busybox").unwrap(),
    );
    for name in ["sh", "cat", "echo", "id"] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        layer
            .append_link(&mut header, format!("bin/{name}"), "busybox")
            .unwrap();
    }
    append(&mut layer, "srv/page", 0o644, b"from the image");
    let layer = layer.into_inner().unwrap();

    let digest = |bytes: &[u8]| {
        use sha2::Digest as _;
        sha2::Sha256::digest(bytes)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect::<String>()
    };
    let config = format!(
        r#"{{"os":"linux","config":{{"Env":["PATH=/bin","FROM=image"],"WorkingDir":"/srv"}},
            "rootfs":{{"type":"layers","diff_ids":["sha256:{}"]}}}}"#,
        digest(&layer)
    );
    let describe = |b: &[u8]| format!(r#"{{"digest":"sha256:{}","size":{}}}"#, digest(b), b.len());
    let manifest = format!(
        r#"{{"schemaVersion":2,"config":{},"layers":[{}]}}"#,
        describe(config.as_bytes()),
        describe(&layer)
    );
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{}]}}"#,
        describe(manifest.as_bytes())
    );
    let mut archive = tar::Builder::new(Vec::new());
    append(
        &mut archive,
        "oci-layout",
        0o644,
        br#"{"imageLayoutVersion":"1.0.0"}"#,
    );
    append(&mut archive, "index.json", 0o644, index.as_bytes());
    for blob in [manifest.as_bytes(), config.as_bytes(), &layer] {
        append(
            &mut archive,
            &format!("blobs/sha256/{}", digest(blob)),
            0o644,
            blob,
        );
    }
    fs::write(path, archive.into_inner().unwrap()).unwrap();
}

#[test]
fn an_image_from_an_archive_needs_nothing_of_the_machine() {
    namespaces::enter(
        "an_image_from_an_archive_needs_nothing_of_the_machine",
        || {
            for runtime in runtimes() {
                let scratch = scratch(runtime);
                fs::create_dir_all(&scratch).unwrap();
                let file = scratch.join("image.tar");
                busybox_archive(&file);
                let image = Image::find(file.to_str().unwrap(), Path::new("/")).unwrap();
                let cache = Cache::new(scratch.join("cache"));
                let node = Node::with_root(
                    runtime,
                    &Limits::default(),
                    prepare(&image, &cache).unwrap(),
                );
                let c = node.start();
                assert_eq!(
                    shell(&c, "cat page; echo; echo $FROM $PWD"),
                    "from the image\nimage /srv"
                );
                let written = run(&c, &Command::new(["sh", "-c", "echo changed >page"]), b"").0;
                assert_eq!(written, Exit::Code(0));
                assert_eq!(
                    fs::read_to_string(node.config.root.dir.join("srv/page")).unwrap(),
                    "from the image"
                );
                assert!(
                    c.start(&Command::new(["bash"])).is_err(),
                    "the machine's programs are not in it"
                );
            }
        },
    );
}

/// Copies `program` and the libraries it is linked with below `root`, at the same places.
fn install(program: &Path, root: &Path) {
    let linked = process::Command::new("ldd").arg(program).output().unwrap();
    let linked = String::from_utf8(linked.stdout).unwrap();
    let libraries = linked
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    for file in libraries.map(Path::new).chain([program]) {
        let target = root.join(file.strip_prefix("/").unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(file, target).unwrap();
    }
}

fn find(program: &str) -> PathBuf {
    let places = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
    let mut files = places.iter().map(|dir| Path::new(dir).join(program));
    files
        .find(|file| file.exists())
        .unwrap_or_else(|| panic!("{program} is not installed"))
}

/// A chroot whose `/` is a directory and no mount, as debootstrap leaves it: it cannot be pivoted.
#[test]
fn a_chroot_is_enough_of_a_machine() {
    const INSIDE: &str = "LATLAB_TEST_CHROOT";
    const NAME: &str = "a_chroot_is_enough_of_a_machine";
    namespaces::enter(NAME, || {
        if std::env::var_os(INSIDE).is_some() {
            let mut options = ReadOptions::everything(CpusInUse::default());
            options.prove.retain(|name| name == Facts::OVERLAYFS);
            options.dirs = Dirs::below(Path::new("/facts"));
            let proven = &facts::read(&options).capabilities[Facts::OVERLAYFS];
            assert!(proven.works, "{proven:?}");
            for runtime in runtimes() {
                let node = Node::new(runtime, &Limits::default());
                let c = node.start();
                assert_eq!(shell(&c, "cat /only-here"), "in the chroot");
                shell(&c, "echo x >/written");
                assert!(!Path::new("/written").exists());
                containers::stop(&c, TIMEOUT);
            }
            return;
        }
        let root = std::env::temp_dir().join(format!("latlab-test-{}-root", namespaces::id()));
        let test = std::env::current_exe().unwrap();
        for program in [&test, &namespaces::agent(), &find("crun"), &find("runc")] {
            install(program, &root);
        }
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::copy(find("busybox"), root.join("bin/busybox")).unwrap();
        for name in ["sh", "cat", "true", "unshare"] {
            std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).unwrap();
        }
        fs::write(root.join("only-here"), "in the chroot").unwrap();
        for dir in ["tmp", "proc", "sys", "dev"] {
            fs::create_dir_all(root.join(dir)).unwrap();
            if dir != "tmp" {
                let outside = Path::new("/").join(dir);
                rustix::mount::mount_bind_recursive(&outside, root.join(dir)).unwrap();
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let status = process::Command::new("chroot")
            .arg(&root)
            .arg(&test)
            .args(namespaces::test_arguments(NAME))
            .env(INSIDE, "1")
            .env("TMPDIR", "/tmp")
            .status();
        assert_eq!(fs::read_to_string("/proc/self/mountinfo").unwrap(), mounts);
        for dir in ["dev", "sys", "proc"] {
            rustix::mount::unmount(root.join(dir), UnmountFlags::DETACH).unwrap();
        }
        fs::remove_dir_all(&root).unwrap();
        assert!(status.unwrap().success());
    });
}

#[test]
fn without_control_groups_containers_run_without_limits() {
    let name = "without_control_groups_containers_run_without_limits";
    namespaces::enter(name, || {
        rustix::mount::unmount("/sys/fs/cgroup", UnmountFlags::DETACH).unwrap();
        let limits = Limits {
            pids: Some(10),
            ..Limits::default()
        };
        let error = Cgroups::discover().unwrap().check(&limits).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("no cgroup file system is mounted"),
            "{error}"
        );
        for runtime in runtimes() {
            let node = Node::new(runtime, &Limits::default());
            assert!(node.cgroup.dirs().is_empty());
            if runtime.cgroup().is_some() {
                let error = container::start(&node.config, &node.cgroup).unwrap_err();
                let reason = format!("{runtime} cannot start the container: it needs");
                assert!(error.to_string().starts_with(&reason), "{error}");
                continue;
            }
            let c = node.start();
            assert_eq!(shell(&c, "echo $((6*7)); ls /sys/fs/cgroup"), "42");
            assert!(c.cgroup.cpu_usage().is_err());
            containers::stop(&c, TIMEOUT);
        }
    });
}

#[test]
fn file_systems_of_the_machines_root_are_in_its_image() {
    namespaces::enter("file_systems_of_the_machines_root_are_in_its_image", || {
        let tmpfs = |at: &str| {
            rustix::mount::mount("test", at, "tmpfs", MountFlags::empty(), None).unwrap();
        };
        // A disk of its own, one mounted on it, and a single file as container engines mount them.
        tmpfs("/srv");
        fs::create_dir("/srv/inner").unwrap();
        tmpfs("/srv/inner");
        for (file, text) in [("/srv/file", "disk"), ("/srv/inner/file", "inner disk")] {
            fs::write(file, text).unwrap();
        }
        fs::write("/srv/hostname", "single").unwrap();
        rustix::mount::mount_bind("/srv/hostname", "/etc/hostname").unwrap();
        // Not part of the system.
        tmpfs("/mnt");
        fs::write("/mnt/stick", "").unwrap();
        for runtime in runtimes() {
            let node = Node::new(runtime, &Limits::default());
            let c = node.start();
            let files = "cat /srv/file; echo; cat /srv/inner/file; echo; cat /etc/hostname";
            assert_eq!(shell(&c, files), "disk\ninner disk\nsingle");
            assert_eq!(shell(&c, "ls /mnt/stick 2>/dev/null || echo none"), "none");
            shell(&c, "echo changed >/srv/file; echo changed >/srv/inner/file");
            assert_eq!(fs::read_to_string("/srv/file").unwrap(), "disk");
            assert_eq!(fs::read_to_string("/srv/inner/file").unwrap(), "inner disk");
            let written = run(&c, &Command::shell("echo x >/etc/hostname"), b"").0;
            assert_ne!(written, Exit::Code(0), "a single file has no layer");
        }
    });
}

/// Where latlab itself runs in a container, its directories lie on an overlay, which cannot carry
/// another one's layer.
#[test]
fn a_layer_that_cannot_be_on_disk_is_in_memory() {
    namespaces::enter("a_layer_that_cannot_be_on_disk_is_in_memory", || {
        for runtime in runtimes() {
            let mut node = Node::new(runtime, &Limits::default());
            let running = container::start(&node.config, &node.cgroup).unwrap();
            let tmp_in_memory = inside::is_in_memory(&std::env::temp_dir()).unwrap();
            assert_eq!(running.layer_in_memory, tmp_in_memory);
            containers::delete(&node.config.dir, &node.cgroup).unwrap();
            node.cgroup = Cgroups::discover()
                .unwrap()
                .create(
                    &node.config.lab_id,
                    &runtime.to_string(),
                    &Limits::default(),
                )
                .unwrap();

            let overlay = node.scratch.join("overlay");
            let [upper, work] = ["upper", "work"].map(|name| node.scratch.join(name));
            for dir in [&overlay, &upper, &work] {
                fs::create_dir(dir).unwrap();
            }
            mount::overlay(&[Path::new("/usr")], &upper, &work, &overlay).unwrap();
            node.config.dir = overlay.join("node");
            let running = container::start(&node.config, &node.cgroup).unwrap();
            assert!(running.layer_in_memory);
            shell(&node.container(running), "echo x >/etc/written");
            containers::delete(&node.config.dir, &node.cgroup).unwrap();
            rustix::mount::unmount(&overlay, UnmountFlags::DETACH).unwrap();
        }
    });
}
