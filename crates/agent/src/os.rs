//! System calls that neither std nor rustix offers safely: learning of ended children through a file descriptor, children that end
//! with this process, atomic access to memory shared with the host, new namespaces, restricted mounts, and settings of
//! network cards. All `unsafe` of the agent is here.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Signal, set_parent_process_death_signal};

pub use rustix::mount::MountAttrFlags as MountAttributes;
pub use rustix::thread::UnshareFlags;

/// Has an interface of this network namespace join no received frames (kernel: `ETHTOOL_SGRO`).
pub fn switch_off_gro(interface: &str) -> io::Result<()> {
    const SET_GRO: u32 = 0x2c;
    let name = interface.as_bytes();
    // SAFETY: an all-zero `ifreq` is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    // `struct ethtool_value`: the command, then its value.
    let mut off: [u32; 2] = [SET_GRO, 0];
    request.ifr_ifru.ifru_data = off.as_mut_ptr().cast();
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    // SAFETY: the request and the structure that it points to live for the call, which writes to neither beyond its size.
    done(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) })
}

/// The outcome of a call that returns zero where it succeeds.
fn done(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has the kernel kill what this command starts when this process ends.
pub fn die_with_this_one(command: &mut Command) {
    // SAFETY: one system call that allocates nothing, between fork and exec.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
}

/// Makes what this command starts the leader of a session, and the kernel's choice like others when memory runs out.
pub fn in_a_session(command: &mut Command) {
    // SAFETY: system calls on static strings that allocate nothing, between fork and exec.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            let score = rustix::fs::open(c"/proc/self/oom_score_adj", flags, Mode::empty());
            if let Ok(score) = score {
                // A kernel that refuses leaves it as hard to kill as the node's first process.
                let _ = rustix::io::write(&score, b"0");
            }
            Ok(())
        });
    }
}

/// Has what this command starts enter a cgroup before its program runs, by the cgroup's file of processes. One that went
/// meanwhile is no reason not to run.
pub fn in_a_cgroup(command: &mut Command, processes: &'static CStr) {
    // SAFETY: two system calls on static strings that allocate nothing, between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            let entered = rustix::fs::open(processes, flags, Mode::empty())
                .and_then(|processes| rustix::io::write(&processes, b"0"));
            match entered {
                Ok(_) | Err(Errno::NOENT | Errno::NODEV) => Ok(()),
                Err(error) => Err(error.into()),
            }
        });
    }
}

/// Makes what this command starts the leader of a session at the terminal that is its standard input.
pub fn at_its_terminal(command: &mut Command) {
    // SAFETY: two system calls that allocate nothing, between fork and exec; descriptor 0 is open then.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(BorrowedFd::borrow_raw(0))?;
            Ok(())
        });
    }
}

/// Blocks these signals and returns a non-blocking descriptor from which they are read instead.
/// Children started by std get an empty signal mask, so they do not inherit the block.
pub fn signals(numbers: &[libc::c_int]) -> io::Result<OwnedFd> {
    // SAFETY: `set` is a plain C structure, initialised by sigemptyset before use; the pointers passed
    // live for the calls. signalfd returns a new descriptor that nothing else owns, or -1.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for &number in numbers {
            libc::sigaddset(&raw mut set, number);
        }
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Sends a signal to every other process that this one can see (0: sends none, only looks); false
/// if there is no other process.
pub fn signal_all(number: libc::c_int) -> bool {
    // SAFETY: kill has no memory effects. Used as the first process of a container only, which sees
    // only the container's processes.
    unsafe { libc::kill(-1, number) == 0 }
}

