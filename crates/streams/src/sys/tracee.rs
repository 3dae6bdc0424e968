//! A thread that is stopped by ptrace(2), and a system call made in its place.
//!
//! A descriptor of another process can be replaced only while that process waits in a call which a filter holds
//! (`SECCOMP_IOCTL_NOTIF_ADDFD`). So a stopped thread is led into one, and then goes on where it was.

use std::fs;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::listener::last_error;
use super::registers::{self, Registers};
use super::task::Memory;

/// A thread in the kernel stops as soon as its call can be interrupted. One in uninterruptible sleep takes longer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long one is awaited that was asked to stop a while ago.
pub const LATE: Duration = Duration::from_millis(100);
/// How long a stop is awaited by yielding, and then by sleeping in between.
const YIELDING: Duration = Duration::from_millis(2);
const PAUSE: Duration = Duration::from_micros(200);

/// A stop for a system call, told from SIGTRAP by this bit (`PTRACE_O_TRACESYSGOOD`).
const SYSCALL_STOP: i32 = libc::SIGTRAP | 0x80;
const OPTIONS: usize = libc::PTRACE_O_TRACESYSGOOD as usize;
const EXIT_KILL: usize = libc::PTRACE_O_EXITKILL as usize;
/// `linux/ptrace.h`
const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;
const SIGNAL_SET_BYTES: usize = 8;

/// A thread that does not run, once it has stopped, until it is released.
#[derive(Debug)]
#[must_use]
pub struct Tracee {
    thread: i32,
    is_stopped: bool,
    /// The signal that it was to get when it stopped; 0 for none.
    signal: i32,
    /// Registers and signal mask that it had before it was led into a call, until it has them back.
    before: Option<(Registers, u64)>,
}

impl Tracee {
    /// Asks a thread to stop: [`Tracee::await_stop`] follows. Errors: it is traced already (`EPERM`), it is gone (`ESRCH`).
    pub fn interrupt(thread: u32) -> Result<Self, Errno> {
        let tracee = Self {
            thread: thread as i32,
            is_stopped: false,
            signal: 0,
            before: None,
        };
        tracee.request(libc::PTRACE_SEIZE, 0, OPTIONS)?;
        tracee.request(libc::PTRACE_INTERRUPT, 0, 0)?;
        Ok(tracee)
    }

    /// Errors: the thread is gone (`ESRCH`), it does not stop (`ETIMEDOUT`).
    pub fn await_stop(&mut self) -> Result<(), Errno> {
        while !self.is_stopped {
            let status = self.wait(TIMEOUT)?;
            match status >> 16 {
                // `PTRACE_EVENT_STOP`: of our request, or of a stopped process.
                libc::PTRACE_EVENT_STOP => self.is_stopped = true,
                // A signal on its way goes first. The request is still there.
                _ => self.go_on(libc::PTRACE_CONT, libc::WSTOPSIG(status))?,
            }
        }
        Ok(())
    }

    pub fn thread(&self) -> u32 {
        self.thread as u32
    }

