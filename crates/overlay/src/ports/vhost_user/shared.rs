//! What the two sides of a port share: the thread that speaks with the monitor, and the dispatchers.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use latlab_model::overlay::{Interrupts, Switches};
use rustix::event::{EventfdFlags, eventfd};

use super::doorbell::Doorbell;
use super::features::Features;
use crate::endpoints::{Counters, PortId};
use crate::rings::{DirtyLog, Fault, Queue, Slot};
use crate::watchdog::notify;

/// A ring at work, with all that a dispatcher needs beside it.
#[derive(Debug)]
pub struct Ring {
    /// Its number, as the monitor counts.
    pub index: usize,
    /// The ring.
    pub queue: Queue,
    /// What was negotiated.
    pub features: Features,
    /// Whether the guest's driver is there; what a disabled ring sends is discarded.
    pub enabled: bool,
    /// Interrupts the guest.
    pub call: Option<Arc<OwnedFd>>,
    /// Tells the monitor that the ring was stopped.
    pub error: Option<Arc<OwnedFd>>,
    /// Where written pages are noted while the guest migrates.
    pub log: Option<Arc<DirtyLog>>,
    /// Frames in a row for which the guest's buffers were too small.
    pub cramped: u16,
    /// Why it does not work any more.
    pub fault: Option<Fault>,
}

impl Ring {
    /// Whether frames can pass.
    pub fn works(&mut self, port: &Shared) -> bool {
        if self.fault.is_none() {
            let log_lost = self.log.as_ref().is_some_and(|log| log.lost());
            if log_lost || self.queue.memory().lost() {
                self.stop(port, Fault::Truncated);
            }
        }
        self.fault.is_none()
    }

    /// Stops it and tells the monitor.
    #[cold]
    pub fn stop(&mut self, port: &Shared, fault: Fault) {
        self.fault = Some(fault);
        port.note(format!("ring {}: {fault}", self.index));
        if let Some(error) = self.error.as_deref().filter(|_| !port.is_cut()) {
            // A monitor that does not listen learns it another way.
            if notify(error).is_err() {
                port.cut();
            }
        }
    }

    /// Interrupts the guest if it wants to know of what was published.
    pub fn tell(&mut self, port: &Shared) {
        if self.fault.is_none() && self.queue.wants_interrupt() {
            self.interrupt(port);
        }
    }

    /// Interrupts the guest.
    pub fn interrupt(&mut self, port: &Shared) {
        let Some(call) = self.call.as_deref().filter(|_| !port.is_cut()) else {
            return;
        };
        if notify(call).is_err() {
            port.cut();
            return self.stop(port, Fault::Blocked);
        }
        port.counters.interrupts.fetch_add(1, Relaxed);
    }
}

/// A pair of rings.
#[derive(Debug)]
pub struct Pair {
    /// The ring that the guest receives from.
    pub to_guest: Slot<Ring>,
    /// The ring that the guest sends through.
    pub from_guest: Slot<Ring>,
    /// Readable when the guest has sent.
    pub doorbell: Doorbell,
}

/// The port.
#[derive(Debug)]
pub struct Shared {
    /// Its number.
    pub id: PortId,
    counters: Arc<Counters>,
    /// Its rings, as many as it may have.
    pub pairs: Vec<Pair>,
    /// How many of them are enabled: frames are spread over those.
    pub enabled_pairs: AtomicU16,
    /// Whether somebody is connected.
    pub connected: AtomicBool,
    /// The monitor has made an eventfd block: none of it is written to any more, and it is hung up on.
    cut: AtomicBool,
    /// Readable from then on.
    pub cuts: OwnedFd,
    /// Largest packet, without the Ethernet header.
    pub mtu: u16,
    interrupts: AtomicU8,
    cut_through: AtomicBool,
    tx_coalesce: AtomicU64,
    kick_coalesce: AtomicU64,
    /// Addresses to announce: guests that came here from another host and cannot do it themselves.
    announce: Mutex<Vec<[u8; 6]>>,
    announcing: AtomicBool,
}

