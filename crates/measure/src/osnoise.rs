//! What interrupts a processor that only wants to run: a thread on each that does nothing but read its
//! clock, and the flight recorder beside it.
//!
//! As the kernel's osnoise tracer, but from user space, so that it runs where that tracer is not built
//! in, and sees what a program sees. A step of the clock longer than the threshold is an interruption;
//! what it was is concluded elsewhere, from the events.

use std::time::Duration;

use latlab_trace::recorder::{Recorded, Recorder, Settings};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Interruptions kept for one processor at most: 16 MiB of them.
const MOST_GAPS: usize = 1 << 20;
/// Events kept for one processor at most, and how many are made room for in a second.
const MOST_EVENTS: u32 = 1 << 22;
const EVENTS_PER_SECOND: f64 = 100_000.0;

/// What one processor's thread saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spun {
    /// The processor.
    pub cpu: u16,
    /// The thread, as the kernel counts.
    pub task: u32,
    /// From when to when it ran, in ns of the monotonic clock.
    pub window: (u64, u64),
    /// When it did not.
    pub gaps: Vec<(u64, u64)>,
    /// Further interruptions, for which there was no room.
    pub no_room: u64,
    /// The shortest step of the clock.
    pub step_ns: u64,
}

/// Why there is nothing to say.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A processor that this process may not use.
    #[error("cannot run on processor {0}: {1}")]
    Processor(u16, rustix::io::Errno),
    /// A thread did not come to its end.
    #[error("the thread on processor {0} ended before its time")]
    Thread(u16),
}

/// The processors that this process may use.
#[must_use]
pub fn allowed() -> Vec<u16> {
    let own = sched_getaffinity(None).unwrap_or_default();
    (0..1024u16)
        .filter(|&cpu| own.is_set(usize::from(cpu)))
        .collect()
}

/// Spins on `cpus` for a time. The recorder's failure is told in its place: the interruptions are then
/// known, and their causes are not.
///
/// # Errors
/// When a processor cannot be used.
pub fn run(
    cpus: &[u16],
    duration: Duration,
    threshold_ns: u64,
) -> Result<(Vec<Spun>, Result<Recorded, latlab_trace::Error>), Error> {
    let events = duration.as_secs_f64() * EVENTS_PER_SECOND;
    let recorder = Recorder::load(&Settings {
        cpus: cpus.to_vec(),
        events_per_cpu: (events as u32).clamp(1 << 16, MOST_EVENTS),
    });
    if let Ok(recorder) = &recorder {
        recorder.start();
    }
    let spun = spin_on(cpus, duration, threshold_ns);
    let spun = spun.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok((spun, recorder.map(Recorder::finish)))
}

/// Spins on `cpus` for a time, whoever records it.
pub(crate) fn spin_on(
    cpus: &[u16],
    duration: Duration,
    threshold_ns: u64,
) -> Vec<Result<Spun, Error>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .iter()
            .map(|&cpu| (cpu, scope.spawn(move || spin(cpu, duration, threshold_ns))))
            .collect();
        let join = |(cpu, thread): (u16, std::thread::ScopedJoinHandle<'_, _>)| {
            thread.join().unwrap_or(Err(Error::Thread(cpu)))
        };
        threads.into_iter().map(join).collect()
    })
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn spin(cpu: u16, duration: Duration, threshold_ns: u64) -> Result<Spun, Error> {
    let mut set = CpuSet::new();
    set.set(usize::from(cpu));
    sched_setaffinity(None, &set).map_err(|errno| Error::Processor(cpu, errno))?;
    let task = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    // Touched before, so that its pages are no noise of their own.
    let room = duration.as_nanos() / u128::from(threshold_ns.max(1));
    let mut gaps = vec![(1, 1); (room as usize).min(MOST_GAPS)];
    gaps.clear();
    let (mut no_room, mut step_ns) = (0, u64::MAX);
    let begin = now_ns();
    let end = begin + duration.as_nanos() as u64;
    let mut last = begin;
    while last < end {
        let now = now_ns();
        let step = now - last;
        if step > threshold_ns {
            if gaps.len() < gaps.capacity() {
                gaps.push((last, now));
            } else {
                no_room += 1;
            }
        } else if step > 0 {
            step_ns = step_ns.min(step);
        }
        last = now;
    }
    Ok(Spun {
        cpu,
        task,
        window: (begin, last),
        gaps,
        no_room,
        step_ns,
    })
}
