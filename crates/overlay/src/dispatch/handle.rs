//! The handle of a dispatcher thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use latlab_model::overlay::Mode;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::input::{Input, InputKey};
use super::pass::Pass;
use super::request::{CONTROL, Request, Requests};
use super::snapshot::{DispatchPolicy, Snapshot};
use super::worker::Worker;
use crate::forwarding::{Learned, Matrix};
use crate::watchdog::Beat;

#[derive(Debug)]
pub struct Dispatcher {
    requests: Sender<Request>,
    is_pending: Arc<AtomicBool>,
    wakeup: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// The dispatcher's thread has panicked.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("a dispatcher has died")]
pub struct Died;

impl Dispatcher {
    /// Starts a dispatcher, pinned to a CPU if one is given. Errors: no descriptors or threads left; a CPU that does
    /// not exist.
    pub fn start(
        number: u16,
        cpu: Option<u32>,
        policy: DispatchPolicy,
        snapshot: Arc<Snapshot>,
        learned: Arc<Learned>,
    ) -> io::Result<Dispatcher> {
        let (sender, queue) = channel();
        let is_pending = Arc::new(AtomicBool::new(false));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // Edge-triggered, so it is never read.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &wakeup, epoll::EventData::new_u64(CONTROL), flags)?;
        let (report, started) = channel();
        let requests = Requests {
            queue,
            is_pending: Arc::clone(&is_pending),
        };
        let thread = std::thread::Builder::new()
            .name(format!("dispatch-{number}"))
            .spawn(move || {
                let pinned = cpu.map_or(Ok(()), |cpu| {
                    let mut cpus = CpuSet::new();
                    cpus.set(cpu as usize);
                    sched_setaffinity(None, &cpus)
                });
                let failed = pinned.is_err();
                let _ = report.send(pinned);
                if failed {
                    return;
                }
                // Dispatchers share learned addresses, and so their clock.
                let start = learned.start();
                let pass = Pass::new(snapshot, learned, seed(number));
                let beat = Beat::start(format!("dispatcher {number}"));
                Worker::new(pass, requests, epoll, start, policy, beat).run();
            })?;
        started.recv().map_err(io::Error::other)??;
        Ok(Dispatcher {
            requests: sender,
            is_pending,
            wakeup,
            thread: Some(thread),
        })
    }

    /// Installs a snapshot, from the next batch on.
    pub fn install(&self, snapshot: Arc<Snapshot>) {
        self.send(Request::Install(snapshot));
    }

    pub fn attach(&self, input: Input) {
        self.send(Request::Attach(Box::new(input)));
    }

    /// Takes an input back, if the dispatcher has it. Errors: the dispatcher has died, here as below.
    pub fn detach(&self, key: InputKey) -> Result<Option<Input>, Died> {
        self.ask(|taken| Request::Detach(key, taken))
    }

    pub fn set_mode(&self, key: InputKey, mode: Mode) {
        self.send(Request::SetMode(key, mode));
    }

    pub fn set_policy(&self, policy: DispatchPolicy) {
        self.send(Request::SetPolicy(policy));
    }

    pub fn matrix(&self) -> Result<Matrix, Died> {
        self.ask(Request::Matrix)
    }

    pub fn hits_and_misses(&self) -> Result<(u64, u64), Died> {
        self.ask(Request::Hits)
    }

    /// Returns when all earlier requests have been served.
    pub fn sync(&self) -> Result<(), Died> {
        self.ask(Request::Sync)
    }

    fn ask<T>(&self, request: impl FnOnce(Sender<T>) -> Request) -> Result<T, Died> {
        let (answer, answered) = channel();
        self.send(request(answer));
        answered.recv().map_err(|_| Died)
    }

    fn send(&self, request: Request) {
        // `ask` notices a dead dispatcher.
        let _ = self.requests.send(request);
        self.is_pending.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.send(Request::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A secret seed, from the hasher that the standard library seeds.
fn seed(number: u16) -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(number)
}
