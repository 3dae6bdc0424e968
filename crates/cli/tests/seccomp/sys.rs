//! A kernel without one of its system calls, for one program: it answers that it is not there.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the program, and all that it starts, find no bpf(2).
pub fn without_bpf(command: &mut Command) {
    without(command, libc::SYS_bpf);
}

/// And no perf_event_open(2).
pub fn without_perf(command: &mut Command) {
    without(command, libc::SYS_perf_event_open);
}

fn without(command: &mut Command, call: libc::c_long) {
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // The number of the call is the first word of what a filter is given.
    let mut filter = [
        step(LOAD_NUMBER, 0, 0, 0),
        step(IF_EQUAL, 0, 1, call as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_mut_ptr(),
        };
        // SAFETY: the program is read before the call returns.
        let rc = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }
            | unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) };
        match rc {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec it does nothing but two system calls.
    unsafe { command.pre_exec(install) };
}
