//! The system calls that need root: namespaces, mounts, taps and children, for real.

mod sandbox;

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use latlab_host::sys::netns::{self, NetNs, NewNetNs};
use latlab_host::sys::process::{self, Process};
use latlab_host::sys::spawn::Spawn;
use latlab_host::sys::tap;
use latlab_host::sys::{Error, mount, tree};
use latlab_netlink::Handle;
use sandbox::TIMEOUT;

fn new(directory: &Path, name: &str) -> NewNetNs {
    NewNetNs {
        path: directory.join(name),
        sysctls: &[("net/ipv4/ip_forward", "1")],
    }
}

fn create(new: &NewNetNs) -> Result<NetNs, Error> {
    netns::create_all(std::slice::from_ref(new))?;
    NetNs::open(&new.path)
}

/// Reads a setting of the calling thread's namespace.
fn sysctl(key: &str) -> String {
    fs::read_to_string(Path::new("/proc/sys").join(key))
        .unwrap()
        .trim()
        .to_owned()
}

#[test]
fn a_namespace_is_pinned_quiet_and_has_its_loopback_up() {
    sandbox::run("netns", |directory| {
        let made = create(&new(directory, "one")).unwrap();
        let number = made.inode().unwrap();
        assert_ne!(number, NetNs::current().unwrap().inode().unwrap());
        drop(made);
        // No process and no descriptor holds it: only the pin.
        let opened = NetNs::open(&directory.join("one")).unwrap();
        assert_eq!(opened.inode().unwrap(), number);
        opened
            .run(|| {
                assert_eq!(NetNs::current().unwrap().inode().unwrap(), number);
                assert_eq!(sysctl("net/ipv4/ip_forward"), "1");
                assert_eq!(sysctl("net/ipv6/conf/default/accept_dad"), "0");
                assert_eq!(sysctl("net/ipv6/conf/default/router_solicitations"), "0");
            })
            .unwrap();
        let loopback = Handle::open_in(opened.as_fd())
            .unwrap()
            .link("lo")
            .unwrap()
            .unwrap();
        assert!(loopback.up && loopback.running);
        assert_eq!(
            sysctl("net/ipv4/ip_forward"),
            "0",
            "the caller's namespace is untouched"
        );

        let again = create(&new(directory, "one")).unwrap_err();
        assert_eq!(
            again.source.kind(),
            std::io::ErrorKind::AlreadyExists,
            "{again}"
        );
    });
}

#[test]
fn many_namespaces_are_made_at_once_and_all_differ() {
    sandbox::run("many", |directory| {
        let all: Vec<_> = (0..50)
            .map(|number| new(directory, &number.to_string()))
            .collect();
        netns::create_all(&all).unwrap();
        let inode = |new: &NewNetNs| NetNs::open(&new.path).unwrap().inode().unwrap();
        let mut numbers: Vec<_> = all.iter().map(inode).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 50);
        // One that cannot be made is an error; the others are there for the undo.
        let more = [
            new(directory, "a"),
            new(directory, "7"),
            new(directory, "b"),
        ];
        let error: Error = netns::create_all(&more).unwrap_err();
        assert!(error.to_string().contains("/7"), "{error}");
        mount::unmount_below(directory).unwrap();
        for new in &all {
            assert!(
                NetNs::open(&new.path).is_err(),
                "{} is still pinned",
                new.path.display()
            );
        }
    });
}

#[test]
fn unmounting_below_takes_stacks_and_busy_mounts_and_nothing_else() {
    sandbox::run("mounts", |directory| {
        let make = |name: &str| {
            let path = directory.join(name);
            fs::create_dir_all(&path).unwrap();
            mount::tmpfs(&path, 1 << 20).unwrap();
            path
        };
        let ours = make("ours");
        let busy = make("ours/a,b c");
        make("ours/a,b c/inner");
        let file = fs::File::create(busy.join("open")).unwrap();
        // Two more on top, the last of which hides everything.
        mount::tmpfs(&busy, 1 << 20).unwrap();
        mount::tmpfs(&ours, 1 << 20).unwrap();
        let bystander = make("ours-not");
        mount::unmount_below(&ours).unwrap();
        assert!(!mount::is_mount_point(&ours).unwrap());
        assert!(mount::is_mount_point(&bystander).unwrap());
        assert_eq!(fs::read_dir(&ours).unwrap().count(), 0);
        drop(file);
        mount::unmount_below(&ours).unwrap();
        mount::unmount_below(&directory.join("never-there")).unwrap();
    });
}

