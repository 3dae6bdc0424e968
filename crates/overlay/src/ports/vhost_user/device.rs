//! The device's side of the vhost-user protocol: the VMM's messages, put into effect.
//!
//! A message about a running ring stops the ring, changes it and restarts it at its position. The acknowledgement
//! (REPLY_ACK) comes last.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
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
use crate::rings::{
    DirtyLog, Location, MAX_ENTRIES, MAX_REGIONS, Memory, Queue, Setup, Slot, UsedLog,
};

/// Addresses of a ring, in the VMM's address space.
#[derive(Debug, Clone, Copy)]
struct Addresses {
    descriptors: u64,
    available: u64,
    used: u64,
    /// Guest-physical address of the used ring, if writes to it are logged.
    log: Option<u64>,
}

/// Setup of a ring. It runs once size, addresses and kick are set; a kick without a descriptor means polling.
#[derive(Debug, Default)]
struct Vring {
    size: Option<u16>,
    addresses: Option<Addresses>,
    /// Next available entry while stopped, from the VMM or from the last halt.
    base: u16,
    /// Whether a kick was set, which starts the ring.
    started: bool,
    kick: Option<Arc<OwnedFd>>,
    call: Option<Arc<OwnedFd>>,
    error: Option<Arc<OwnedFd>>,
    enabled: bool,
}

pub struct Device {
    port: Arc<Shared>,
    features: Features,
    protocol: u64,
    memory: Arc<Memory>,
    log: Option<Arc<DirtyLog>>,
    rings: Vec<Vring>,
    status: u8,
}

/// An error that ends the connection with this reason.
fn refuse(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::ReqHandlerError(io::Error::other(reason))
}

const NOT_OFFERED: Error = Error::InvalidOperation("not offered");

impl Device {
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

    pub fn acknowledges(&self) -> bool {
        self.protocol & VhostUserProtocolFeatures::REPLY_ACK.bits() != 0
    }

    pub fn status(&self) -> u8 {
        self.status
    }

    /// Sets the virtio device status. Zero resets the driver's side: rings halt and keep their positions, which QEMU before
    /// 8.1 requests only afterwards.
    pub fn set_status(&mut self, status: u8) {
        self.status = status;
        if status == 0 {
            (0..self.rings.len()).for_each(|index| self.halt(index));
        }
    }

    pub fn takes_mtu(&self, mtu: u64) -> bool {
        mtu <= self.port.mtu.into()
    }

    /// Announces a migrated guest that cannot do so itself.
    pub fn announce(&self, address: [u8; 6]) {
        self.port.announce(address);
    }

    /// Resets the virtio device: rings, features and status. The connection's state stays: protocol features, memory, and
    /// the eventfds for interrupts, which QEMU sends only once.
    fn reset(&mut self) {
        for index in 0..self.rings.len() {
            self.halt(index);
            let before = std::mem::take(&mut self.rings[index]);
            self.rings[index].call = before.call;
            self.rings[index].error = before.error;
        }
        self.count_enabled();
        self.features = Features::default();
        self.status = 0;
    }

    fn slot(&self, index: usize) -> &Slot<Ring> {
        slot_of(&self.port, index)
    }

    fn index(&self, index: u32) -> Result<usize> {
        let index = index as usize;
        (index < self.rings.len())
            .then_some(index)
            .ok_or(Error::InvalidParam)
    }

    /// Stops a ring until it is set up again, and stores its position.
    fn halt(&mut self, index: usize) {
        self.rings[index].started = false;
        if let Some(mut ring) = self.slot(index).stop() {
            ring.notify(&self.port);
            self.rings[index].base = ring.queue.position().available;
        }
        self.remove_kick(index);
    }

    fn remove_kick(&mut self, index: usize) {
        if let Some(kick) = self.rings[index].kick.take() {
            self.port.pairs[index / 2].doorbell.remove(&kick);
        }
    }