/// Takes ownership of a descriptor inherited from the process that started us.
pub fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl only inspects the number; a number that is open was given to us to own on the
    // command line, and nothing in this process has opened or wrapped it (called first, once).
    unsafe {
        if fd <= 2 || libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) < 0 {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Keeps a descriptor open under this number for as long as this process lives, and no longer.
pub fn keep_as(fd: OwnedFd, number: RawFd) -> io::Result<()> {
    if fd.as_raw_fd() == number {
        std::mem::forget(fd);
        return Ok(());
    }
    // SAFETY: plain numbers. Whatever had that number is nothing of ours: all that this process has open is owned by
    // values that the caller made before, at the lowest numbers.
    match unsafe { libc::dup3(fd.as_raw_fd(), number, libc::O_CLOEXEC) } {
        kept if kept == number => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Hands a descriptor down under this number to the program that this process executes next.
pub fn hand_down(fd: OwnedFd, number: RawFd) -> io::Result<()> {
    keep_as(fd, number)?;
    // SAFETY: a flag of a number that was just made.
    done(unsafe { libc::fcntl(number, libc::F_SETFD, 0) })
}

/// Whether a file's system tells where on its device a file is (FS_IOC_FIEMAP).
pub fn has_extents(file: &File) -> bool {
    const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;
    // `struct fiemap` (linux/fiemap.h) without room for extents: start, length, flags, and three numbers that are told.
    #[repr(C)]
    struct Request {
        start: u64,
        length: u64,
        numbers: [u32; 4],
    }
    let mut request = Request {
        start: 0,
        length: u64::MAX,
        numbers: [0; 4],
    };
    // SAFETY: the kernel reads and writes the 32 bytes of `request`, which lives for the call, and no extents, for
    // which it has no room.
    unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut request) == 0 }
}

/// Makes a block device of a file that is open for reading (loop(4)); returns its number.
pub fn attach_loop(control: &File, file: &File) -> io::Result<u32> {
    const LOOP_SET_FD: libc::Ioctl = 0x4c00;
    const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
    // SAFETY: it takes no argument and returns a number.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
    let number = u32::try_from(number).map_err(|_| io::Error::last_os_error())?;
    let device = File::open(format!("/dev/loop{number}"))?;
    // SAFETY: the argument is a descriptor, of which the kernel takes a reference.
    done(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_FD, file.as_raw_fd()) })?;
    Ok(number)
}

/// Has the kernel end this process after a time (alarm(2)).
pub fn end_after(time: std::time::Duration) {
    let seconds = libc::c_uint::try_from(time.as_secs()).unwrap_or(libc::c_uint::MAX);
    // SAFETY: sets a timer of this process, whose signal ends it.
    unsafe { libc::alarm(seconds) };
}

