//! The watchdog's thread.

use std::sync::{Mutex, Once};
use std::time::Duration;

use crate::sync::lock;

/// Time between two checks of a write to an eventfd. A write that blocks is seen twice before it is ended, so it holds
/// its thread for 50 ms at most: half of what a port may cost its neighbours.
const TICK: Duration = Duration::from_millis(25);
/// Ticks of writers to each check of dispatchers.
const TICKS_OF_DISPATCHERS: u32 = 4;

/// Looks after one thread; false when that thread is gone.
type Check = Box<dyn FnMut() -> bool + Send>;

static DISPATCHERS: Mutex<Vec<Check>> = Mutex::new(Vec::new());
static WRITERS: Mutex<Vec<Check>> = Mutex::new(Vec::new());
static START: Once = Once::new();

pub(super) fn watch_dispatcher(check: impl FnMut() -> bool + Send + 'static) {
    lock(&DISPATCHERS).push(Box::new(check));
    start();
}

pub(super) fn watch_writer(check: impl FnMut() -> bool + Send + 'static) {
    lock(&WRITERS).push(Box::new(check));
    start();
}

fn start() {
    START.call_once(|| {
        let thread = std::thread::Builder::new().name("watchdog".into());
        let started = thread.spawn(|| {
            for tick in (0..TICKS_OF_DISPATCHERS).cycle() {
                std::thread::sleep(TICK);
                lock(&WRITERS).retain_mut(|check| check());
                if tick == 0 {
                    lock(&DISPATCHERS).retain_mut(|check| check());
                }
            }
        });
        if let Err(error) = started {
            eprintln!("warning: no watchdog: {error}");
        }
    });
}
