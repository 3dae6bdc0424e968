//! Names of system calls, by this machine's numbers.

use std::collections::BTreeMap;

use latlab_wire::trace::{Event, EventKind};

macro_rules! calls {
    ($($(#[$when:meta])? $name:ident = $number:ident,)*) => {
        &[$($(#[$when])? (libc::$number, stringify!($name)),)*]
    };
}

/// Calls in which a program that handles packets sleeps, or stays long. Others keep their number.
const CALLS: &[(libc::c_long, &str)] = calls![
    read = SYS_read,
    write = SYS_write,
    readv = SYS_readv,
    writev = SYS_writev,
    pread64 = SYS_pread64,
    pwrite64 = SYS_pwrite64,
    fsync = SYS_fsync,
    fdatasync = SYS_fdatasync,
    ioctl = SYS_ioctl,
    fcntl = SYS_fcntl,
    flock = SYS_flock,
    openat = SYS_openat,
    close = SYS_close,
    splice = SYS_splice,
    sendfile = SYS_sendfile,
    ppoll = SYS_ppoll,
    pselect6 = SYS_pselect6,
    epoll_pwait = SYS_epoll_pwait,
    epoll_pwait2 = SYS_epoll_pwait2,
    recvfrom = SYS_recvfrom,
    recvmsg = SYS_recvmsg,
    recvmmsg = SYS_recvmmsg,
    sendto = SYS_sendto,
    sendmsg = SYS_sendmsg,
    sendmmsg = SYS_sendmmsg,
    accept = SYS_accept,
    accept4 = SYS_accept4,
    connect = SYS_connect,
    futex = SYS_futex,
    nanosleep = SYS_nanosleep,
    clock_nanosleep = SYS_clock_nanosleep,
    sched_yield = SYS_sched_yield,
    rt_sigtimedwait = SYS_rt_sigtimedwait,
    rt_sigsuspend = SYS_rt_sigsuspend,
    wait4 = SYS_wait4,
    waitid = SYS_waitid,
    mmap = SYS_mmap,
    munmap = SYS_munmap,
    mremap = SYS_mremap,
    mprotect = SYS_mprotect,
    madvise = SYS_madvise,
    brk = SYS_brk,
    mlock = SYS_mlock,
    membarrier = SYS_membarrier,
    getrandom = SYS_getrandom,
    io_submit = SYS_io_submit,
    io_getevents = SYS_io_getevents,
    io_uring_enter = SYS_io_uring_enter,
    bpf = SYS_bpf,
    #[cfg(target_arch = "x86_64")]
    poll = SYS_poll,
    #[cfg(target_arch = "x86_64")]
    select = SYS_select,
    #[cfg(target_arch = "x86_64")]
    epoll_wait = SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    pause = SYS_pause,
];

/// Names of the system calls in these events.
#[must_use]
pub fn call_names(events: &[Event]) -> BTreeMap<u16, String> {
    let number = |event: &Event| match event.kind {
        EventKind::Switch => event.switch().call,
        EventKind::Call => Some(event.call().number),
        _ => None,
    };
    let numbers = events.iter().filter_map(number);
    numbers
        .filter_map(|n| Some((n, name(n)?.to_owned())))
        .collect()
}

fn name(number: u16) -> Option<&'static str> {
    let known = CALLS
        .iter()
        .find(|call| call.0 == libc::c_long::from(number));
    known.map(|call| call.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_this_machine() {
        let number = |call: libc::c_long| u16::try_from(call).unwrap();
        assert_eq!(name(number(libc::SYS_futex)), Some("futex"));
        assert_eq!(name(u16::MAX), None);
    }
}
