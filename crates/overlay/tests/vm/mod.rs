//! A virtual machine that is none: the monitor's side of the protocol and a driver for two rings.

// Each program that includes this module uses a part of it.
#![allow(dead_code)]

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use latlab_model::overlay::Switches;
use latlab_overlay::endpoints::{Counters, PortId, Receive, Transmit};
use latlab_overlay::frames::Batch;
use latlab_overlay::ports::vhost_user::{Receiver, Sender, VhostUser, VhostUserConfig};
use latlab_overlay::rings::driver::{Buffer, Driver, Guest};
use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::EventFd;

/// Version 1, indirect tables, mergeable buffers, rings that are enabled.
pub const PLAIN: u64 = 1 << 32 | 1 << 28 | 1 << 15 | 1 << 30;
/// And notifications by index.
pub const EVENTS: u64 = PLAIN | 1 << 29;
/// And checksums and large TCP segments, both ways.
pub const OFFLOADS: u64 = EVENTS | 0b11 | 0b11 << 7 | 0b11 << 11;
/// And notes of written pages.
pub const LOGGED: u64 = PLAIN | 1 << 26;

pub const SIZE: u16 = 64;
/// Bytes of a guest's memory, and of each of its buffers.
pub const MEMORY: u64 = 4 << 20;
const BUFFER: u64 = 8192;

pub struct Vm {
    pub monitor: Frontend,
    pub guest: Guest,
    pub to_guest: Driver,
    pub from_guest: Driver,
    pub call: EventFd,
    pub kick: EventFd,
    sent: u16,
}

impl Vm {
    /// Connects, and sets both rings up.
    pub fn connect(socket: &Path, features: u64) -> Vm {
        Vm::new(Frontend::connect(socket, 2).unwrap(), features)
    }

    /// Waits for the daemon's call, where it is the one that calls.
    pub fn called(listener: &UnixListener, features: u64) -> Vm {
        let (stream, _) = listener.accept().unwrap();
        Vm::new(Frontend::from_stream(stream, 2), features)
    }

    fn new(monitor: Frontend, features: u64) -> Vm {
        let to_guest = Driver::new(Guest::START, SIZE);
        let from_guest = Driver::new(to_guest.end(), SIZE);
        let mut vm = Vm {
            monitor,
            guest: Guest::new(MEMORY).unwrap(),
            to_guest,
            from_guest,
            call: EventFd::new(libc::EFD_NONBLOCK).unwrap(),
            kick: EventFd::new(libc::EFD_NONBLOCK).unwrap(),
            sent: 0,
        };
        vm.set_up(features);
        (0..SIZE).for_each(|head| vm.offer_buffer(head));
        vm
    }

    /// Connects again after the other side went; the guest has noticed nothing.
    pub fn reconnect(&mut self, socket: &Path, features: u64) {
        self.monitor = Frontend::connect(socket, 2).unwrap();
        self.set_up(features);
    }

    fn set_up(&mut self, features: u64) {
        let offered = self.monitor.get_features().unwrap();
        assert_eq!(offered & features, features);
        self.monitor.set_features(features).unwrap();
        let wanted = VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
            | VhostUserProtocolFeatures::LOG_SHMFD
            | VhostUserProtocolFeatures::MTU
            | VhostUserProtocolFeatures::STATUS
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::RARP;
        let have = self.monitor.get_protocol_features().unwrap();
        assert!(have.contains(wanted));
        self.monitor.set_protocol_features(wanted).unwrap();
        self.monitor.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        self.monitor.set_owner().unwrap();
        self.monitor.set_mem_table(&[self.region()]).unwrap();
        for ring in [0, 1] {
            self.start(ring);
        }
    }

    pub fn region(&self) -> VhostUserMemoryRegionInfo {
        let at = self.guest.location();
        VhostUserMemoryRegionInfo {
            guest_phys_addr: at.guest,
            memory_size: at.len,
            userspace_addr: at.user,
            mmap_offset: 0,
            mmap_handle: self.guest.file().as_raw_fd(),
        }
    }

    pub fn addresses(&self, ring: usize) -> VringConfigData {
        let setup = [&self.to_guest, &self.from_guest][ring].setup();
        VringConfigData {
            queue_max_size: setup.size,
            queue_size: setup.size,
            flags: 0,
            desc_table_addr: setup.descriptors,
            used_ring_addr: setup.used,
            avail_ring_addr: setup.available,
            log_addr: None,
        }
    }

    pub fn start(&mut self, ring: usize) {
        let size = [&self.to_guest, &self.from_guest][ring].setup().size;
        let monitor = &mut self.monitor;
        monitor.set_vring_num(ring, size).unwrap();
        monitor.set_vring_base(ring, 0).unwrap();
        let addresses = self.addresses(ring);
        self.monitor.set_vring_addr(ring, &addresses).unwrap();
        self.monitor.set_vring_call(ring, &self.call).unwrap();
        self.monitor.set_vring_kick(ring, &self.kick).unwrap();
        self.monitor.set_vring_enable(ring, true).unwrap();
    }

    /// Takes rings of another size into use, with nothing in them, at the end of the memory.
    pub fn resize(&mut self, size: u16) {
        let at = Guest::START + (3 << 20);
        self.to_guest = Driver::new(at, size);
        self.from_guest = Driver::new(self.to_guest.end(), size);
        for ring in [0, 1] {
            self.monitor.get_vring_base(ring).unwrap();
            self.start(ring);
        }
    }

    /// Where a buffer of a ring is.
    fn buffer(ring: u64, head: u16) -> u64 {
        Guest::START + (1 << 20) + (ring * u64::from(SIZE) + u64::from(head)) * BUFFER
    }

