//! A thread's registers, for a system call in its place.

/// `NT_PRSTATUS` of elf.h
pub const KIND: usize = 1;

/// Results with which the kernel asks itself to make a call again (`linux/errno.h`).
const RESTART: std::ops::RangeInclusive<i64> = -514..=-512;
const RESTART_BLOCK: i64 = -516;
const INTERRUPTED: i64 = -(libc::EINTR as i64);

/// Calls that end with EINTR at a stop, although no signal is there (signal(7)). Made again they wait for their whole time.
const INTERRUPTIBLE: [i64; 13] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
];

/// `syscall`
pub const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// `struct user_regs_struct` of x86-64.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Registers {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    rbp: u64,
    rbx: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rax: u64,
    rcx: u64,
    rdx: u64,
    rsi: u64,
    rdi: u64,
    orig_rax: u64,
    rip: u64,
    cs: u64,
    eflags: u64,
    rsp: u64,
    ss: u64,
    fs_base: u64,
    gs_base: u64,
    ds: u64,
    es: u64,
    fs: u64,
    gs: u64,
}

/// The number of a call for a thread that is in none.
const NO_CALL: u64 = u64::MAX;

impl Registers {
    /// Those with which the instruction at `at` makes a call.
    pub fn calling(self, at: u64, number: i64, [a, b, c, d, e, f]: [u64; 6]) -> Self {
        Self {
            rip: at,
            rax: number as u64,
            // The kernel restarts none.
            orig_rax: NO_CALL,
            rdi: a,
            rsi: b,
            rdx: c,
            r10: d,
            r8: e,
            r9: f,
            ..self
        }
    }

    /// Those with which a call that a stop has ended is made again. Otherwise unchanged.
    pub fn restarting(self, also_interrupted: bool) -> Self {
        let call = self.orig_rax as i64;
        let number = match self.rax as i64 {
            _ if call < 0 => return self,
            result if RESTART.contains(&result) => call,
            RESTART_BLOCK => libc::SYS_restart_syscall,
            INTERRUPTED if also_interrupted && INTERRUPTIBLE.contains(&call) => call,
            _ => return self,
        };
        Self {
            rip: self.rip - SYSCALL.len() as u64,
            rax: number as u64,
            orig_rax: NO_CALL,
            ..self
        }
    }

    /// The same, of which the kernel makes no call and makes none again.
    pub fn in_no_call(self) -> Self {
        Self {
            orig_rax: NO_CALL,
            ..self
        }
    }

    pub fn result(&self) -> i64 {
        self.rax as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_call(number: i64, result: i64) -> Registers {
        Registers {
            rip: 0x1002,
            orig_rax: number as u64,
            rax: result as u64,
            ..Registers::default()
        }
    }

    #[test]
    fn a_call_that_a_stop_has_ended_is_made_again() {
        let again = |number, result, also| {
            let registers = in_call(number, result).restarting(also);
            (registers.rip, registers.rax as i64)
        };
        let (read, poll) = (libc::SYS_read, libc::SYS_poll);
        assert_eq!(again(read, -512, false), (0x1000, read));
        assert_eq!(
            again(poll, -516, false),
            (0x1000, libc::SYS_restart_syscall)
        );
        let waits = libc::SYS_epoll_wait;
        assert_eq!(again(waits, -4, true), (0x1000, waits));
        // A signal's, a result, a close that has closed.
        assert_eq!(again(waits, -4, false), (0x1002, -4));
        assert_eq!(again(read, 7, true), (0x1002, 7));
        assert_eq!(again(libc::SYS_close, -4, true), (0x1002, -4));
        // In no call.
        assert_eq!(again(-1, -512, true), (0x1002, -512));
    }
}
