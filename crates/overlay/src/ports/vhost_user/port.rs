//! The port's handle.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use latlab_model::overlay::Switches;
use rustix::event::{EventfdFlags, eventfd};

use super::connection::{self, Rendezvous};
use super::receiver::Receiver;
use super::sender::Sender;
use super::shared::Shared;
use crate::endpoints::{Counters, PortId};
use crate::sync::lock;

#[derive(Debug, Clone)]
pub struct VhostUserConfig {
    pub id: PortId,
    pub socket: PathBuf,
    /// Whether the daemon connects to the VMM instead of listening.
    pub client: bool,
    pub queues: u16,
    /// Without the Ethernet header.
    pub mtu: u16,
    pub switches: Switches,
}

/// A port. Dropping it hangs up; halves that dispatchers still hold have no peer then.
#[derive(Debug)]
pub struct VhostUser {
    shared: Arc<Shared>,
    config: VhostUserConfig,
    end: Arc<OwnedFd>,
    /// The connection, shut down on drop.
    current: Arc<Mutex<Option<UnixStream>>>,
    thread: Option<JoinHandle<()>>,
}

impl VhostUser {
    /// Opens a port; guests may connect and disconnect from now on. Errors: a socket that cannot be listened at; too
    /// many file descriptors or threads.
    pub fn open(config: VhostUserConfig, counters: Arc<Counters>) -> io::Result<VhostUser> {
        let pairs = usize::from(config.queues.max(1));
        let shared = Shared::new(config.id, counters, pairs, config.mtu)?;
        let shared = Arc::new(shared);
        shared.set(config.switches);
        let rendezvous = if config.client {
            Rendezvous::Connect(config.socket.clone())
        } else {
            Rendezvous::listen(&config.socket)?
        };
        let end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let current = Arc::new(Mutex::new(None));
        let thread = std::thread::Builder::new()
            .name(format!("port {}", config.id.0))
            .spawn({
                let (shared, end, current) =
                    (Arc::clone(&shared), Arc::clone(&end), Arc::clone(&current));
                move || connection::serve(&shared, &rendezvous, &end, &current)
            })?;
        Ok(VhostUser {
            shared,
            config,
            end,
            current,
            thread: Some(thread),
        })
    }

    /// The receiving half of a pair of rings.
    ///
    /// # Panics
    ///
    /// If the port has no such pair.
    #[must_use]
    pub fn receiver(&self, pair: usize) -> Receiver {
        assert!(pair < self.shared.pairs.len(), "a pair that was not set up");
        Receiver::new(Arc::clone(&self.shared), pair)
    }

    #[must_use]
    pub fn sender(&self) -> Sender {
        Sender::new(Arc::clone(&self.shared))
    }

    pub fn set(&self, switches: Switches) {
        self.shared.set(switches);
    }

    #[must_use]
    pub fn connected(&self) -> bool {
        self.shared.connected.load(Relaxed)
    }

    /// Why the last ring or connection was ended, if that was the peer's error.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.shared.counters.trouble()
    }
}

impl Drop for VhostUser {
    fn drop(&mut self) {
        // The eventfd is readable from now on; a write cannot fail.
        let _ = rustix::io::write(&self.end, &1u64.to_ne_bytes());
        if let Some(stream) = lock(&self.current).as_ref() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if !self.config.client {
            let _ = std::fs::remove_file(&self.config.socket);
        }
    }
}
