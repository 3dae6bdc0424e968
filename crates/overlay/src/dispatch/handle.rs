//! The handle of a dispatcher: what control asks for happens between two batches.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use latlab_model::overlay::Mode;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::pass::Pass;
use super::worker::{CONTROL, Worker};
use super::{Input, InputKey, Manner, Snapshot};
use crate::forwarding::{Learned, Matrix};
use crate::watchdog::Beat;

/// What control asks of a dispatcher.
pub(super) enum Order {
    Install(Arc<Snapshot>),
    Attach(Box<Input>),
    Detach(InputKey, Sender<Option<Input>>),
    SetMode(InputKey, Mode),
    SetManner(Manner),
    Matrix(Sender<Matrix>),
    Hits(Sender<(u64, u64)>),
    Sync(Sender<()>),
    Stop,
}

/// A dispatcher thread. Dropping the handle stops it.
#[derive(Debug)]
pub struct Dispatcher {
    orders: Sender<Order>,
    has_orders: Arc<AtomicBool>,
    wakeup: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// The dispatcher's thread has ended, which it does only by dying.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("a dispatcher has died")]
pub struct Gone;

impl Dispatcher {
    /// Starts a dispatcher, on this processor if one is given.
    ///
    /// # Errors
    ///
    /// What the kernel refused: descriptors, a thread, the processor.
    pub fn start(
        number: u16,
        cpu: Option<u32>,
        manner: Manner,
        snapshot: Arc<Snapshot>,
        learned: Arc<Learned>,
    ) -> io::Result<Dispatcher> {
        let (orders, received) = channel();
        let has_orders = Arc::new(AtomicBool::new(false));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // Edge-triggered: nobody has to read it.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &wakeup, epoll::EventData::new_u64(CONTROL), flags)?;
        let (placed, on_processor) = channel();
        let flag = Arc::clone(&has_orders);
        let thread = std::thread::Builder::new()
            .name(format!("dispatch-{number}"))
            .spawn(move || {
                let at_work = cpu.map_or(Ok(()), |cpu| {
                    let mut cpus = CpuSet::new();
                    cpus.set(cpu as usize);
                    sched_setaffinity(None, &cpus)
                });
                let failed = at_work.is_err();
                let _ = placed.send(at_work);
                if failed {
                    return;
                }
                let seed = seed(number);
                // All dispatchers tell the same time: they share what they learn.
                let start = learned.start();
                let pass = Pass::new(snapshot, learned, seed);
                let beat = Beat::start(format!("dispatcher {number}"));
                Worker::new(pass, (received, flag), epoll, start, manner, beat).run();
            })?;
        on_processor.recv().map_err(io::Error::other)??;
        Ok(Dispatcher {
            orders,
            has_orders,
            wakeup,
            thread: Some(thread),
        })
    }

    /// Works by this snapshot from the next batch on.
    pub fn install(&self, snapshot: Arc<Snapshot>) {
        self.order(Order::Install(snapshot));
    }

    /// Takes over an input.
    pub fn attach(&self, input: Input) {
        self.order(Order::Attach(Box::new(input)));
    }

    /// Takes an input back; none if it never had it.
    ///
    /// # Errors
    ///
    /// The thread is gone.
    pub fn detach(&self, key: InputKey) -> Result<Option<Input>, Gone> {
        self.ask(|taken| Order::Detach(key, taken))
    }

    /// Changes when an input is looked at.
    pub fn set_mode(&self, key: InputKey, mode: Mode) {
        self.order(Order::SetMode(key, mode));
    }

    /// Changes how it works.
    pub fn set_manner(&self, manner: Manner) {
        self.order(Order::SetManner(manner));
    }

    /// Who sent how much to whom.
    ///
    /// # Errors
    ///
    /// The thread is gone.
    pub fn matrix(&self) -> Result<Matrix, Gone> {
        self.ask(Order::Matrix)
    }

    /// Frames decided by the cache and not by it.
    ///
    /// # Errors
    ///
    /// The thread is gone.
    pub fn hits_and_misses(&self) -> Result<(u64, u64), Gone> {
        self.ask(Order::Hits)
    }

    /// Returns when everything asked for before has been done.
    ///
    /// # Errors
    ///
    /// The thread is gone.
    pub fn sync(&self) -> Result<(), Gone> {
        self.ask(Order::Sync)
    }

    fn ask<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Result<T, Gone> {
        let (answer, answered): (Sender<T>, Receiver<T>) = channel();
        self.order(order(answer));
        answered.recv().map_err(|_| Gone)
    }

    fn order(&self, order: Order) {
        // A dead dispatcher is noticed by whoever waits for its answer.
        let _ = self.orders.send(order);
        self.has_orders.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A number that nobody outside knows, from the hasher that the standard library seeds.
fn seed(number: u16) -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(number)
}