    pub fn offer_buffer(&mut self, head: u16) {
        let buffer = Buffer::write(Vm::buffer(0, head), 2048);
        self.to_guest.describe(&self.guest, head, buffer);
        self.to_guest.offer(&self.guest, head);
    }

    /// Sends a frame with this virtio header.
    pub fn send_with(&mut self, header: [u8; 12], frame: &[u8]) {
        let head = self.sent % SIZE;
        self.sent = self.sent.wrapping_add(1);
        let at = Vm::buffer(1, head);
        self.guest.write(at, &[&header[..], frame].concat());
        let bytes = u32::try_from(12 + frame.len()).unwrap();
        self.from_guest
            .describe(&self.guest, head, Buffer::read(at, bytes));
        self.from_guest.offer(&self.guest, head);
    }

    pub fn send(&mut self, frame: &[u8]) {
        self.send_with([0; 12], frame);
    }

    /// A received header and frame, over all its buffers.
    pub fn receive(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut bytes = Vec::new();
        let mut left = 1;
        while left > 0 {
            let (head, len) = self.to_guest.used(&self.guest)?;
            let head = u16::try_from(head).unwrap();
            bytes.extend(self.guest.read(Vm::buffer(0, head), len as usize));
            if bytes.len() == len as usize {
                left = u16::from_le_bytes([bytes[10], bytes[11]]);
            }
            self.offer_buffer(head);
            left -= 1;
        }
        let frame = bytes.split_off(12);
        Some((bytes, frame))
    }

    pub fn interrupts(&self) -> u64 {
        self.call.read().unwrap_or(0)
    }
}

/// Ports that send to each other what they receive: a switch without forwarding.
pub struct Hub {
    directory: PathBuf,
    pub ports: Vec<Option<VhostUser>>,
    pub counters: Vec<Arc<Counters>>,
    ends: Vec<(Receiver, Sender)>,
    /// Whether the ports call their monitors.
    client: bool,
}

impl Hub {
    pub fn new(name: &str, ports: u16) -> Hub {
        Hub::of(name, ports, false)
    }

    /// Two ports, and a guest at each.
    pub fn pair(name: &str, features: u64) -> (Hub, Vm, Vm) {
        let hub = Hub::new(name, 2);
        let [a, b] = [0, 1].map(|id| Vm::connect(&hub.socket(id), features));
        (hub, a, b)
    }

    pub fn calling(name: &str, ports: u16) -> Hub {
        Hub::of(name, ports, true)
    }

    fn of(name: &str, ports: u16, client: bool) -> Hub {
        let directory = std::env::temp_dir().join(format!("vhost-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut hub = Hub {
            directory,
            ports: Vec::new(),
            counters: Vec::new(),
            ends: Vec::new(),
            client,
        };
        for id in 0..ports {
            let counters = Arc::new(Counters::default());
            let port = hub.open(id, &counters);
            hub.ends.push((port.receiver(0), port.sender()));
            hub.ports.push(Some(port));
            hub.counters.push(counters);
        }
        hub
    }

    fn open(&self, id: u16, counters: &Arc<Counters>) -> VhostUser {
        let settings = VhostUserConfig {
            id: PortId(id),
            socket: self.socket(id),
            client: self.client,
            queues: 1,
            mtu: 1500,
            switches: Switches::default(),
        };
        VhostUser::open(settings, Arc::clone(counters)).unwrap()
    }

    pub fn socket(&self, id: u16) -> PathBuf {
        self.directory.join(format!("{id}.sock"))
    }

    pub fn port(&self, id: u16) -> &VhostUser {
        self.ports[usize::from(id)].as_ref().unwrap()
    }

    /// Restarts the port, as when the daemon is killed and started again.
    pub fn restart(&mut self, id: u16) {
        let at = usize::from(id);
        self.ports[at] = None;
        let port = self.open(id, &Arc::clone(&self.counters[at]));
        self.ends[at] = (port.receiver(0), port.sender());
        self.ports[at] = Some(port);
    }

    /// One pass over every port; each frame goes to every other.
    pub fn pass(&mut self) -> usize {
        self.pass_with(|_| ())
    }

    /// As [`Hub::pass`]; every batch is looked at between receiving and sending.
    pub fn pass_with(&mut self, mut look: impl FnMut(&Batch)) -> usize {
        let mut frames = 0;
        for from in 0..self.ends.len() {
            let mut batch = Batch::new(32);
            let received = self.ends[from].0.receive(&mut batch);
            look(&batch);
            let all: Vec<u16> = (0..received as u16).collect();
            for to in (0..self.ends.len()).filter(|to| *to != from && received > 0) {
                self.ends[to].1.transmit(&batch, &all);
                self.ends[to].1.flush();
            }
            self.ends[from].0.complete();
            frames += received;
        }
        frames
    }

    pub fn sleeps(&mut self, port: u16) -> &mut Receiver {
        &mut self.ends[usize::from(port)].0
    }

    /// Passes until it is so.
    pub fn until(&mut self, what: &str, mut good: impl FnMut(&mut Hub) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !good(self) {
            assert!(
                Instant::now() < end,
                "{what}: {:?}",
                self.ports[0].as_ref().map(VhostUser::trouble)
            );
            self.pass();
        }
    }

    pub fn copied(&self, port: u16) -> u64 {
        self.counters[usize::from(port)].copied()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.ports.clear();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A frame that says which one it is.
pub fn frame(number: u32, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x5a; bytes];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}