/// Replaces the three standard streams.
pub fn replace_streams(by: BorrowedFd<'_>) -> io::Result<()> {
    for stream in 0..3 {
        // SAFETY: replaces numbers that std owns, and that stay open.
        if unsafe { libc::dup2(by.as_raw_fd(), stream) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Executes a program, its path being the first of `arguments`, in the place of this process; returns
/// why that failed. Rust ignores SIGPIPE, which a program would inherit.
pub fn execute(arguments: &[CString]) -> io::Error {
    let Some(program) = arguments.first() else {
        return io::Error::from_raw_os_error(libc::ENOENT);
    };
    let pointers = arguments.iter().map(|argument| argument.as_ptr());
    let pointers: Vec<_> = pointers.chain([std::ptr::null()]).collect();
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: the array ends with a null pointer and points into strings that outlive the call;
    // `environ` is the C library's own, and this process has one thread.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execve(program.as_ptr(), pointers.as_ptr(), environ);
    }
    io::Error::last_os_error()
}

/// Puts this process, and what it starts, under a seccomp filter in the kernel's own form
/// (`struct sock_filter`, eight bytes each), for good.
pub fn install_filter(bytes: &[u8]) -> io::Result<()> {
    install(&instructions(bytes), 0).map(drop)
}

/// Puts what this command starts under a filter that holds calls, and sends its listener over this socket
/// (seccomp_unotify(2)).
pub fn hold_calls(command: &mut Command, bytes: &[u8], socket: OwnedFd) {
    let filter = instructions(bytes);
    let hold = move || {
        let number = install(&filter, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?;
        // SAFETY: a new descriptor without another owner; execve closes it.
        let listener = unsafe { OwnedFd::from_raw_fd(number) };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [listener.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&files));
        let flags = SendFlags::NOSIGNAL;
        sendmsg(&socket, &[io::IoSlice::new(b"x")], &mut control, flags)?;
        Ok(())
    };
    // SAFETY: system calls on what was made before the fork; nothing is allocated.
    unsafe {
        command.pre_exec(hold);
    }
}

fn instructions(bytes: &[u8]) -> Vec<libc::sock_filter> {
    let instruction = |b: &[u8]| libc::sock_filter {
        code: u16::from_ne_bytes([b[0], b[1]]),
        jt: b[2],
        jf: b[3],
        k: u32::from_ne_bytes([b[4], b[5], b[6], b[7]]),
    };
    bytes.chunks_exact(8).map(instruction).collect()
}

/// The descriptor of the listener, where `flags` ask for one, or zero.
fn install(filter: &[libc::sock_filter], flags: libc::c_ulong) -> io::Result<RawFd> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).unwrap_or(0),
        filter: filter.as_ptr().cast_mut(),
    };
    // As for the host's own children: no slower than without the filter.
    let flags = flags | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the first call changes this process only; the kernel copies `len` instructions from a
    // live vector and writes nothing.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program)
    };
    match RawFd::try_from(result) {
        Ok(number @ 0..) => Ok(number),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives the process namespaces of its own, of these kinds.
pub fn leave_namespaces(kinds: UnshareFlags) -> io::Result<()> {
    // SAFETY: the descriptor table stays shared, since no caller names it; the process has one thread.
    unsafe { rustix::thread::unshare_unsafe(kinds) }?;
    Ok(())
}

/// `struct mount_attr` of `mount_setattr(2)`.
#[repr(C)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Adds attributes to a mount, with `recursive` to those below it too (Linux 5.12, `mount_setattr(2)`).
pub fn restrict_mount(
    mount: BorrowedFd<'_>,
    attributes: MountAttributes,
    recursive: bool,
) -> io::Result<()> {
    let attr = MountAttr {
        attr_set: u64::from(attributes.bits()),
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let recursive = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is empty and static; the kernel reads one structure of the size that is told.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Adds bytes that only this guest has to the kernel's generator of random numbers, and has it begin anew with them
/// (random(4): `RNDADDENTROPY`, `RNDRESEEDCRNG`).
pub fn add_entropy(random: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    /// `struct rand_pool_info`, with room for what a host sends.
    #[repr(C)]
    struct Pool {
        entropy_bits: libc::c_int,
        bytes: libc::c_int,
        buffer: [u8; POOL_BYTES],
    }
    const POOL_BYTES: usize = 256;
    const RNDADDENTROPY: libc::Ioctl = 0x4008_5203_u32 as libc::Ioctl;
    const RNDRESEEDCRNG: libc::Ioctl = 0x5207;
    let count = bytes.len().min(POOL_BYTES);
    let mut pool = Pool {
        entropy_bits: 8 * count as libc::c_int,
        bytes: count as libc::c_int,
        buffer: [0; POOL_BYTES],
    };
    pool.buffer[..count].copy_from_slice(&bytes[..count]);
    let fd = random.as_raw_fd();
    // SAFETY: the kernel reads a structure that says its own length, and lives for the call; the second call takes no
    // argument.
    unsafe {
        done(libc::ioctl(fd, RNDADDENTROPY, &raw const pool))?;
        done(libc::ioctl(fd, RNDRESEEDCRNG))
    }
}

/// Memory of a PCI device, shared with the host, as 64-bit words.
pub struct SharedPage {
    start: NonNull<AtomicU64>,
    words: usize,
}

impl SharedPage {
    /// Maps the first `bytes` of a device's resource file.
    pub fn map(file: &File, bytes: usize) -> io::Result<Self> {
        // SAFETY: a fresh shared mapping at an address the kernel chooses aliases no Rust object, and
        // it is never unmapped: the program ends with it.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file.as_fd(),
                0,
            )?
        };
        let start = NonNull::new(start.cast())
            .ok_or_else(|| io::Error::other("the kernel mapped the page at address zero"))?;
        let words = bytes / size_of::<AtomicU64>();
        Ok(Self { start, words })
    }

    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.words, "word {index} of {}", self.words);
        // SAFETY: in bounds by the assertion, aligned because mappings are page-aligned, valid for
        // every bit pattern, and only ever accessed as atomics by both sides.
        unsafe { self.start.add(index).as_ref() }
    }

    /// Waits, spinning, until the word differs from `old`; gives up after about `rounds` looks.
    pub fn wait_change(&self, index: usize, old: u64, rounds: u64) -> Option<u64> {
        let word = self.word(index);
        for _ in 0..rounds {
            let now = word.load(Ordering::Acquire);
            if now != old {
                return Some(now);
            }
            std::hint::spin_loop();
        }
        None
    }
}
