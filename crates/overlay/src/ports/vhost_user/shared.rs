//! State that the VMM's thread and the dispatchers share.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use latlab_model::overlay::{Interrupts, Switches};
use rustix::event::{EventfdFlags, eventfd};

use super::doorbell::Doorbell;
use super::features::Features;
use crate::endpoints::{Counters, PortId};
use crate::rings::{DirtyLog, Fault, Queue, Slot};
use crate::sync::lock;
use crate::watchdog::notify;

#[derive(Debug)]
pub struct Ring {
    /// The VMM's number.
    pub index: usize,
    pub queue: Queue,
    pub features: Features,
    /// Whether the driver is ready; frames of a disabled ring are discarded.
    pub enabled: bool,
    /// Eventfd that interrupts the guest.
    pub call: Option<Arc<OwnedFd>>,
    /// Eventfd that reports a fault to the VMM.
    pub error: Option<Arc<OwnedFd>>,
    /// Log of written pages while the guest migrates.
    pub log: Option<Arc<DirtyLog>>,
    pub cramped: u16,
    pub fault: Option<Fault>,
}

impl Ring {
    /// Whether the ring runs; stops it if memory was truncated.
    pub fn works(&mut self, port: &Shared) -> bool {
        if self.fault.is_none() {
            let log_lost = self.log.as_ref().is_some_and(|log| log.lost());
            if log_lost || self.queue.memory().lost() {
                self.stop(port, Fault::Truncated);
            }
        }
        self.fault.is_none()
    }

    #[cold]
    pub fn stop(&mut self, port: &Shared, fault: Fault) {
        self.fault = Some(fault);
        port.counters.note(format!("ring {}: {fault}", self.index));
        if let Some(error) = self.error.as_deref().filter(|_| !port.is_cut()) {
            if notify(error).is_err() {
                port.cut();
            }
        }
    }

    /// Interrupts the guest, unless it suppresses that.
    pub fn notify(&mut self, port: &Shared) {
        if self.fault.is_none() && self.queue.wants_interrupt() {
            self.interrupt(port);
        }
    }

    pub fn interrupt(&mut self, port: &Shared) {
        let call = self.call.as_deref();
        if call.is_some_and(|call| !port.interrupt(call)) {
            self.stop(port, Fault::Blocked);
        }
    }
}

#[derive(Debug)]
pub struct Pair {
    pub to_guest: Slot<Ring>,
    pub from_guest: Slot<Ring>,
    /// Readable after a kick.
    pub doorbell: Doorbell,
}

#[derive(Debug)]
pub struct Shared {
    pub id: PortId,
    pub counters: Arc<Counters>,
    pub pairs: Vec<Pair>,
    /// Number of enabled pairs, over which flows are spread.
    pub enabled_pairs: AtomicU16,
    pub connected: AtomicBool,
    /// The VMM has made an eventfd block: none of its eventfds is written any more, and its connection is ended.
    cut: AtomicBool,
    /// Readable once `cut` is set.
    pub cuts: OwnedFd,
    /// Without the Ethernet header.
    pub mtu: u16,
    interrupts: AtomicU8,
    /// Whether frames pass from ring to ring with one copy.
    pub cut_through: AtomicBool,
    /// How long the completion interrupt of a large segment may be delayed, in ns.
    pub tx_coalesce: AtomicU64,
    /// How long kicks may be suppressed, in ns.
    pub kick_coalesce: AtomicU64,
    /// Addresses of migrated guests that cannot announce themselves.
    announce: Mutex<Vec<[u8; 6]>>,
    announcing: AtomicBool,
}

impl Shared {
    pub fn new(id: PortId, counters: Arc<Counters>, pairs: usize, mtu: u16) -> io::Result<Shared> {
        let pair = |_| {
            Ok(Pair {
                to_guest: Slot::default(),
                from_guest: Slot::default(),
                doorbell: Doorbell::new()?,
            })
        };
        let pairs = (0..pairs).map(pair).collect::<io::Result<Vec<_>>>()?;
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

    #[cold]
    pub fn cut(&self) {
        self.cut.store(true, Relaxed);
        // The eventfd is readable already if this would block.
        let _ = rustix::io::write(&self.cuts, &1_u64.to_ne_bytes());
    }

    #[inline]
    pub fn is_cut(&self) -> bool {
        self.cut.load(Relaxed)
    }

    /// Interrupts the guest; false if the eventfd would block.
    pub fn interrupt(&self, call: &OwnedFd) -> bool {
        if self.is_cut() {
            return true;
        }
        if notify(call).is_err() {
            self.cut();
            return false;
        }
        self.counters.interrupts.fetch_add(1, Relaxed);
        true
    }

    pub fn clear_cut(&self) {
        let _ = rustix::io::read(&self.cuts, &mut [0; 8]);
        self.cut.store(false, Relaxed);
    }

    /// Changes the switches, from the next batch on.
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

    pub fn interrupts(&self) -> Interrupts {
        match self.interrupts.load(Relaxed) {
            0 => Interrupts::Batch,
            1 => Interrupts::Early,
            _ => Interrupts::BeforeData,
        }
    }

    pub fn announce(&self, address: [u8; 6]) {
        let mut waiting = lock(&self.announce);
        // A VMM asks once per device; the limit bounds a hostile one.
        if waiting.len() < 16 {
            waiting.push(address);
        }
        drop(waiting);
        self.announcing.store(true, Relaxed);
        if let Some(first) = self.pairs.first() {
            first.doorbell.ring();
        }
    }

    pub fn announcements(&self) -> Vec<[u8; 6]> {
        if !self.announcing.load(Relaxed) {
            return Vec::new();
        }
        self.announcing.store(false, Relaxed);
        let mut waiting = lock(&self.announce);
        std::mem::take(&mut *waiting)
    }
}
