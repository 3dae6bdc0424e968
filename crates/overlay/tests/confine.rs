//! The rights that remain to code that takes over the daemon: the ways out, tried one by one.

mod common;

use std::fs;
use std::net::UdpSocket;
use std::process::Command;

use common::run;
use latlab_overlay::confine::confine;

/// Set in the process that confines itself and tries.
const INSIDE: &str = "LATLAB_TEST_CONFINED";

/// Carries out a system call; its error, or none.
fn call(number: libc::c_long, arguments: [usize; 5]) -> Result<(), i32> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: the callers' pointers are to strings and buffers that live through the call.
    match unsafe { libc::syscall(number, a, b, c, d, e) } {
        -1 => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
        _ => Ok(()),
    }
}

fn at(text: &std::ffi::CStr) -> usize {
    text.as_ptr() as usize
}

/// A block device of this machine, if it has one.
fn block_device() -> Option<std::ffi::CString> {
    let name = fs::read_dir("/sys/block").ok()?.flatten().next()?;
    let path = format!("/dev/{}", name.file_name().to_string_lossy());
    let exists = fs::metadata(&path).is_ok();
    exists.then(|| std::ffi::CString::new(path).unwrap())
}

/// System calls that lead out, with arguments that would work (or harm nothing if they did).
fn ways_out() -> Vec<(&'static str, libc::c_long, [usize; 5])> {
    use libc::*;
    let null = c"/dev/null";
    let none = [0; 5];
    let mut ways = vec![
        ("execve", SYS_execve, [at(c"/bin/true"), 0, 0, 0, 0]),
        (
            "execveat",
            SYS_execveat,
            [AT_FDCWD as usize, at(c"/bin/true"), 0, 0, 0],
        ),
        ("a new process", SYS_clone, [SIGCHLD as usize, 0, 0, 0, 0]),
        (
            "a new user namespace",
            SYS_unshare,
            [CLONE_NEWUSER as usize, 0, 0, 0, 0],
        ),
        (
            "a new mount namespace",
            SYS_unshare,
            [CLONE_NEWNS as usize, 0, 0, 0, 0],
        ),
        (
            "mount",
            SYS_mount,
            [at(c"none"), at(c"/mnt"), at(c"tmpfs"), 0, 0],
        ),
        ("umount", SYS_umount2, [at(c"/nowhere"), 0, 0, 0, 0]),
        (
            "open_tree",
            SYS_open_tree,
            [AT_FDCWD as usize, at(c"/"), 1, 0, 0],
        ),
        ("fsopen", SYS_fsopen, [at(c"tmpfs"), 0, 0, 0, 0]),
        ("pivot_root", SYS_pivot_root, [at(c"/"), at(c"/"), 0, 0, 0]),
        ("chroot", SYS_chroot, [at(c"/"), 0, 0, 0, 0]),
        (
            "ptrace",
            SYS_ptrace,
            [PTRACE_SEIZE as usize, parent(), 0, 0, 0],
        ),
        (
            "reading another's memory",
            SYS_process_vm_readv,
            [parent(), 0, 0, 0, 0],
        ),
        (
            "writing another's memory",
            SYS_process_vm_writev,
            [parent(), 0, 0, 0, 0],
        ),
        ("another's descriptors", SYS_pidfd_getfd, [0, 0, 0, 0, 0]),
        ("a signal to another", SYS_kill, [parent(), 0, 0, 0, 0]),
        (
            "a signal to another's thread",
            SYS_tgkill,
            [parent(), parent(), 0, 0, 0],
        ),
        ("a module", SYS_init_module, none),
        ("a module's file", SYS_finit_module, none),
        (
            "removing a module",
            SYS_delete_module,
            [at(c"nothing"), 0, 0, 0, 0],
        ),
        ("another kernel", SYS_kexec_load, none),
        ("reboot", SYS_reboot, none),
        ("swap", SYS_swapon, [at(c"/nowhere"), 0, 0, 0, 0]),
        ("a file by its handle", SYS_open_by_handle_at, none),
        (
            "a device node",
            SYS_mknodat,
            [
                AT_FDCWD as usize,
                at(c"/tmp/latlab-node"),
                (S_IFCHR | 0o600) as usize,
                0x103,
                0,
            ],
        ),
        ("a key", SYS_add_key, [at(c"user"), at(c"x"), 0, 0, 0]),
        ("keyrings", SYS_keyctl, none),
        ("io_uring", SYS_io_uring_setup, [1, 0, 0, 0, 0]),
        ("userfaultfd", SYS_userfaultfd, none),
        ("performance counters", SYS_perf_event_open, none),
        ("personality", SYS_personality, [0xffff_ffff, 0, 0, 0, 0]),
        ("the clock", SYS_clock_settime, none),
        ("the host's name", SYS_sethostname, [at(c"x"), 1, 0, 0, 0]),
        ("another user", SYS_setresuid, [1, 1, 1, 0, 0]),
        ("capabilities", SYS_capset, none),
        (
            "being dumped",
            SYS_prctl,
            [PR_SET_DUMPABLE as usize, 1, 0, 0, 0],
        ),
        (
            "another's limits",
            SYS_prlimit64,
            [parent(), RLIMIT_NOFILE as usize, 0, 0, 0],
        ),
        (
            "the kernel's cryptography",
            SYS_socket,
            [AF_ALG as usize, SOCK_SEQPACKET as usize, 0, 0, 0],
        ),
        (
            "the hypervisor",
            SYS_socket,
            [AF_VSOCK as usize, SOCK_STREAM as usize, 0, 0, 0],
        ),
        (
            "typing into the terminal",
            SYS_ioctl,
            [0, TIOCSTI as usize, at(c"x"), 0, 0],
        ),
        (
            "new code",
            SYS_mmap,
            [
                0,
                4096,
                (PROT_READ | PROT_EXEC) as usize,
                (MAP_PRIVATE | MAP_ANONYMOUS) as usize,
                usize::MAX,
            ],
        ),
        (
            "code from data",
            SYS_mprotect,
            [
                at(null) & !4095,
                4096,
                (PROT_READ | PROT_EXEC) as usize,
                0,
                0,
            ],
        ),
        (
            "the kernel's log",
            SYS_openat,
            [AT_FDCWD as usize, at(c"/dev/kmsg"), 0, 0, 0],
        ),
        ("the kernel's log, by call", SYS_syslog, [3, 0, 0, 0, 0]),
        (
            "a system file",
            SYS_openat,
            [
                AT_FDCWD as usize,
                at(c"/etc/passwd"),
                O_WRONLY as usize,
                0,
                0,
            ],
        ),
        (
            "a setting of the kernel",
            SYS_openat,
            [
                AT_FDCWD as usize,
                at(c"/proc/sys/kernel/core_pattern"),
                O_WRONLY as usize,
                0,
                0,
            ],
        ),
        (
            "a new file",
            SYS_openat,
            [
                AT_FDCWD as usize,
                at(c"/tmp/latlab-file"),
                (O_CREAT | O_WRONLY) as usize,
                0o600,
                0,
            ],
        ),
        (
            "a directory",
            SYS_mkdirat,
            [AT_FDCWD as usize, at(c"/tmp/latlab-directory"), 0o700, 0, 0],
        ),
        (
            "a link",
            SYS_symlinkat,
            [
                at(c"/etc"),
                AT_FDCWD as usize,
                at(c"/tmp/latlab-link"),
                0,
                0,
            ],
        ),
    ];
    if let Some(device) = block_device() {
        let path = at(Box::leak(device.into_boxed_c_str()));
        ways.push(("a disk", SYS_openat, [AT_FDCWD as usize, path, 0, 0, 0]));
    }
    ways
}