impl Shared {
    /// A port that nobody is connected to.
    ///
    /// # Errors
    ///
    /// No more file descriptors.
    pub fn new(
        id: PortId,
        counters: Arc<Counters>,
        pairs: Vec<Pair>,
        mtu: u16,
    ) -> io::Result<Shared> {
        let shared = Shared {
            cut: AtomicBool::new(false),
            cuts: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            id,
            counters,
            pairs,
            enabled_pairs: AtomicU16::new(0),
            connected: AtomicBool::new(false),
            mtu,
            interrupts: AtomicU8::default(),
            cut_through: AtomicBool::default(),
            tx_coalesce: AtomicU64::default(),
            kick_coalesce: AtomicU64::default(),
            announce: Mutex::default(),
            announcing: AtomicBool::new(false),
        };
        shared.set(Switches::default());
        Ok(shared)
    }

    /// Has the connection ended.
    #[cold]
    pub fn cut(&self) {
        self.cut.store(true, Relaxed);
        // It is readable already if this would block.
        let _ = rustix::io::write(&self.cuts, &1_u64.to_ne_bytes());
    }

    /// Whether the connection is to end.
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.cut.load(Relaxed)
    }

    /// Another monitor may be better.
    pub fn forgive(&self) {
        let _ = rustix::io::read(&self.cuts, &mut [0; 8]);
        self.cut.store(false, Relaxed);
    }

    /// Its counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Changes how the rings are served, from the next batch on.
    pub fn set(&self, switches: Switches) {
        let code = match switches.interrupts {
            Interrupts::Batch => 0,
            Interrupts::Early => 1,
            Interrupts::BeforeData => 2,
        };
        self.interrupts.store(code, Relaxed);
        self.cut_through.store(switches.cut_through, Relaxed);
        self.tx_coalesce.store(switches.tx_coalesce.0, Relaxed);
        self.kick_coalesce.store(switches.kick_coalesce.0, Relaxed);
    }

    /// When the guest is interrupted.
    pub fn interrupts(&self) -> Interrupts {
        match self.interrupts.load(Relaxed) {
            0 => Interrupts::Batch,
            1 => Interrupts::Early,
            _ => Interrupts::BeforeData,
        }
    }

    /// Whether frames go from ring to ring with one copy.
    pub fn cut_through(&self) -> bool {
        self.cut_through.load(Relaxed)
    }

    /// For how many nanoseconds the guest may not be told that a large segment has left.
    pub fn tx_coalesce(&self) -> u64 {
        self.tx_coalesce.load(Relaxed)
    }

    /// For how many nanoseconds frames may be gathered without a kick.
    pub fn kick_coalesce(&self) -> u64 {
        self.kick_coalesce.load(Relaxed)
    }

    /// Has an address announced by the first pair's receiver.
    pub fn announce(&self, address: [u8; 6]) {
        let mut waiting = self.announce.lock().unwrap_or_else(PoisonError::into_inner);
        // A monitor asks once for each device; one that asks for ever is not obeyed.
        if waiting.len() < 16 {
            waiting.push(address);
        }
        drop(waiting);
        self.announcing.store(true, Relaxed);
        if let Some(first) = self.pairs.first() {
            first.doorbell.ring();
        }
    }

    /// Addresses to announce now.
    pub fn announcements(&self) -> Vec<[u8; 6]> {
        if !self.announcing.load(Relaxed) {
            return Vec::new();
        }
        self.announcing.store(false, Relaxed);
        let mut waiting = self.announce.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *waiting)
    }

    /// Notes why something was ended.
    pub fn note(&self, trouble: String) {
        self.counters.note(trouble);
    }

    /// Why the last ring or connection was ended.
    pub fn trouble(&self) -> Option<String> {
        self.counters.trouble()
    }
}
