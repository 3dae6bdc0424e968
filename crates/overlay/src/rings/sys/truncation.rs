//! A VMM that truncates its file under a mapping: the next access raises SIGBUS, which ends one port instead of the daemon.
//!
//! QEMU seals its memory files against that, DPDK and others do not, so requiring seals would refuse them. The handler
//! replaces the whole mapping by zeros and marks it. The access continues, and the ring notices the mark at its next pass.

use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};

/// Maximum number of mappings in the process.
const MAX_MAPPINGS: usize = 4096;

/// A mapping that the handler knows. A length of zero: free.
///
/// A seqlock, because start and length are two words and entries are reused: the version is odd while they change. A
/// reader that finds the same even version before and after has read a consistent pair.
struct Mapping {
    version: AtomicUsize,
    start: AtomicUsize,
    len: AtomicUsize,
    taken: AtomicBool,
    lost: AtomicBool,
}

static ENTRIES: [Mapping; MAX_MAPPINGS] = [const {
    Mapping {
        version: AtomicUsize::new(0),
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        taken: AtomicBool::new(false),
        lost: AtomicBool::new(false),
    }
}; MAX_MAPPINGS];

impl Mapping {
    /// Changes both words; only the thread that has taken the entry.
    fn set(&self, start: usize, len: usize) {
        let version = self.version.load(Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.start.store(start, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        self.version
            .store(version.wrapping_add(2), Ordering::Release);
    }

    /// A consistent range; empty while it changes.
    fn range(&self) -> Range<usize> {
        let version = self.version.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Relaxed);
        let len = self.len.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_whole = version % 2 == 0 && self.version.load(Ordering::Relaxed) == version;
        start..start + if is_whole { len } else { 0 }
    }
}

static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
static INSTALL: Once = Once::new();

/// A mapping's entry in the handler's list.
#[derive(Debug)]
pub struct Watch(usize);

impl Watch {
    /// Survives faults in `start..start + len` from now on.
    pub fn new(start: usize, len: usize) -> io::Result<Watch> {
        INSTALL.call_once(install);
        let free = ENTRIES
            .iter()
            .position(|entry| !entry.taken.swap(true, Ordering::AcqRel));
        let Some(index) = free else {
            return Err(io::Error::other("more guests' memory regions than 4096"));
        };
        let entry = &ENTRIES[index];
        entry.lost.store(false, Ordering::Relaxed);
        entry.set(start, len);
        Ok(Watch(index))
    }

    /// Whether a fault has happened: the memory is no longer the guest's.
    pub fn lost(&self) -> bool {
        ENTRIES[self.0].lost.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let entry = &ENTRIES[self.0];
        entry.set(0, 0);
        entry.taken.store(false, Ordering::Release);
    }
}

fn install() {
    let previous = Box::into_raw(Box::new(
        // SAFETY: all zeroes is a valid sigaction, which is overwritten below.
        unsafe { std::mem::zeroed::<libc::sigaction>() },
    ));
    // SAFETY: as above; the flags and the handler are set before it is used.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    action.sa_sigaction = handle as *const () as usize;
    PREVIOUS.store(previous, Ordering::Release);
    // SAFETY: both point to sigactions of this process; the handler only does what is allowed in one.
    unsafe { libc::sigaction(libc::SIGBUS, &action, previous) };
}

/// Signal handler: only atomics and system calls are permitted.
extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo, with an address for SIGBUS.
    let at = unsafe { (*info).si_addr() } as usize;
    for entry in &ENTRIES {
        // The faulting thread holds its region, so its entry does not change meanwhile.
        let range = entry.range();
        if range.contains(&at) {
            // SAFETY: the range is a mapping of ours (its watch ends before it is unmapped), and a
            // fixed mapping replaces exactly that.
            let zeroes = unsafe {
                libc::mmap(
                    range.start as *mut libc::c_void,
                    range.len(),
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if zeroes != libc::MAP_FAILED {
                entry.lost.store(true, Ordering::Relaxed);
                return;
            }
        }
    }
    // Not ours: the previous handler gets it when the instruction faults again.
    let previous = PREVIOUS.load(Ordering::Acquire);
    // SAFETY: `previous` was filled by `install` and is never freed.
    unsafe { libc::sigaction(libc::SIGBUS, previous, ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two mappings use one entry by turns while a reader checks it.
    #[test]
    fn words_of_two_mappings_are_never_mixed() {
        let entry = Mapping {
            version: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            taken: AtomicBool::new(true),
            lost: AtomicBool::new(false),
        };
        let has_begun = AtomicBool::new(false);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let range = entry.range();
                    let belongs = range.is_empty() || range == (10..20) || range == (1000..1500);
                    assert!(belongs, "{range:?}");
                    has_begun.store(true, Ordering::Relaxed);
                }
            });
            while !has_begun.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            for _ in 0..2_000_000 {
                entry.set(10, 10);
                entry.set(1000, 500);
            }
            assert_eq!(entry.range(), 1000..1500);
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