    /// Restarts a ring with its present setup: at its position or, if it did not run, at the guest's used index.
    fn refresh(&mut self, index: usize) -> Result<()> {
        // A sender that must not lose a frame waits for the other ring.
        let port = Arc::clone(&self.port);
        let change = slot_of(&port, index).change();
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
        // An interrupt may be pending, from the previous ring or from a daemon that was killed.
        let is_behind = match &was {
            Some(ring) if ring.call.is_some() => ring.queue.has_unsignalled(),
            _ => queue.position().used != 0,
        };
        let ring = Box::new(Ring {
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
        let call = ring.call.clone().filter(|_| is_behind);
        self.slot(index).start(ring);
        // Only now: the VMM may have made it block.
        drop(change);
        if let Some(call) = call {
            port.interrupt(&call);
        }
        // Frames may be queued already, and a sleeping dispatcher found no ring.
        self.port.pairs[index / 2].doorbell.ring();
        Ok(())
    }

    fn refresh_all(&mut self) -> Result<()> {
        (0..self.rings.len()).try_for_each(|index| self.refresh(index))
    }

    fn count_enabled(&self) {
        let enabled = self.rings.chunks(2).take_while(|pair| pair[0].enabled);
        let pairs = u16::try_from(enabled.count()).unwrap_or(u16::MAX);
        self.port.enabled_pairs.store(pairs, Relaxed);
    }

    fn set_memory(&mut self, memory: Memory) -> Result<()> {
        self.memory = Arc::new(memory);
        for index in 0..self.rings.len() {
            if let Err(error) = self.refresh(index) {
                // The ring stays stopped until the VMM sends its addresses again.
                self.port.counters.note(format!("ring {index}: {error}"));
            }
        }
        Ok(())
    }
}

fn slot_of(port: &Shared, index: usize) -> &Slot<Ring> {
    // The guest receives from even rings (virtio 1.2, 5.1.2).
    let pair = &port.pairs[index / 2];
    match index % 2 {
        0 => &pair.to_guest,
        _ => &pair.from_guest,
    }
}

fn location(region: &VhostUserMemoryRegion) -> Location {
    Location {
        guest: region.guest_phys_addr,
        user: region.user_addr,
        len: region.memory_size,
    }
}

/// The kernel's name of a descriptor: a path, or a kind such as `anon_inode:[eventfd]`.
fn name_of(fd: &OwnedFd) -> io::Result<String> {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
    Ok(link.to_string_lossy().into_owned())
}

/// Checks that a descriptor of the VMM is an eventfd: a write to any other file could have any effect. The VMM may make it
/// block at any time (see `crate::watchdog`).
fn event(file: File) -> Result<Arc<OwnedFd>> {
    let fd = OwnedFd::from(file);
    let name = name_of(&fd).map_err(Error::ReqHandlerError)?;
    if name != "anon_inode:[eventfd]" {
        return Err(refuse(format!("the VMM passed {name} as an eventfd")));
    }
    rustix::io::ioctl_fionbio(&fd, true).map_err(|e| Error::ReqHandlerError(e.into()))?;
    Ok(Arc::new(fd))
}

impl VhostUserBackendReqHandlerMut for Device {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    /// Deprecated: the protocol requires backends only to disable rings.
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
        self.count_enabled();
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
        self.set_memory(memory).map(|()| None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let index = self.index(index)?;
        let size = u16::try_from(num).ok();
        let size = size.filter(|s| s.is_power_of_two() && u32::from(*s) <= MAX_ENTRIES);
        // A running ring keeps the size for which its memory was checked.
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
        // A ring starts at the used index in the guest's memory, since entries are used in order: that also works after a
        // device that was killed.
        let index = self.index(index)?;
        self.rings[index].base = base as u16;
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let at = self.index(index)?;
        self.halt(at);
        self.count_enabled();
        let base = self.rings[at].base;
        Ok(VhostUserVringState::new(index, base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let index = self.index(index.into())?;
        let kick = fd.map(event).transpose()?;
        self.remove_kick(index);
        // New receive buffers need no kicks.
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
        self.count_enabled();
        self.refresh(index)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(MAX_REGIONS as u64)
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
        self.set_memory(memory.map_err(refuse)?).map(|()| None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let memory = self.memory.without(location(region));
        self.set_memory(memory.map_err(refuse)?)
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
        self.count_enabled();
    }
}
