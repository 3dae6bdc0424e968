//! What the monitor says, put into effect: the device's side of the vhost-user protocol.
//!
//! A message that touches a ring at work stops the ring, changes it and starts it again where it was;
//! only then the monitor gets its acknowledgement (REPLY_ACK).

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};

use super::features::{Features, OFFERED};
use super::shared::{Ring, Shared};
use super::vring::{Addresses, Vring};
use crate::rings::{
    DirtyLog, Location, MOST_ENTRIES, MOST_REGIONS, Memory, Queue, Setup, Slot, UsedLog,
};

/// One connection's device.
pub struct Device {
    port: Arc<Shared>,
    features: Features,
    /// Protocol features that were acknowledged.
    protocol: u64,
    memory: Arc<Memory>,
    log: Option<Arc<DirtyLog>>,
    rings: Vec<Vring>,
    /// The virtio device status, for a monitor that asks for it.
    status: u8,
}

/// An error with the reason, which the connection's end is noted with.
fn refuse(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::ReqHandlerError(io::Error::other(reason))
}

const NOT_OFFERED: Error = Error::InvalidOperation("not offered");

impl Device {
    /// A device that nothing is known of yet.
    pub fn new(port: Arc<Shared>) -> Device {
        let rings = port
            .pairs
            .iter()
            .flat_map(|_| [Vring::default(), Vring::default()]);
        Device {
            rings: rings.collect(),
            port,
            features: Features::default(),
            protocol: 0,
            memory: Arc::default(),
            log: None,
            status: 0,
        }
    }

    /// Whether acknowledgements are wanted where a message asks for one.
    pub fn acknowledges(&self) -> bool {
        self.protocol & VhostUserProtocolFeatures::REPLY_ACK.bits() != 0
    }

    /// The virtio device status.
    pub fn status(&self) -> u8 {
        self.status
    }

    /// The monitor tells the status. None of it left means a reset of the driver's side: rings halt, and
    /// keep their positions, which QEMU before 8.1 asks for only afterwards.
    pub fn set_status(&mut self, status: u8) {
        self.status = status;
        if status == 0 {
            (0..self.rings.len()).for_each(|index| self.halt(index));
        }
    }

    /// Whether the guest's MTU is not above the port's.
    pub fn takes_mtu(&self, mtu: u64) -> bool {
        mtu <= self.port.mtu.into()
    }

    /// The guest came here from another host and cannot say so itself.
    pub fn announce(&self, address: [u8; 6]) {
        self.port.announce(address);
    }

    /// Resets the virtio device: its rings, features and status. What belongs to the connection stays:
    /// protocol features, memory, and the descriptors for interrupts, which QEMU sends only once.
    fn reset(&mut self) {
        for index in 0..self.rings.len() {
            self.halt(index);
            let before = std::mem::take(&mut self.rings[index]);
            self.rings[index].call = before.call;
            self.rings[index].error = before.error;
        }
        self.spread();
        self.features = Features::default();
        self.status = 0;
    }

    fn slot(&self, index: usize) -> &Slot<Ring> {
        // Even rings are those that the guest receives from (virtio 1.2, 5.1.2).
        let pair = &self.port.pairs[index / 2];
        match index % 2 {
            0 => &pair.to_guest,
            _ => &pair.from_guest,
        }
    }

    fn index(&self, index: u32) -> Result<usize> {
        let index = index as usize;
        (index < self.rings.len())
            .then_some(index)
            .ok_or(Error::InvalidParam)
    }

    /// Stops a ring until it is set up again, and keeps the position where it stood.
    fn halt(&mut self, index: usize) {
        self.rings[index].started = false;
        if let Some(mut ring) = self.slot(index).stop() {
            ring.tell(&self.port);
            self.rings[index].base = ring.queue.position().available;
        }
        self.silence(index);
    }

    fn silence(&mut self, index: usize) {
        if let Some(kick) = self.rings[index].kick.take() {
            self.port.pairs[index / 2].doorbell.remove(&kick);
        }
    }

    /// Stops a ring and starts it again with what is known now: where it stood, or, when it did not
    /// work before, where the guest's used ring says.
    fn refresh(&mut self, index: usize) -> Result<()> {
        let was = self.slot(index).stop();
        if let Some(was) = &was {
            self.rings[index].base = was.queue.position().available;
        }
        let ring = &self.rings[index];
        let (true, Some(size), Some(at)) = (ring.started, ring.size, ring.addresses) else {
            return Ok(());
        };
        let setup = Setup {
            size,
            descriptors: at.descriptors,
            available: at.available,
            used: at.used,
            event_index: self.features.event_index(),
            indirect: self.features.indirect(),
        };
        let position = was.as_ref().map(|ring| ring.queue.position());
        let mut queue = Queue::new(setup, Arc::clone(&self.memory), position).map_err(refuse)?;
        let log = self.log.clone().filter(|_| self.features.logs());
        let used_log = log.clone().zip(at.log);
        queue.set_log(used_log.map(|(log, guest)| UsedLog { log, guest }));
        // What it was to be told by the ring before, or by a daemon that was killed.
        let is_behind = match &was {
            Some(ring) if ring.call.is_some() => ring.queue.owes(),
            _ => queue.position().used != 0,
        };
        let mut ring = Box::new(Ring {
            index,
            queue,
            features: self.features,
            enabled: ring.enabled,
            call: ring.call.clone(),
            error: ring.error.clone(),
            log,
            cramped: was.as_ref().map_or(0, |ring| ring.cramped),
            fault: was.and_then(|ring| ring.fault),
        });
        if is_behind {
            ring.interrupt(&self.port);
        }
        self.slot(index).start(ring);
        // Frames may wait already, and a dispatcher that sleeps was told that there is no ring.
        self.port.pairs[index / 2].doorbell.ring();
        Ok(())
    }