#[test]
fn a_tree_is_not_removed_through_a_mount() {
    sandbox::run("tree", |directory| {
        let tree_at = |name: &str| {
            let tree = directory.join(name);
            fs::create_dir_all(tree.join("sub/place")).unwrap();
            fs::write(tree.join("sub/file"), "").unwrap();
            tree
        };
        let other = directory.join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept"), "x").unwrap();
        let refused = |tree: &Path| tree::remove(tree).unwrap_err().to_string();

        let tree = tree_at("directory");
        mount::bind(&other, &tree.join("sub/place"), false).unwrap();
        assert_eq!(refused(&tree), "something is mounted at place");
        mount::unmount_below(&tree).unwrap();
        tree::remove(&tree).unwrap();
        assert!(!tree.exists());

        let tree = tree_at("file");
        mount::bind(&other.join("kept"), &tree.join("sub/file"), false).unwrap();
        assert!(refused(&tree).contains("busy"), "{}", refused(&tree));
        mount::unmount_below(&tree).unwrap();

        let tree = tree_at("top");
        mount::bind(&other, &tree, false).unwrap();
        assert_eq!(refused(&tree), "something is mounted at top");
        assert_eq!(fs::read(other.join("kept")).unwrap(), b"x");
    });
}

#[test]
fn an_overlay_keeps_its_lower_layer_even_with_odd_names() {
    sandbox::run("overlay", |directory| {
        let path = |name: &str| {
            let path = directory.join(name);
            fs::create_dir_all(&path).unwrap();
            path
        };
        let (lower, upper) = (path("lo,w:e\\r"), path("up,per"));
        let (work, target) = (path("work"), path("target"));
        fs::write(lower.join("file"), "below").unwrap();
        mount::overlay(&[&lower], &upper, &work, &target).unwrap();
        assert_eq!(fs::read(target.join("file")).unwrap(), b"below");
        fs::write(target.join("file"), "above").unwrap();
        assert_eq!(fs::read(lower.join("file")).unwrap(), b"below");
        assert_eq!(fs::read(upper.join("file")).unwrap(), b"above");
    });
}