    /// Has the thread make a system call, and returns what that returned. `during` runs while the call does: it has to
    /// bring the call to its end. No signal reaches the thread meanwhile.
    pub fn call<T>(
        &mut self,
        number: i64,
        arguments: [u64; 6],
        during: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<(i64, T), Errno> {
        let memory = Memory::open(self.thread()).map_err(|_| Errno::SRCH)?;
        let at = self.code()?;
        let instruction = memory.read(at, registers::SYSCALL.len())?;
        let (before, signals) = (self.registers()?, self.signal_mask()?);
        self.before = Some((before, signals));
        // Should we end meanwhile, it must not run on with registers of ours.
        let result = self
            .request(libc::PTRACE_SETOPTIONS, 0, OPTIONS | EXIT_KILL)
            .and_then(|()| self.set_signal_mask(u64::MAX))
            .and_then(|()| memory.write(at, &registers::SYSCALL))
            .and_then(|()| self.set_registers(&before.calling(at, number, arguments)))
            .and_then(|()| self.run_call(during));
        if !self.is_stopped {
            // On its way to the call or out of it. Asked to stop, it does before it runs on with registers of ours.
            self.request(libc::PTRACE_INTERRUPT, 0, 0).ok();
            self.wait(LATE).ok();
        }
        // As before, whatever happened. A thread that is gone has nothing to be put back.
        memory.write(at, &instruction).ok();
        self.put_back();
        result
    }

    /// Has a stopped thread be as it was before it was led into a call.
    fn put_back(&mut self) {
        if !self.is_stopped {
            return;
        }
        if let Some((before, signals)) = self.before.take() {
            let again = before.restarting(self.restarts_interrupted(signals));
            // Stopped at the begin of the call, it must not make that with these.
            self.set_registers(&again.in_no_call()).ok();
            self.set_signal_mask(signals).ok();
            self.request(libc::PTRACE_SETOPTIONS, 0, OPTIONS).ok();
        }
    }

    /// Lets the thread go on where it was. Gives it back if it does not stop in this time: only a stopped thread can be let
    /// go, and this one stops some day.
    pub fn release(mut self, limit: Duration) -> Option<Self> {
        if !self.is_stopped {
            let status = match self.wait(limit) {
                Ok(status) => status,
                Err(Errno::TIMEDOUT) => return Some(self),
                // The thread has ended.
                Err(_) => return None,
            };
            let is_event = status >> 16 != 0 || libc::WSTOPSIG(status) == SYSCALL_STOP;
            self.signal = if is_event { 0 } else { libc::WSTOPSIG(status) };
        }
        self.put_back();
        if self.signal == 0 {
            self.undo_interruption().ok();
        }
        let signal = self.signal as usize;
        self.request(libc::PTRACE_DETACH, 0, signal).ok();
        None
    }

    fn run_call<T>(
        &mut self,
        during: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<(i64, T), Errno> {
        self.go_on(libc::PTRACE_SYSCALL, 0)?;
        self.await_syscall_stop()?;
        self.go_on(libc::PTRACE_SYSCALL, 0)?;
        let done = during();
        if done.is_err() {
            // The call may be held still: interrupted, it ends as well.
            self.request(libc::PTRACE_INTERRUPT, 0, 0)?;
        }
        self.await_syscall_stop()?;
        Ok((self.registers()?.result(), done?))
    }

    fn await_syscall_stop(&mut self) -> Result<(), Errno> {
        loop {
            let status = self.wait(TIMEOUT)?;
            if libc::WSTOPSIG(status) == SYSCALL_STOP {
                return Ok(());
            }
            // Asked to stop before its call: it is on its way there.
            self.go_on(libc::PTRACE_SYSCALL, 0)?;
        }
    }

    /// Whether a call that was interrupted is to be made again: our stop did it, unless a signal did.
    fn restarts_interrupted(&self, blocked: u64) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.thread));
        let status = status.unwrap_or_default();
        let set = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
        };
        let pending = set("SigPnd:").unwrap_or(0) | set("ShdPnd:").unwrap_or(0);
        pending & !blocked == 0
    }

    /// The beginning of a mapping of code. No restartable sequence (rseq(2)) of the program is there, as one may be where
    /// the thread was stopped: the kernel would lead it away from our call.
    fn code(&self) -> Result<u64, Errno> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.thread));
        let maps = maps.map_err(|_| Errno::SRCH)?;
        let code = maps.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let (range, rights) = (words.next()?, words.next()?);
            let (begin, _) = range.split_once('-')?;
            let is_code =
                rights == "r-xp" && words.nth(3).is_some_and(|name| name.starts_with('/'));
            is_code.then(|| u64::from_str_radix(begin, 16).ok())?
        });
        code.ok_or(Errno::NOEXEC)
    }

    fn registers(&self) -> Result<Registers, Errno> {
        let mut registers = Registers::default();
        let length = self.transfer(libc::PTRACE_GETREGSET, &mut registers)?;
        // A thread of 32 bits has fewer.
        match length == size_of::<Registers>() {
            true => Ok(registers),
            false => Err(Errno::NOSYS),
        }
    }

    fn set_registers(&self, registers: &Registers) -> Result<(), Errno> {
        let mut copy = *registers;
        self.transfer(libc::PTRACE_SETREGSET, &mut copy).map(drop)
    }

    /// Reads or writes all registers; the number of bytes.
    fn transfer(&self, request: libc::c_uint, registers: &mut Registers) -> Result<usize, Errno> {
        let mut part = libc::iovec {
            iov_base: std::ptr::from_mut(registers).cast(),
            iov_len: size_of::<Registers>(),
        };
        self.request(request, registers::KIND, (&raw mut part) as usize)?;
        Ok(part.iov_len)
    }

    fn signal_mask(&self) -> Result<u64, Errno> {
        let mut mask = 0_u64;
        let at = (&raw mut mask) as usize;
        self.request(PTRACE_GETSIGMASK, SIGNAL_SET_BYTES, at)?;
        Ok(mask)
    }

    fn set_signal_mask(&self, mask: u64) -> Result<(), Errno> {
        let at = (&raw const mask) as usize;
        self.request(PTRACE_SETSIGMASK, SIGNAL_SET_BYTES, at)
    }

    fn go_on(&mut self, request: libc::c_uint, signal: i32) -> Result<(), Errno> {
        self.is_stopped = false;
        self.request(request, 0, signal as usize)
    }

    /// The next stop's status. Errors: there is none in this time (`ETIMEDOUT`), the thread is gone.
    fn wait(&mut self, limit: Duration) -> Result<i32, Errno> {
        let begin = Instant::now();
        loop {
            let mut status = 0;
            // SAFETY: the kernel writes one int.
            let result = unsafe {
                libc::waitpid(self.thread, &raw mut status, libc::__WALL | libc::WNOHANG)
            };
            match result {
                0 => {}
                1.. if libc::WIFSTOPPED(status) => {
                    self.is_stopped = true;
                    return Ok(status);
                }
                1.. => return Err(Errno::SRCH),
                _ => match last_error() {
                    Errno::INTR => {}
                    error => return Err(error),
                },
            }
            match begin.elapsed() {
                time if time >= limit => return Err(Errno::TIMEDOUT),
                time if time > YIELDING => std::thread::sleep(PAUSE),
                _ => std::thread::yield_now(),
            }
        }
    }

    fn request(&self, request: libc::c_uint, address: usize, data: usize) -> Result<(), Errno> {
        // SAFETY: each caller passes the numbers or the structures that its request takes, which outlive the call.
        let result = unsafe { libc::ptrace(request, self.thread, address, data) };
        match result {
            -1 => Err(last_error()),
            _ => Ok(()),
        }
    }

    /// Has a call that our stop ended early be made again.
    fn undo_interruption(&self) -> Result<(), Errno> {
        let (registers, signals) = (self.registers()?, self.signal_mask()?);
        self.set_registers(&registers.restarting(self.restarts_interrupted(signals)))
    }
}