    fn refresh_all(&mut self) -> Result<()> {
        (0..self.rings.len()).try_for_each(|index| self.refresh(index))
    }

    /// Counts the pairs over which frames are spread.
    fn spread(&self) {
        let enabled = self.rings.chunks(2).take_while(|pair| pair[0].enabled);
        let pairs = u16::try_from(enabled.count()).unwrap_or(u16::MAX);
        self.port.enabled_pairs.store(pairs, Relaxed);
    }

    /// Takes another memory: every ring is stopped while what it points to changes.
    fn remember(&mut self, memory: Memory) -> Result<()> {
        self.memory = Arc::new(memory);
        for index in 0..self.rings.len() {
            if let Err(error) = self.refresh(index) {
                // Its addresses will be told anew; until then it rests.
                self.port.note(format!("ring {index}: {error}"));
            }
        }
        Ok(())
    }
}

fn location(region: &VhostUserMemoryRegion) -> Location {
    Location {
        guest: region.guest_phys_addr,
        user: region.user_addr,
        len: region.memory_size,
    }
}

/// An event descriptor of the monitor: an eventfd, because a write to something else could do anything. That it
/// does not block is the monitor's to change at any time (see `crate::watchdog`).
fn event(file: File) -> Result<Arc<OwnedFd>> {
    let fd = OwnedFd::from(file);
    let name = super::descriptors::name(&fd).map_err(Error::ReqHandlerError)?;
    if name != "anon_inode:[eventfd]" {
        return Err(refuse(format!("the monitor passed {name} as an eventfd")));
    }
    rustix::io::ioctl_fionbio(&fd, true).map_err(|e| Error::ReqHandlerError(e.into()))?;
    Ok(Arc::new(fd))
}

impl VhostUserBackendReqHandlerMut for Device {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    /// Deprecated: the protocol has back ends disable rings, and nothing more.
    fn reset_owner(&mut self) -> Result<()> {
        self.reset();
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        self.reset();
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(OFFERED)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        self.features = Features::new(features).ok_or(Error::FeatureMismatch)?;
        if !self.features.enables_rings() {
            self.rings.iter_mut().for_each(|ring| ring.enabled = true);
        }
        self.spread();
        self.refresh_all()
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<u64>>> {
        let mut memory = Memory::default();
        for (region, file) in regions.iter().zip(&files) {
            let mapped = memory.with(location(region), file, region.mmap_offset);
            memory = mapped.map_err(refuse)?;
        }
        self.remember(memory).map(|()| None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let index = self.index(index)?;
        let size = u16::try_from(num).ok();
        let size = size.filter(|s| s.is_power_of_two() && u32::from(*s) <= MOST_ENTRIES);
        // A ring at work keeps the size that its memory was checked for.
        if self.rings[index].started {
            return Err(refuse(format!("a new size for ring {index} at work")));
        }
        self.rings[index].size = Some(size.ok_or_else(|| refuse(format!("a ring of {num}")))?);
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        log: u64,
    ) -> Result<()> {
        let index = self.index(index)?;
        let logs = flags.contains(VhostUserVringAddrFlags::VHOST_VRING_F_LOG);
        self.rings[index].addresses = Some(Addresses {
            descriptors,
            available,
            used,
            log: logs.then_some(log),
        });
        self.refresh(index)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        // A ring that starts goes on where the used index in the guest's memory says, since entries are
        // used in order; so it does after a device that was killed and could not be asked.
        let index = self.index(index)?;
        self.rings[index].base = base as u16;
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let at = self.index(index)?;
        self.halt(at);
        self.spread();
        let base = self.rings[at].base;
        Ok(VhostUserVringState::new(index, base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let index = self.index(index.into())?;
        let kick = fd.map(event).transpose()?;
        self.silence(index);
        // What the guest receives from needs no kicks: there is nothing to do for new buffers.
        if let Some(kick) = kick.filter(|_| index % 2 == 1) {
            let bell = &self.port.pairs[index / 2].doorbell;
            bell.add(&kick).map_err(Error::ReqHandlerError)?;
            self.rings[index].kick = Some(kick);
        }
        self.rings[index].started = true;
        self.refresh(index)
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let index = self.index(index.into())?;
        self.rings[index].call = fd.map(event).transpose()?;
        self.refresh(index)
    }

    fn set_vring_err(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let index = self.index(index.into())?;
        self.rings[index].error = fd.map(event).transpose()?;
        self.refresh(index)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::LOG_SHMFD
            | VhostUserProtocolFeatures::RARP
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::MTU
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
            | VhostUserProtocolFeatures::STATUS)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        self.protocol = features;
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.port.pairs.len() as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        let index = self.index(index)?;
        self.rings[index].enabled = enable;
        self.spread();
        self.refresh(index)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(MOST_REGIONS as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<u64>> {
        let memory = self
            .memory
            .with(location(region), &file, region.mmap_offset);
        self.remember(memory.map_err(refuse)?).map(|()| None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let memory = self.memory.without(location(region));
        self.remember(memory.map_err(refuse)?)
    }

    fn set_log_base(&mut self, log: &VhostUserLog, file: File) -> Result<()> {
        let log = DirtyLog::new(&file, log.mmap_offset, log.mmap_size);
        self.log = Some(Arc::new(log.map_err(Error::ReqHandlerError)?));
        self.refresh_all()
    }

    fn get_config(&mut self, _: u32, _: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        Err(NOT_OFFERED)
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        Err(NOT_OFFERED)
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        Err(NOT_OFFERED)
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        Err(NOT_OFFERED)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(NOT_OFFERED)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        (0..self.rings.len()).for_each(|index| self.halt(index));
        self.rings.clear();
        self.spread();
    }
}
