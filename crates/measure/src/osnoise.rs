//! Interruptions of a CPU-bound thread: one spinner thread a CPU that only reads its clock, and the flight
//! recorder beside it.
//!
//! The method of the kernel's osnoise tracer, but from user space: it works where that tracer is not built
//! in, and sees what a program sees. A step of the clock longer than the threshold is an interruption; the
//! report concludes its cause from the events.

use std::time::Duration;

use latlab_trace::recorder::{Recorded, Recorder, Settings};

use crate::affinity::{allowed_cpus, pin_thread};
use crate::clock::now_ns;

/// Interruptions kept for one CPU at most: 16 MiB of them.
const MAX_GAPS: usize = 1 << 20;
/// Events kept for one CPU at most, and those made room for in a second.
const MAX_EVENTS: u32 = 1 << 22;
const EVENTS_PER_SECOND: f64 = 100_000.0;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpinRecord {
    pub cpu: u16,
    pub task: u32,
    /// Begin and end in ns of the monotonic clock.
    pub window: (u64, u64),
    /// Begin and end of each interruption.
    pub gaps: Vec<(u64, u64)>,
    /// Further interruptions that were not kept.
    pub no_room: u64,
    /// The shortest step of the clock.
    pub step_ns: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot run on CPU {0}: {1}")]
    Cpu(u16, rustix::io::Errno),
    #[error("the thread on CPU {0} ended before its time")]
    Thread(u16),
}

#[must_use]
pub fn allowed() -> Vec<u16> {
    let all = allowed_cpus().into_iter();
    all.filter_map(|cpu| u16::try_from(cpu).ok()).collect()
}

/// Spins on `cpus` for a time. Without the recorder, whose error is returned in its place, the interruptions
/// are known and their causes are not.
pub fn run(
    cpus: &[u16],
    duration: Duration,
    threshold_ns: u64,
) -> Result<(Vec<SpinRecord>, Result<Recorded, latlab_trace::Error>), Error> {
    let events = duration.as_secs_f64() * EVENTS_PER_SECOND;
    let recorder = Recorder::load(&Settings {
        cpus: cpus.to_vec(),
        events_per_cpu: (events as u32).clamp(1 << 16, MAX_EVENTS),
        system_calls: false,
    });
    if let Ok(recorder) = &recorder {
        recorder.start();
    }
    let spun = spin_on(cpus, duration, threshold_ns);
    let spun = spun.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok((spun, recorder.map(Recorder::finish)))
}

/// Spins on `cpus` for a time, without a recorder.
pub(crate) fn spin_on(
    cpus: &[u16],
    duration: Duration,
    threshold_ns: u64,
) -> Vec<Result<SpinRecord, Error>> {
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

fn spin(cpu: u16, duration: Duration, threshold_ns: u64) -> Result<SpinRecord, Error> {
    pin_thread(cpu.into()).map_err(|errno| Error::Cpu(cpu, errno))?;
    let task = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    // Touched before, so that page faults are no noise.
    let room = duration.as_nanos() / u128::from(threshold_ns.max(1));
    let mut gaps = vec![(1, 1); (room as usize).min(MAX_GAPS)];
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
    Ok(SpinRecord {
        cpu,
        task,
        window: (begin, last),
        gaps,
        no_room,
        step_ns,
    })
}
