//! Tasks in the recorder's events.

use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use latlab_trace::Error;
use latlab_trace::recorder::{Recorder, Settings};
use latlab_wire::trace::{Event, EventKind};

/// Begin of the name of the thread that polls a ring of io_uring.
const WORKER: &str = "iou-sqp-";

/// A ring whose thread sleeps after a millisecond without requests.
fn polled_ring() -> std::io::Result<OwnedFd> {
    const POLLED: u32 = 1 << 1;
    let mut parameters = [0_u32; 30];
    (parameters[2], parameters[4]) = (POLLED, 1);
    // SAFETY: the parameters are as long as the kernel's structure, and live through the call.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    match libc::c_int::try_from(fd) {
        // SAFETY: a descriptor that the kernel just made and no other object owns.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn has_worker() -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread may end meanwhile.
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names
        .into_iter()
        .any(|name: String| name.starts_with(WORKER))
}

/// By rounds: the clock of an emulated guest may jump.
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..15_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("{what} is awaited in vain");
}

/// Its registers are a copy of those of the program that made the ring, which was in a system call then.
#[test]
fn a_worker_of_io_uring_sleeps_in_no_system_call() {
    let count = std::thread::available_parallelism().map_or(1, usize::from) as u16;
    let settings = Settings {
        cpus: (0..count).collect(),
        events_per_cpu: 1 << 16,
        system_calls: false,
    };
    let recorder = match Recorder::load(&settings) {
        Ok(recorder) => recorder,
        Err(Error::Load { reason, .. }) if !rustix::process::geteuid().is_root() => {
            return println!("skipped: needs root ({reason})");
        }
        Err(error) => panic!("{error}"),
    };
    recorder.start();
    let ring = match polled_ring() {
        Ok(ring) => ring,
        Err(error) => return println!("skipped: io_uring is not for use here ({error})"),
    };
    wait_for("a worker", has_worker);
    std::thread::sleep(Duration::from_millis(100));
    // Woken once more: it had its creator's name when it began.
    drop(ring);
    wait_for("the worker's end", || !has_worker());
    let events = recorder.finish().events;
    let switches = events.iter().filter(|one| one.kind == EventKind::Switch);
    let worker = switches
        .clone()
        .find(|one| one.text().starts_with(WORKER))
        .map(|one| one.switch().next)
        .expect("no switch to the worker");
    let sleeps: Vec<_> = switches
        .map(Event::switch)
        .filter(|one| one.previous == worker && one.state != 0)
        .collect();
    assert!(!sleeps.is_empty());
    assert!(sleeps.iter().all(|one| one.call.is_none()), "{sleeps:?}");
}
