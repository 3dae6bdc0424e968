//! Which system calls the kernel carries out, as a program of classic BPF for seccomp(2).
//!
//! Found by `strace -f` under this crate's tests, with their relatives that another C library or kernel would use
//! instead. Those whose arguments do not matter cost nothing (the kernel keeps a map of them), so their order is of no
//! consequence but on kernels before 5.11: there the ones of a frame's way come first.

use libc::{c_long, sock_filter};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Allowed whatever the arguments.
const ALLOWED: &[c_long] = &[
    // A frame's way, and waiting for the next.
    libc::SYS_epoll_pwait,
    libc::SYS_recvmmsg,
    libc::SYS_sendmmsg,
    libc::SYS_writev,
    libc::SYS_readv,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_ppoll,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    // Routes of the kernel's path. Which of bpf's commands, capabilities decide.
    libc::SYS_bpf,
    // Descriptors.
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_eventfd2,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_ftruncate,
    libc::SYS_lseek,
    libc::SYS_memfd_create,
    libc::SYS_pipe2,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    // Files; Landlock says which.
    libc::SYS_openat,
    libc::SYS_statx,
    libc::SYS_newfstatat,
    libc::SYS_statfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_unlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_umask,
    // Sockets; `socket` is below.
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    // Memory; what could make it executable is below.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_mincore,
    libc::SYS_membarrier,
    // Threads, their signals and CPUs.
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_restart_syscall,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setattr,
    libc::SYS_sched_getattr,
    libc::SYS_sched_getparam,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getaffinity,
    libc::SYS_getrusage,
    libc::SYS_getcpu,
    libc::SYS_nanosleep,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_uname,
    libc::SYS_geteuid,
    libc::SYS_getuid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Older system calls of this architecture.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[
    libc::SYS_epoll_wait,
    libc::SYS_poll,
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_unlink,
    libc::SYS_chmod,
    libc::SYS_accept,
    libc::SYS_dup2,
    libc::SYS_time,
    libc::SYS_set_tid_address,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[libc::SYS_set_tid_address];

/// A rule about the lower half of an argument.
enum Argument {
    /// One of these.
    Is(usize, &'static [u32]),
    /// None of these.
    IsNot(usize, &'static [u32]),
    /// All bits of the first mask and none of the second.
    Bits(usize, u32, u32),
    /// This process.
    IsOwn(usize),
}

const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// Allowed for some arguments only.
const CONDITIONAL: &[(c_long, Argument)] = &[
    // Threads, no processes. On clone3 see `program`.
    (
        libc::SYS_clone,
        Argument::Bits(0, libc::CLONE_THREAD as u32, NEW_NAMESPACES),
    ),
    // No code but what is there.
    (libc::SYS_mmap, Argument::Bits(2, 0, libc::PROT_EXEC as u32)),
    (
        libc::SYS_mprotect,
        Argument::Bits(2, 0, libc::PROT_EXEC as u32),
    ),
    // Where taps, wires and sockets of other namespaces are.
    (
        libc::SYS_setns,
        Argument::Is(1, &[libc::CLONE_NEWNET as u32]),
    ),
    (
        libc::SYS_socket,
        Argument::Is(
            0,
            &[
                libc::AF_UNIX as u32,
                libc::AF_INET as u32,
                libc::AF_INET6 as u32,
                libc::AF_NETLINK as u32,
                libc::AF_PACKET as u32,
            ],
        ),
    ),
    // TIOCSTI types into the terminal of the parent process.
    (
        libc::SYS_ioctl,
        Argument::IsNot(1, &[libc::TIOCSTI as u32, TIOCLINUX]),
    ),
    // Names of threads and of memory; libbpf asks whether it has capabilities.
    (
        libc::SYS_prctl,
        Argument::Is(
            0,
            &[
                libc::PR_SET_NAME as u32,
                libc::PR_GET_NAME as u32,
                PR_SET_VMA,
            ],
        ),
    ),
    // A panic's end.
    (libc::SYS_tgkill, Argument::IsOwn(0)),
    // Its own limits.
    (libc::SYS_prlimit64, Argument::Is(0, &[0])),
];

const TIOCLINUX: u32 = 0x541c;
const PR_SET_VMA: u32 = 0x5356_4d41;

/// Offsets in `struct seccomp_data`; the lower half of an argument comes first on both architectures.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

/// Numbers of x86-64 from here on are of the x32 form.
const X32: u32 = 0x4000_0000;

const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
/// The C library takes `clone` instead, whose flags are where a filter can see them (seccomp(2)).
const UNKNOWN: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

pub fn program() -> Vec<sock_filter> {
    let mut program = vec![
        load(ARCH),
        jump(libc::BPF_JEQ, ARCHITECTURE, 1, 0),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
        jump(libc::BPF_JGE, X32, 0, 1),
        answer(REFUSED),
    ];
    for call in ALLOWED.iter().chain(OLDER) {
        program.extend([
            jump(libc::BPF_JEQ, number(*call), 0, 1),
            answer(libc::SECCOMP_RET_ALLOW),
        ]);
    }
    program.extend([
        jump(libc::BPF_JEQ, number(libc::SYS_clone3), 0, 1),
        answer(UNKNOWN),
    ]);
    for (call, argument) in CONDITIONAL {
        let rule = rule(argument);
        let behind = u8::try_from(rule.len()).expect("a rule is a few instructions");
        program.push(jump(libc::BPF_JEQ, number(*call), 0, behind));
        program.extend(rule);
    }
    program.push(answer(REFUSED));
    program
}

/// Decides by an argument; it ends with an answer either way.
fn rule(argument: &Argument) -> Vec<sock_filter> {
    let own = [std::process::id()];
    let (which, values, found, other) = match argument {
        Argument::Is(which, values) => (which, *values, libc::SECCOMP_RET_ALLOW, REFUSED),
        Argument::IsNot(which, values) => (which, *values, REFUSED, libc::SECCOMP_RET_ALLOW),
        Argument::IsOwn(which) => (which, &own[..], libc::SECCOMP_RET_ALLOW, REFUSED),
        Argument::Bits(which, all, none) => {
            return vec![
                load(at(*which)),
                instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, all | none),
                jump(libc::BPF_JEQ, *all, 0, 1),
                answer(libc::SECCOMP_RET_ALLOW),
                answer(REFUSED),
            ];
        }
    };
    let mut rule = vec![load(at(*which))];
    for value in values {
        rule.extend([jump(libc::BPF_JEQ, *value, 0, 1), answer(found)]);
    }
    rule.push(answer(other));
    rule
}

fn at(argument: usize) -> u32 {
    ARGUMENTS + 8 * argument as u32
}

fn number(call: c_long) -> u32 {
    u32::try_from(call).expect("system calls have small numbers")
}

fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn answer(what: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, what)
}

fn instruction(code: u32, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

fn jump(condition: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter {
        jt,
        jf,
        ..instruction(libc::BPF_JMP | condition | libc::BPF_K, k)
    }
}