fn parent() -> usize {
    std::os::unix::process::parent_id() as usize
}

#[test]
fn every_way_out_is_closed() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root, whose rights are to be missing");
        return;
    }
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    // The filter is for a whole process, so this one goes on without.
    let tried = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "every_way_out_is_closed", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&tried.stdout) + String::from_utf8_lossy(&tried.stderr);
    assert!(tried.status.success(), "{said}");
    assert!(said.contains("ways out tried"), "{said}");
}

fn inside() {
    let namespaces = ["mnt", "pid", "user"].map(|kind| {
        let file = fs::File::open(format!("/proc/thread-self/ns/{kind}")).unwrap();
        std::os::fd::IntoRawFd::into_raw_fd(file) as usize
    });
    let network = fs::File::open("/proc/thread-self/ns/net").unwrap();
    confine().unwrap();
    let ways = ways_out();
    for (what, number, arguments) in &ways {
        let done = call(*number, *arguments);
        assert!(
            matches!(done, Err(libc::EPERM | libc::EACCES)),
            "{what}: {done:?}"
        );
    }
    for (namespace, flag) in
        namespaces
            .into_iter()
            .zip([libc::CLONE_NEWNS, libc::CLONE_NEWPID, libc::CLONE_NEWUSER])
    {
        for flag in [flag as usize, 0] {
            let done = call(libc::SYS_setns, [namespace, flag, 0, 0, 0]);
            assert_eq!(done, Err(libc::EPERM));
        }
    }
    println!("{} ways out tried", ways.len() + 6);
    // The daemon's own work goes on.
    let network = std::os::fd::AsRawFd::as_raw_fd(&network) as usize;
    let net = libc::CLONE_NEWNET as usize;
    assert_eq!(call(libc::SYS_setns, [network, net, 0, 0, 0]), Ok(()));
    let packet = [libc::AF_PACKET, libc::SOCK_RAW].map(|word| word as usize);
    let [family, kind] = packet;
    assert_eq!(call(libc::SYS_socket, [family, kind, 0, 0, 0]), Ok(()));
    std::thread::spawn(|| UdpSocket::bind("127.0.0.1:0").unwrap())
        .join()
        .unwrap();
    assert!(fs::read("/etc/passwd").is_ok() && fs::File::open("/dev/net/tun").is_ok());
}

