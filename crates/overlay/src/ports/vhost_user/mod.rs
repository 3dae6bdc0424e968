//! A port for a virtual machine: vhost-user-net, the device's side.
//!
//! The monitor (QEMU, cloud-hypervisor, DPDK's virtio-user) shares the guest's memory and says where
//! the rings are; dispatchers then work on the rings and never speak with the monitor. The protocol's
//! messages are the `vhost` crate's; its framework for back ends is not used, because that can only
//! be woken by kicks, does not log written pages while rings run, and keeps what disabled rings send.
//!
//! - `connection`: the thread that waits for the monitor; `device`: what the monitor says, put into effect
//! - `receiver`, `sender`: what dispatchers use
//! - `shared`: what lies between the two; `doorbell`: how a sleeping dispatcher is woken
//! - [`fuzz`]: two ports without a monitor

mod announcement;
mod bounce;
mod connection;
mod descriptors;
mod device;
mod doorbell;
mod features;
pub mod fuzz;
mod messages;
mod receiver;
mod sender;
mod shared;
mod sys;
mod vring;

pub use receiver::Receiver;
pub use sender::Sender;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use latlab_model::overlay::Switches;
use rustix::event::{EventfdFlags, eventfd};

use crate::endpoints::{Counters, PortId};
use connection::Meeting;
use doorbell::Doorbell;
use shared::{Pair, Shared};

/// What a port is made from.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its number.
    pub id: PortId,
    /// The socket where the monitor is met.
    pub socket: PathBuf,
    /// Whether the daemon calls the monitor instead of being called.
    pub client: bool,
    /// Pairs of rings at most.
    pub queues: u16,
    /// Largest packet, without the Ethernet header.
    pub mtu: u16,
    /// How its rings are served at first.
    pub switches: Switches,
}

/// A port. Dropping it hangs up; halves that dispatchers still hold find nobody there.
#[derive(Debug)]
pub struct VhostUser {
    shared: Arc<Shared>,
    settings: Settings,
    end: Arc<OwnedFd>,
    /// The connection, to be cut when the port goes.
    current: Arc<Mutex<Option<UnixStream>>>,
    thread: Option<JoinHandle<()>>,
}

impl VhostUser {
    /// Opens a port; guests may come and go from now on.
    ///
    /// # Errors
    ///
    /// A socket that cannot be listened at, and too many file descriptors or threads.
    pub fn open(settings: Settings, counters: Arc<Counters>) -> io::Result<VhostUser> {
        let pair = |_| {
            Ok(Pair {
                to_guest: Default::default(),
                from_guest: Default::default(),
                doorbell: Doorbell::new()?,
            })
        };
        let pairs: io::Result<Vec<Pair>> = (0..settings.queues.max(1)).map(pair).collect();
        let shared = Shared::new(settings.id, counters, pairs?, settings.mtu)?;
        let shared = Arc::new(shared);
        shared.set(settings.switches);
        let meeting = match settings.client {
            true => Meeting::Call(settings.socket.clone()),
            false => Meeting::listen(&settings.socket)?,
        };
        let end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let current = Arc::new(Mutex::new(None));
        let thread = std::thread::Builder::new()
            .name(format!("port {}", settings.id.0))
            .spawn({
                let (shared, end, current) =
                    (Arc::clone(&shared), Arc::clone(&end), Arc::clone(&current));
                move || connection::serve(&shared, &meeting, &end, &current)
            })?;
        Ok(VhostUser {
            shared,
            settings,
            end,
            current,
            thread: Some(thread),
        })
    }

    /// The receiving half of a pair of rings; one dispatcher has it.
    ///
    /// # Panics
    ///
    /// When the port has no such pair.
    #[must_use]
    pub fn receiver(&self, pair: usize) -> Receiver {
        assert!(pair < self.shared.pairs.len(), "a pair that was not set up");
        Receiver::new(Arc::clone(&self.shared), pair)
    }

    /// A sending half.
    #[must_use]
    pub fn sender(&self) -> Sender {
        Sender::new(Arc::clone(&self.shared))
    }

    /// Changes how its rings are served, from the next batch on.
    pub fn set(&self, switches: Switches) {
        self.shared.set(switches);
    }

    /// Whether a monitor is connected.
    #[must_use]
    pub fn connected(&self) -> bool {
        self.shared.connected.load(Relaxed)
    }

    /// Why the last ring or connection was ended, when that was somebody's mistake.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble()
    }
}

impl Drop for VhostUser {
    fn drop(&mut self) {
        // It is readable from now on; a write cannot fail.
        let _ = rustix::io::write(&self.end, &1u64.to_ne_bytes());
        if let Some(stream) = connection::lock(&self.current).as_ref() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if !self.settings.client {
            let _ = std::fs::remove_file(&self.settings.socket);
        }
    }
}
