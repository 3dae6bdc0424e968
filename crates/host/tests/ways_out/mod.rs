//! Ways out of a container, to be tried inside of one: each is one or a few system calls, and the
//! errors with which the kernel must answer.
//!
//! The functions run in the container; `escape.rs` runs them there one by one and looks after each whether
//! the machine is as before.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;

use libc::{EACCES, EAGAIN, EBUSY, ECONNREFUSED, ENOENT, ENOSYS, EPERM, EROFS, ESRCH, c_long};

/// Something that a hostile program tries.
pub struct Way {
    pub name: &'static str,
    /// The answers that stop it; none where it may succeed and only its effects are judged.
    pub stopped_by: &'static [i32],
    /// Does it; an error is the kernel's number.
    pub go: fn() -> Result<(), i32>,
}

/// Says to the outside what became of the attempt.
pub const OUTCOME: &str = "outcome:";

/// The variable that names the way to try.
pub const VARIABLE: &str = "LATLAB_TEST_WAY_OUT";

/// A device of the machine, `MAJOR:MINOR`.
pub const DISK: &str = "LATLAB_TEST_DISK";

/// A process outside of the container.
pub const OUTSIDE: &str = "LATLAB_TEST_OUTSIDE";

/// The name of an abstract socket of the machine.
pub const SOCKET: &str = "LATLAB_TEST_SOCKET";

/// A file that must not appear in the machine's root.
pub const MARKER: &str = "latlab-somebody-got-out";

/// Tries the way that the environment names.
pub fn try_one() {
    let name = std::env::var(VARIABLE).unwrap();
    let way = all().into_iter().find(|way| way.name == name).unwrap();
    match (way.go)() {
        Ok(()) => println!("{OUTCOME}0"),
        Err(errno) => println!("{OUTCOME}{errno}"),
    }
}

