//! The watchdog.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::time::Duration;

use super::beat::Beat;
use super::interrupt::Writer;
use super::judge::{Judge, Tick, Verdict};
use super::process;

/// How often a write to an eventfd is checked. One that blocks is seen twice before it is ended, so it holds its thread
/// for 50 ms at most: half of what a port may cost its neighbours.
const TICK: Duration = Duration::from_millis(25);
/// How many of those ticks make one of a dispatcher's.
const TICKS_OF_JUDGE: u32 = 4;

/// A dispatcher that is watched.
struct Watched {
    beat: Weak<Beat>,
    judge: Judge,
    is_told: bool,
}

static BEATS: Mutex<Vec<Watched>> = Mutex::new(Vec::new());
/// Threads that interrupt guests, each with the write that it was at.
static WRITERS: Mutex<Vec<(Weak<Writer>, Option<u64>)>> = Mutex::new(Vec::new());
static START: Once = Once::new();

pub(super) fn watch(beat: &Arc<Beat>) {
    lock(&BEATS).push(Watched {
        beat: Arc::downgrade(beat),
        judge: Judge::default(),
        is_told: false,
    });
    start();
}

pub(super) fn watch_writer(writer: &Arc<Writer>) {
    lock(&WRITERS).push((Arc::downgrade(writer), None));
    start();
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start() {
    START.call_once(|| {
        let thread = std::thread::Builder::new().name("watchdog".into());
        let started = thread.spawn(|| {
            for tick in (0..TICKS_OF_JUDGE).cycle() {
                std::thread::sleep(TICK);
                lock(&WRITERS).retain_mut(end_waits);
                if tick == 0 {
                    lock(&BEATS).retain_mut(judge);
                }
            }
        });
        if let Err(error) = started {
            eprintln!("warning: no watchdog: {error}");
        }
    });
}

/// Ends a write that is the same as at the last tick; false when its thread is gone.
fn end_waits((writer, before): &mut (Weak<Writer>, Option<u64>)) -> bool {
    let Some(writer) = writer.upgrade() else {
        return false;
    };
    let now = writer.writes();
    if let Some(number) = now.filter(|_| now == *before) {
        writer.end(number);
    }
    *before = now;
    true
}

/// Judges a dispatcher; false when it is gone.
fn judge(watched: &mut Watched) -> bool {
    let Some(beat) = watched.beat.upgrade() else {
        return false;
    };
    let (word, asleep) = beat.heard();
    let mut tick = Tick {
        word,
        asleep,
        cpu: 0,
        waits: false,
    };
    if watched.judge.suspects(word, asleep) {
        let Some(cpu) = beat.clock.read() else {
            return false;
        };
        (tick.cpu, tick.waits) = (cpu, beat.clock.waits());
    }
    let verdict = watched.judge.hear(tick);
    let what = match verdict {
        Verdict::Fine => return true,
        Verdict::Slow => "takes long",
        Verdict::Loops => "does not come to an end",
        Verdict::Waits => "waits for ever",
    };
    let (port, counters) = beat.port(word);
    let text = format!("{} {what} {port}", beat.name);
    if verdict == Verdict::Slow {
        eprintln!("warning: {text}");
        if let Some(counters) = counters {
            counters.slow_rounds.fetch_add(1, Relaxed);
            counters.tell(format!("its dispatcher {what} here"));
        }
    } else if !std::mem::replace(&mut watched.is_told, true) {
        process::end(&text);
    }
    true
}