/// The daemon itself is so confined, with all its threads, and a client cannot have it open devices.
#[test]
fn every_thread_of_the_daemon_is_confined() {
    run("overlay-confined", |world| {
        let daemon = world.daemon(
            "control",
            "add network lan vni 7\nset dispatch dispatchers 2\n",
        );
        daemon.tell("add interface t0 network lan tap t0");
        let pid = daemon.process.0.id();
        let mut checked = 0;
        for thread in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            // The thread that answered the client may end between the listing and the reading.
            let Ok(status) = fs::read_to_string(thread.unwrap().path().join("status")) else {
                continue;
            };
            checked += 1;
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap().trim().to_owned()
            };
            // NET_BIND_SERVICE, NET_ADMIN, NET_RAW, SYS_ADMIN, SYS_NICE.
            let kept = 1_u64 << 10 | 1 << 12 | 1 << 13 | 1 << 21 | 1 << 23;
            for set in ["CapEff:", "CapPrm:"] {
                let is = u64::from_str_radix(&field(set), 16).unwrap();
                assert_eq!(is & !kept, 0, "{set} {is:x}");
            }
            assert_eq!(field("CapInh:"), "0000000000000000");
            assert_eq!(field("NoNewPrivs:"), "1");
            assert_eq!(field("Seccomp:"), "2", "a filter");
        }
        // The main thread, control, the links' thread and two dispatchers.
        assert!(checked > 3, "{checked} threads");
        let line = "add interface x network lan tap t1 netns /dev/kmsg";
        let refused = daemon.client().say(line).unwrap_err();
        assert!(refused.contains("ermission denied"), "{refused}");
    });
}