fn check(result: c_long) -> Result<(), i32> {
    match result {
        -1 => Err(errno()),
        _ => Ok(()),
    }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn number(error: std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

/// A system call with numbers and texts.
fn call(number: c_long, arguments: &[u64]) -> Result<(), i32> {
    let a = |at: usize| arguments.get(at).copied().unwrap_or(0);
    // SAFETY: the callers pass addresses of objects that live over the call, or the call is refused.
    check(unsafe { libc::syscall(number, a(0), a(1), a(2), a(3), a(4), a(5)) })
}

fn text(text: &std::ffi::CStr) -> u64 {
    text.as_ptr() as u64
}

fn write(path: &str, what: &str) -> Result<(), i32> {
    let mut file = OpenOptions::new().write(true).open(path).map_err(number)?;
    file.write_all(what.as_bytes()).map_err(number)
}

/// Succeeds if there is anything to be read.
fn read(path: &str) -> Result<(), i32> {
    let mut bytes = [0; 16];
    match File::open(path).and_then(|mut file| file.read(&mut bytes)) {
        Ok(0) => Err(EACCES),
        Ok(_) => Ok(()),
        Err(error) => Err(number(error)),
    }
}

fn mount(kind: &str, target: &str, flags: u64) -> Result<(), i32> {
    let (kind, target) = (c(kind), c(target));
    let arguments = [text(&kind), text(&target), text(&kind), flags];
    call(libc::SYS_mount, &arguments)
}

fn disk() -> u64 {
    let text = std::env::var(DISK).unwrap();
    let (major, minor) = text.split_once(':').unwrap();
    libc::makedev(major.parse().unwrap(), minor.parse().unwrap())
}

fn outside() -> u64 {
    std::env::var(OUTSIDE).unwrap().parse().unwrap()
}

/// Succeeds if it can be opened, also where there is nothing to be read: a disk may be empty.
fn open(path: &str) -> Result<(), i32> {
    File::open(path).map(drop).map_err(number)
}

/// Makes a device node and opens it.
fn device(path: &str, kind: u32, device: u64) -> Result<(), i32> {
    let name = c(path);
    let mode = u64::from(kind | 0o600);
    call(
        libc::SYS_mknodat,
        &[libc::AT_FDCWD as u64, text(&name), mode, device],
    )?;
    open(path)
}

/// Writes a file to the root that `/` or `directory` leads to.
fn mark(directory: &str) -> Result<(), i32> {
    File::create(format!("{directory}/{MARKER}"))
        .map(drop)
        .map_err(number)
}

fn cgroup(files: &[&str], value: &str) -> Result<(), i32> {
    let mut last = Err(ENOENT);
    for file in files {
        match write(&format!("/sys/fs/cgroup/{file}"), value) {
            Ok(()) => return Ok(()),
            Err(ENOENT) => {}
            other => last = other,
        }
    }
    last
}

fn schedule(policy: i32, priority: i32) -> Result<(), i32> {
    let parameters = [priority];
    call(
        libc::SYS_sched_setscheduler,
        &[0, policy as u64, parameters.as_ptr() as u64],
    )
}

/// Takes everything below `here` away by leaving it: the root is below the working directory then.
fn leave_chroot() -> Result<(), i32> {
    std::fs::create_dir_all("/tmp/jail").map_err(number)?;
    let jail = c("/tmp/jail");
    call(libc::SYS_chroot, &[text(&jail)])?;
    let up = c("..");
    for _ in 0..64 {
        call(libc::SYS_chdir, &[text(&up)])?;
    }
    let here = c(".");
    call(libc::SYS_chroot, &[text(&here)])?;
    mark("/")
}

fn fork_bomb() -> Result<(), i32> {
    let mut children = Vec::new();
    let result = loop {
        // SAFETY: the child only waits for its end.
        match unsafe { libc::fork() } {
            -1 => break Err(errno()),
            0 => loop {
                // SAFETY: sleeps until it is killed.
                unsafe { libc::pause() };
            },
            child => children.push(child),
        }
        if children.len() > 200 {
            break Ok(());
        }
    };
    for child in children {
        // SAFETY: children of this process, collected after they were killed.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
    result
}

fn abstract_socket() -> Result<(), i32> {
    use std::os::linux::net::SocketAddrExt;
    let name = std::env::var(SOCKET).unwrap();
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
    let connected = std::os::unix::net::UnixStream::connect_addr(&address);
    connected.map(drop).map_err(number)
}

/// `struct file_handle` of inode 2, which is the root of many file systems (the way of shocker.c).
fn file_handle() -> Result<(), i32> {
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        inode: [u32; 2],
    }
    let root = File::open("/").map_err(number)?;
    let handle = Handle {
        bytes: 8,
        kind: 1,
        inode: [2, 0],
    };
    let arguments = [root.as_raw_fd() as u64, &raw const handle as u64, 0];
    call(libc::SYS_open_by_handle_at, &arguments)
}

fn socket(family: i32, kind: i32, protocol: i32) -> Result<i32, i32> {
    // SAFETY: plain numbers.
    let socket = unsafe { libc::socket(family, kind, protocol) };
    check(socket.into()).map(|()| socket)
}

fn clone3_user() -> Result<(), i32> {
    let mut arguments = [0u64; 11];
    arguments[0] = libc::CLONE_NEWUSER as u64;
    arguments[4] = libc::SIGCHLD as u64;
    call(libc::SYS_clone3, &[arguments.as_ptr() as u64, 88])
}

fn set_clock() -> Result<(), i32> {
    let time = [0i64, 0];
    call(libc::SYS_clock_settime, &[0, time.as_ptr() as u64])
}

fn adjust_clock() -> Result<(), i32> {
    // SAFETY: a plain structure for which zeroes mean nothing.
    let mut change: libc::timex = unsafe { std::mem::zeroed() };
    change.modes = libc::ADJ_FREQUENCY;
    change.freq = 1 << 16;
    // SAFETY: the kernel reads and writes a local structure.
    check(unsafe { libc::adjtimex(&raw mut change) }.into())
}

fn raise_limit(limit: libc::__rlimit_resource_t) -> Result<(), i32> {
    let more = libc::rlimit {
        rlim_cur: 99,
        rlim_max: 99,
    };
    // SAFETY: reads a local structure.
    check(unsafe { libc::setrlimit(limit, &raw const more) }.into())
}

fn listen_to_all_networks() -> Result<(), i32> {
    let socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
    let on = 1u32;
    // SAFETY: reads a local number.
    let result = unsafe {
        let option = (&raw const on).cast();
        libc::setsockopt(
            socket,
            libc::SOL_NETLINK,
            libc::NETLINK_LISTEN_ALL_NSID,
            option,
            4,
        )
    };
    check(result.into())
}

fn push_input() -> Result<(), i32> {
    let byte = b'x';
    call(libc::SYS_ioctl, &[0, libc::TIOCSTI, &raw const byte as u64])
}

fn set_namespace(kind: &str) -> Result<(), i32> {
    let file = File::open(format!("/proc/1/ns/{kind}")).map_err(number)?;
    call(libc::SYS_setns, &[file.as_raw_fd() as u64, 0])
}

const fn way(name: &'static str, stopped_by: &'static [i32], go: fn() -> Result<(), i32>) -> Way {
    Way {
        name,
        stopped_by,
        go,
    }
}

pub fn all() -> Vec<Way> {
    let mut ways = devices();
    ways.extend(mounts());
    ways.extend(kernel_files());
    ways.extend(calls());
    ways.extend(processes());
    ways
}

fn devices() -> Vec<Way> {
    use libc::{S_IFBLK, S_IFCHR};
    vec![
        way("a block device is made in the root", &[EPERM], || {
            device("/disk", S_IFBLK, disk())
        }),
        way("a block device is made in /dev", &[EPERM], || {
            device("/dev/disk", S_IFBLK, disk())
        }),
        way("a block device is made in /dev/shm", &[EPERM], || {
            device("/dev/shm/disk", S_IFBLK, disk())
        }),
        way("a character device, the memory, is made", &[EPERM], || {
            device("/dev/memory", S_IFCHR, libc::makedev(1, 1))
        }),
        way("the log of the kernel is made", &[EPERM], || {
            device("/dev/log-of-kernel", S_IFCHR, libc::makedev(1, 11))
        }),
        way("a device that lies in a bind is read", &[EACCES], || {
            open("/bound/disk")
        }),
        way("a device that lies below a bind is read", &[EACCES], || {
            open("/bound/below/disk")
        }),
        way("a read-only bind is written", &[EROFS], || {
            write("/bound/file", "x")
        }),
        way(
            "what is mounted below a read-only bind is written",
            &[EROFS],
            || write("/bound/below/file", "x"),
        ),
        way("/dev/mem is opened", &[ENOENT], || open("/dev/mem")),
        way("/dev/kmsg is opened", &[ENOENT], || write("/dev/kmsg", "x")),
        way("/dev/loop-control is opened", &[ENOENT], || {
            open("/dev/loop-control")
        }),
        way("/dev/kvm is opened", &[ENOENT], || open("/dev/kvm")),
    ]
}

fn mounts() -> Vec<Way> {
    use libc::{MS_BIND, MS_MOVE, MS_REMOUNT};
    vec![
        way("proc is mounted", &[EPERM], || mount("proc", "/mnt", 0)),
        way("sysfs is mounted", &[EPERM], || mount("sysfs", "/mnt", 0)),
        way("cgroup is mounted", &[EPERM], || mount("cgroup", "/mnt", 0)),
        way("cgroup2 is mounted", &[EPERM], || {
            mount("cgroup2", "/mnt", 0)
        }),
        way("devtmpfs is mounted", &[EPERM], || {
            mount("devtmpfs", "/mnt", 0)
        }),
        way("tmpfs is mounted over /proc/sys", &[EPERM], || {
            mount("tmpfs", "/proc/sys", 0)
        }),
        way("/proc/sys/kernel is made writable", &[EPERM], || {
            mount("none", "/proc/sys/kernel", MS_REMOUNT | MS_BIND)
        }),
        way("/sys is made writable", &[EPERM], || {
            mount("none", "/sys", MS_REMOUNT)
        }),
        way("the agent is made writable", &[EPERM], || {
            mount("none", "/run/latlab/agent", MS_REMOUNT | MS_BIND)
        }),
        way("/proc/kcore is uncovered", &[EPERM], || {
            let masked = c("/proc/kcore");
            call(libc::SYS_umount2, &[text(&masked), libc::MNT_DETACH as u64])
        }),
        way("a mount is moved", &[EPERM], || {
            mount("/dev", "/mnt", MS_MOVE)
        }),
        way("the root is bound", &[EPERM], || {
            mount("/", "/mnt", MS_BIND)
        }),
        way("a file system is opened", &[EPERM], || {
            let kind = c("proc");
            call(libc::SYS_fsopen, &[text(&kind), 0])
        }),
        way("a tree of mounts is cloned", &[EPERM], || {
            let root = c("/");
            call(
                libc::SYS_open_tree,
                &[libc::AT_FDCWD as u64, text(&root), 1],
            )
        }),
        way("attributes of mounts are changed", &[EPERM], || {
            call(libc::SYS_mount_setattr, &[0, 0, 0, 0, 0])
        }),
        way("the root is pivoted", &[EPERM], || {
            let here = c(".");
            call(libc::SYS_pivot_root, &[text(&here), text(&here)])
        }),
    ]
}

fn kernel_files() -> Vec<Way> {
    vec![
        way("core_pattern is written", &[EROFS], || {
            write("/proc/sys/kernel/core_pattern", "|/tmp/x")
        }),
        way("modprobe's path is written", &[EROFS, ENOENT], || {
            write("/proc/sys/kernel/modprobe", "/tmp/x")
        }),
        way("the host name is written", &[EROFS], || {
            write("/proc/sys/kernel/hostname", "x")
        }),
        way("sysrq is triggered", &[EROFS, ENOENT], || {
            write("/proc/sysrq-trigger", "h")
        }),
        way("overcommit is changed", &[EROFS], || {
            write("/proc/sys/vm/overcommit_memory", "1")
        }),
        way("a binary format is registered", &[EROFS, ENOENT], || {
            write("/proc/sys/fs/binfmt_misc/register", ":x:M::x::/tmp/x:")
        }),
        way(
            "limits of namespaces are changed",
            &[EROFS, ENOENT, EACCES],
            || write("/proc/sys/user/max_user_namespaces", "1"),
        ),
        way(
            "affinity of interrupts is changed",
            &[EROFS, ENOENT],
            || write("/proc/irq/default_smp_affinity", "1"),
        ),
        way(
            "the memory of the machine is read",
            &[EACCES, ENOENT],
            || read("/proc/kcore"),
        ),
        way(
            "the keys of the machine are read",
            &[EACCES, ENOENT],
            || read("/proc/keys"),
        ),
        way(
            "the timers of the machine are read",
            &[EACCES, ENOENT],
            || read("/proc/timer_list"),
        ),
        way("the helper of uevents is set", &[EROFS, ENOENT], || {
            write("/sys/kernel/uevent_helper", "/tmp/x")
        }),
        way("the machine is suspended", &[EROFS, ENOENT], || {
            write("/sys/power/state", "x")
        }),
        way("a CPU is taken away", &[EROFS, ENOENT], || {
            write("/sys/devices/system/cpu/cpu1/online", "0")
        }),
        way("events are traced", &[EROFS, ENOENT, EACCES], || {
            write("/sys/kernel/tracing/tracing_on", "0")
        }),
        way("a release agent is set", &[EROFS, ENOENT], || {
            cgroup(
                &[
                    "release_agent",
                    "freezer/release_agent",
                    "pids/release_agent",
                ],
                "/tmp/x",
            )
        }),
        way(
            "a release is asked to be notified",
            &[EROFS, ENOENT],
            || {
                let files = [
                    "freezer/notify_on_release",
                    "pids/notify_on_release",
                    "notify_on_release",
                ];
                cgroup(&files, "1")
            },
        ),
        way("the own limit of processes is raised", &[EROFS], || {
            cgroup(&["pids.max", "pids/pids.max"], "max")
        }),
        way("the own limit of memory is raised", &[EROFS], || {
            cgroup(
                &["memory.max", "memory/memory.limit_in_bytes"],
                "1073741824",
            )
        }),
        way("the own devices are extended", &[EROFS, ENOENT], || {
            cgroup(&["devices/devices.allow"], "a")
        }),
        way("a process leaves its cgroup", &[EROFS], || {
            cgroup(&["cgroup.procs", "pids/cgroup.procs"], "1")
        }),
        way("a cgroup is made", &[EROFS, EPERM], || {
            let made = std::fs::create_dir("/sys/fs/cgroup/pids/x");
            made.or_else(|_| std::fs::create_dir("/sys/fs/cgroup/x"))
                .map_err(number)
        }),
        way("the agent is written", &[EROFS, libc::ETXTBSY], || {
            write("/run/latlab/agent", "x")
        }),
        way(
            "the first process's program is written",
            &[EROFS, libc::ETXTBSY],
            || write("/proc/1/exe", "x"),
        ),
        way("the agent is removed", &[EBUSY, EROFS], || {
            std::fs::remove_file("/run/latlab/agent").map_err(number)
        }),
        way(
            "a file is written through the first process's root",
            &[],
            || mark("/proc/1/root"),
        ),
        way("a file is written above the root", &[], || {
            mark("/../../../..")
        }),
        way("a chroot is left", &[], leave_chroot),
    ]
}

fn calls() -> Vec<Way> {
    let mut ways = vec![
        way("a BPF map is made", &[EPERM], || {
            let attribute = [2u32, 4, 4, 1, 0];
            call(libc::SYS_bpf, &[0, attribute.as_ptr() as u64, 20])
        }),
        way("a BPF program is loaded", &[EPERM], || {
            call(libc::SYS_bpf, &[5, 0, 0])
        }),
        way("a counter is opened", &[EPERM], || {
            let mut attribute = [0u64; 16];
            attribute[0] = 1 | 128 << 32;
            let none = u64::MAX;
            call(
                libc::SYS_perf_event_open,
                &[attribute.as_ptr() as u64, 0, none, none, 0],
            )
        }),
        way("an io_uring is made", &[EPERM], || {
            let parameters = [0u64; 16];
            call(libc::SYS_io_uring_setup, &[4, parameters.as_ptr() as u64])
        }),
        way("page faults are taken over", &[EPERM], || {
            call(libc::SYS_userfaultfd, &[1])
        }),
        way("a key is added", &[EPERM], || {
            let (kind, name) = (c("user"), c("latlab"));
            let keyring = -4i64 as u64;
            let arguments = [text(&kind), text(&name), text(&name), 6, keyring];
            call(libc::SYS_add_key, &arguments)
        }),
        way("a key is requested", &[EPERM], || {
            let (kind, name) = (c("user"), c("latlab"));
            call(libc::SYS_request_key, &[text(&kind), text(&name), 0, 0])
        }),
        way("the keyring of root is read", &[EPERM], || {
            call(libc::SYS_keyctl, &[0, -4i64 as u64, 1])
        }),
        way("a kernel is loaded", &[EPERM], || {
            call(libc::SYS_kexec_load, &[0, 0, 0, 0])
        }),
        way("a module is loaded", &[EPERM], || {
            call(libc::SYS_init_module, &[0, 0, 0])
        }),
        way("a module is loaded from a file", &[EPERM], || {
            call(libc::SYS_finit_module, &[0, 0, 0])
        }),
        way("a module is removed", &[EPERM], || {
            let name = c("latlab");
            call(libc::SYS_delete_module, &[text(&name), 0])
        }),
        way("a file is opened by its handle", &[EPERM], file_handle),
        way("the log of the kernel is read", &[EPERM], || {
            call(libc::SYS_syslog, &[3, 0, 0])
        }),
        way("the log of the kernel is cleared", &[EPERM], || {
            call(libc::SYS_syslog, &[5, 0, 0])
        }),
        way("the clock is set", &[EPERM], set_clock),
        way("the clock is adjusted", &[EPERM], adjust_clock),
        way("the machine is halted", &[EPERM], || {
            call(libc::SYS_reboot, &[0xfee1_dead, 672_274_793, 0, 0])
        }),
        way("swap is added", &[EPERM], || {
            let file = c("/etc/passwd");
            call(libc::SYS_swapon, &[text(&file), 0])
        }),
        way("quotas are changed", &[EPERM], || {
            call(libc::SYS_quotactl, &[0, 0, 0, 0])
        }),
        way("accounting is started", &[EPERM], || {
            call(libc::SYS_acct, &[0])
        }),
        way("the host name is set", &[EPERM], || {
            let name = c("x");
            call(libc::SYS_sethostname, &[text(&name), 1])
        }),
        way("address randomisation is switched off", &[EPERM], || {
            call(libc::SYS_personality, &[0x4_0000])
        }),
        way("pages of others are moved", &[EPERM], || {
            call(libc::SYS_migrate_pages, &[0, 0, 0, 0])
        }),
        way("file events are watched", &[EPERM], || {
            call(libc::SYS_fanotify_init, &[0, 0])
        }),
        way("input is pushed into a terminal", &[EPERM], push_input),
        way("a socket to virtual machines is made", &[EPERM], || {
            socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0).map(drop)
        }),
        way(
            "events of all networks are listened to",
            &[EPERM],
            listen_to_all_networks,
        ),
        way(
            "an abstract socket of the machine is connected to",
            &[ECONNREFUSED],
            abstract_socket,
        ),
        way("a call without a name is made", &[ENOSYS], || {
            call(460 + 100, &[])
        }),
    ];
    #[cfg(target_arch = "x86_64")]
    ways.extend([
        way("ports of devices are opened", &[EPERM], || {
            call(libc::SYS_iopl, &[3])
        }),
        way("one port of a device is opened", &[EPERM], || {
            call(libc::SYS_ioperm, &[0x80, 1, 1])
        }),
    ]);
    ways
}

fn processes() -> Vec<Way> {
    vec![
        way("a user namespace is entered", &[EPERM], || {
            call(libc::SYS_unshare, &[libc::CLONE_NEWUSER as u64])
        }),
        way("a mount namespace is entered", &[EPERM], || {
            call(libc::SYS_unshare, &[libc::CLONE_NEWNS as u64])
        }),
        way("a network namespace is entered", &[EPERM], || {
            call(libc::SYS_unshare, &[libc::CLONE_NEWNET as u64])
        }),
        way("a child in a user namespace is made", &[EPERM], || {
            let flags = (libc::CLONE_NEWUSER | libc::SIGCHLD) as u64;
            call(libc::SYS_clone, &[flags, 0, 0, 0, 0])
        }),
        way("the same by clone3", &[ENOSYS], clone3_user),
        way("the first process's mounts are entered", &[EPERM], || {
            set_namespace("mnt")
        }),
        way("the first process's network is entered", &[EPERM], || {
            set_namespace("net")
        }),
        way("a process outside is signalled", &[ESRCH], || {
            call(libc::SYS_kill, &[outside(), libc::SIGKILL as u64])
        }),
        way("a process outside is traced", &[ESRCH, EPERM], || {
            call(
                libc::SYS_ptrace,
                &[u64::from(libc::PTRACE_ATTACH), outside(), 0, 0],
            )
        }),
        way(
            "the memory of a process outside is read",
            &[ESRCH, EPERM],
            || {
                let byte = 0u8;
                let here = [&raw const byte as u64, 1];
                let there = [0x1000u64, 1];
                let arguments = [
                    outside(),
                    here.as_ptr() as u64,
                    1,
                    there.as_ptr() as u64,
                    1,
                    0,
                ];
                call(libc::SYS_process_vm_readv, &arguments)
            },
        ),
        way("a process outside is looked at", &[ENOENT], || {
            read(&format!("/proc/{}/environ", outside()))
        }),
        way("SCHED_FIFO is taken", &[EPERM], || {
            schedule(libc::SCHED_FIFO, 99)
        }),
        way("SCHED_RR is taken", &[EPERM], || {
            schedule(libc::SCHED_RR, 1)
        }),
        way("the limit of priorities is raised", &[EPERM], || {
            raise_limit(libc::RLIMIT_RTPRIO)
        }),
        way("the limit of nice is raised", &[EPERM], || {
            raise_limit(libc::RLIMIT_NICE)
        }),
        way("a deadline is taken", &[EPERM], || {
            // struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period.
            let attribute: [u64; 6] = [48 | 6 << 32, 0, 0, 10_000_000, 30_000_000, 30_000_000];
            call(libc::SYS_sched_setattr, &[0, attribute.as_ptr() as u64, 0])
        }),
        way("the nice value is lowered", &[EACCES, EPERM], || {
            call(libc::SYS_setpriority, &[0, 0, -20i64 as u64])
        }),
        way("real-time access to disks is taken", &[EPERM], || {
            call(libc::SYS_ioprio_set, &[1, 0, 1 << 13])
        }),
        way(
            "the killer of processes is told to spare it",
            &[EACCES, EPERM],
            || write("/proc/self/oom_score_adj", "-1000"),
        ),
        way("processes are forked without end", &[EAGAIN], fork_bomb),
    ]
}