#[test]
fn a_tap_vanishes_with_its_last_descriptor_and_may_have_queues() {
    sandbox::run("tap", |directory| {
        let netns = create(&new(directory, "one")).unwrap();
        let queues = tap::create_tap(netns.as_fd(), "tap-of-test", 3).unwrap();
        assert_eq!(queues.len(), 3);
        let mut handle = Handle::open_in(netns.as_fd()).unwrap();
        assert!(handle.link("tap-of-test").unwrap().is_some());
        assert!(
            Handle::open()
                .unwrap()
                .link("tap-of-test")
                .unwrap()
                .is_none()
        );
        let taken = tap::create_tap(netns.as_fd(), "tap-of-test", 1);
        let taken = taken.unwrap_err();
        assert!(
            taken
                .to_string()
                .starts_with("cannot make tap tap-of-test: "),
            "{taken}"
        );
        drop(queues);
        // A process that another test starts has copies of all descriptors until its program begins.
        let deadline = Instant::now() + Duration::from_secs(10);
        while handle.link("tap-of-test").unwrap().is_some() {
            assert!(Instant::now() < deadline, "it is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

#[test]
fn a_child_starts_in_its_namespace_without_our_descriptors() {
    sandbox::run("child", |directory| {
        let netns = create(&new(directory, "one")).unwrap();
        let ours_alone = fs::File::create(directory.join("ours-alone")).unwrap();
        let script = "readlink /proc/self/ns/net; ls -l /proc/self/fd | grep -c ours-alone";
        let child = Spawn::new("sh", "test-child")
            .args(["-c", script])
            .netns(netns.as_fd());
        let output = child.run(b"", TIMEOUT).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text.lines();
        assert_eq!(
            lines.next().unwrap(),
            format!("net:[{}]", netns.inode().unwrap())
        );
        assert_eq!(lines.next(), Some("0"), "our descriptors are not inherited");
        drop(ours_alone);
    });
}

#[test]
fn children_of_a_killed_process_are_found_by_their_label_alone() {
    sandbox::run("orphan", |directory| {
        let label = format!("orphan-{}", std::process::id());
        let netns = create(&new(directory, "one")).unwrap();
        let script = "sleep 60 & setsid sleep 60 & (sleep 60 &) ; exec sleep 0.05";
        let spawn = Spawn::new("sh", &label)
            .args(["-c", script])
            .netns(netns.as_fd())
            .session();
        let parent = spawn.start().unwrap();
        assert!(parent.wait(TIMEOUT).unwrap());
        let deadline = Instant::now() + TIMEOUT;
        let found = loop {
            let found = process::labelled(&label).unwrap();
            if found.len() == 3 || Instant::now() > deadline {
                break found;
            }
        };
        assert_eq!(found.len(), 3);
        let inside = |process: &Process| {
            NetNs::open(Path::new(&format!("/proc/{}/ns/net", process.id().pid)))
                .unwrap()
                .inode()
                .unwrap()
        };
        assert!(
            found
                .iter()
                .all(|process| inside(process) == netns.inode().unwrap())
        );
        assert_eq!(process::stop(&found, Duration::from_secs(5)).unwrap(), []);
        assert!(process::labelled(&label).unwrap().is_empty());
        parent.collect().unwrap();
    });
}

/// `struct prctl_mm_map` of `prctl(2)`.
#[repr(C)]
struct MemoryMap {
    addresses: [u64; 11],
    auxv: u64,
    auxv_size: u32,
    exe_fd: i32,
}

/// Declares `bytes` of empty memory to be the environment of this process, as any process may.
fn declare_environment(bytes: usize) {
    const PR_SET_MM_MAP: u64 = 14;
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    // Numbered as in proc_pid_stat(5), which counts two fields before these.
    let field = |number: usize| fields[number - 3].parse::<u64>().unwrap();
    let access = libc::PROT_READ;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice, never unmapped.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) } as u64;
    // SAFETY: asks for the current end of the heap only.
    let heap_end = unsafe { libc::sbrk(0) } as u64;
    let map = MemoryMap {
        addresses: [
            field(26),
            field(27),
            field(45),
            field(46),
            field(47),
            heap_end,
            field(28),
            field(48),
            field(49),
            start,
            start + bytes as u64,
        ],
        auxv: 0,
        auxv_size: 0,
        exe_fd: -1,
    };
    let size = size_of::<MemoryMap>();
    // SAFETY: the kernel reads the structure and changes this process's own bookkeeping only.
    let set = unsafe { libc::prctl(libc::PR_SET_MM, PR_SET_MM_MAP, &raw const map, size, 0) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn an_environment_of_half_a_gigabyte_costs_a_search_for_labels_little() {
    const CHILD: &str = "LATLAB_TEST_ENVIRONMENT";
    const NAME: &str = "an_environment_of_half_a_gigabyte_costs_a_search_for_labels_little";
    if std::env::var_os(CHILD).is_some() {
        declare_environment(512 << 20);
        println!("declared");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    let mut hostile = std::process::Command::new(std::env::current_exe().unwrap())
        .args([NAME, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(hostile.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("declared") {
        line.clear();
        let length = std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        assert_ne!(length, 0, "the hostile process ended");
    }
    let peak_kib = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmHWM:"))
            .unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let before = peak_kib();
    process::labelled("nobody").unwrap();
    let grown = peak_kib() - before;
    let length = process::environ(hostile.id()).unwrap().len();
    drop(hostile.stdin.take());
    hostile.wait().unwrap();
    assert!(grown < 64 << 10, "looking for labels took {grown} KiB");
    assert_eq!(length, 8 << 20);
}
