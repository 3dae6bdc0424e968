//! The 9p device of a guest without the kernel's driver: virtio 1.0 over PCI, driven by this process.
//!
//! The rings and messages lie in one huge page. It is contiguous for the device and does not move.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

const PAGE: usize = 2 << 20;
const DESCRIPTORS: usize = 0;
const AVAILABLE: usize = 0x1000;
const USED: usize = 0x2000;
const MESSAGES: usize = 0x10000;
/// Room for a message with the longest name, and for its answer.
const REQUEST: usize = 0x14000;
const REPLY: usize = 0x4000;
/// Requests at a time.
pub const SLOTS: u16 = 16;
const ENTRIES: u16 = 2 * SLOTS;

const NEEDS_RESET: u8 = 0x40;

/// Offsets in the common configuration (virtio 1.0, 4.1.4.3).
mod common {
    pub const FEATURES_SELECT: usize = 8;
    pub const FEATURES: usize = 12;
    pub const STATUS: usize = 20;
    pub const QUEUE_SELECT: usize = 22;
    pub const QUEUE_SIZE: usize = 24;
    pub const QUEUE_ENABLE: usize = 28;
    pub const QUEUE_NOTIFY: usize = 30;
    pub const QUEUE_ADDRESSES: usize = 32;
}

/// Mapped memory that the device or another process reads and writes too.
#[derive(Clone, Copy)]
struct Mapped {
    base: *mut u8,
    length: usize,
}

impl Mapped {
    fn get<T: Copy>(self, at: usize) -> T {
        assert!(at + size_of::<T>() <= self.length);
        // SAFETY: within the mapping, which is never removed; every offset that is used is aligned.
        unsafe { self.base.add(at).cast::<T>().read_volatile() }
    }

    fn set<T: Copy>(self, at: usize, value: T) {
        assert!(at + size_of::<T>() <= self.length);
        // SAFETY: as above.
        unsafe { self.base.add(at).cast::<T>().write_volatile(value) }
    }

    fn write(self, at: usize, bytes: &[u8]) {
        for (index, byte) in bytes.iter().enumerate() {
            self.set(at + index, *byte);
        }
    }

    fn read(self, at: usize, length: usize) -> Vec<u8> {
        (at..at + length).map(|at| self.get(at)).collect()
    }
}

pub struct Device {
    common: Mapped,
    notify: Mapped,
    notify_at: usize,
    memory: Mapped,
    physical: u64,
    sent: u16,
    seen: u16,
}

/// A place in a mapped region of the device, by its capability in the configuration space (4.1.4).
fn region(pci: &Path, config: &[u8], wanted: u8) -> (Mapped, u32) {
    let byte = |at: usize| config[at];
    let word = |at: usize| u32::from_le_bytes(config[at..at + 4].try_into().unwrap());
    let mut at = usize::from(byte(0x34));
    while at != 0 {
        if byte(at) == 9 && byte(at + 3) == wanted {
            let file = pci.join(format!("resource{}", byte(at + 4)));
            let length = word(at + 12) as usize;
            let file = fs::File::options().read(true).write(true).open(file);
            let (access, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
            let (file, offset) = (file.unwrap(), u64::from(word(at + 8)));
            // SAFETY: a new mapping, which nothing else knows.
            let base = unsafe { mmap(std::ptr::null_mut(), length, access, shared, &file, offset) };
            let mapped = Mapped {
                base: base.unwrap().cast(),
                length,
            };
            return (mapped, word(at + 16));
        }
        at = usize::from(byte(at + 1));
    }
    panic!("no virtio capability {wanted} in {}", pci.display());
}

/// A huge page, and its address for devices.
fn memory() -> (Mapped, u64) {
    fs::write("/proc/sys/vm/nr_hugepages", "8").unwrap();
    let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::POPULATE;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, which nothing else knows.
    let base = unsafe { mmap_anonymous(std::ptr::null_mut(), PAGE, access, flags) };
    let base: *mut u8 = base.expect("a huge page").cast();
    let mut entry = [0; 8];
    let pages = fs::File::open("/proc/self/pagemap").unwrap();
    let at = base as u64 / 4096 * 8;
    pages.read_exact_at(&mut entry, at).unwrap();
    let frame = u64::from_le_bytes(entry) & ((1 << 55) - 1);
    assert_ne!(frame, 0, "the kernel tells root where its pages are");
    let length = PAGE;
    (Mapped { base, length }, frame * 4096)
}

/// The PCI device of a share.
fn find(tag: &str) -> PathBuf {
    for device in fs::read_dir("/sys/bus/virtio/devices").unwrap() {
        let path = fs::canonicalize(device.unwrap().path()).unwrap();
        let found = fs::read_to_string(path.join("mount_tag")).unwrap_or_default();
        if found.trim_end_matches(['\0', '\n']) == tag {
            return path.parent().unwrap().to_owned();
        }
    }
    panic!("no share {tag}");
}

impl Device {
    /// Takes a share that is not mounted from the kernel.
    pub fn take(tag: &str) -> Self {
        let pci = find(tag);
        let address = pci.file_name().unwrap().to_str().unwrap();
        fs::write("/sys/bus/pci/drivers/virtio-pci/unbind", address).unwrap();
        let mut options = fs::File::options();
        let config = options.read(true).write(true).open(pci.join("config"));
        let config = config.unwrap();
        // Memory, and reads and writes of its own.
        config.write_all_at(&[6, 0], 4).unwrap();
        let mut bytes = [0; 256];
        config.read_exact_at(&mut bytes, 0).unwrap();
        let (common, _) = region(&pci, &bytes, 1);
        let (notify, multiplier) = region(&pci, &bytes, 2);
        let (memory, physical) = memory();
        let mut device = Self {
            common,
            notify,
            notify_at: multiplier as usize,
            memory,
            physical,
            sent: 0,
            seen: 0,
        };
        device.notify_at *= usize::from(device.reset());
        device
    }

    /// Begins anew; answers the queue's place among the notifications.
    pub fn reset(&mut self) -> u16 {
        let common = self.common;
        common.set(common::STATUS, 0_u8);
        while common.get::<u8>(common::STATUS) != 0 {
            std::thread::yield_now();
        }
        self.memory.set(AVAILABLE, 0_u32);
        self.memory.set(USED, 0_u32);
        (self.sent, self.seen) = (0, 0);
        common.set(common::STATUS, 3_u8);
        // Version 1, and nothing else.
        for (half, features) in [(0_u32, 0_u32), (1, 1)] {
            common.set(common::FEATURES_SELECT, half);
            common.set(common::FEATURES, features);
        }
        common.set(common::STATUS, 11_u8);
        assert_eq!(common.get::<u8>(common::STATUS), 11, "features are taken");
        common.set(common::QUEUE_SELECT, 0_u16);
        common.set(common::QUEUE_SIZE, ENTRIES);
        let rings = [DESCRIPTORS, AVAILABLE, USED];
        for (index, ring) in rings.iter().enumerate() {
            let address = self.physical + *ring as u64;
            let at = common::QUEUE_ADDRESSES + 8 * index;
            common.set(at, address as u32);
            common.set(at + 4, (address >> 32) as u32);
        }
        common.set(common::QUEUE_ENABLE, 1_u16);
        common.set(common::STATUS, 15_u8);
        common.get(common::QUEUE_NOTIFY)
    }

    /// Whether the device has given up because of what it was sent.
    pub fn gave_up(&self) -> bool {
        self.common.get::<u8>(common::STATUS) & NEEDS_RESET != 0
    }

    fn descriptor(&self, index: u16, at: usize, length: usize, flags: u16) {
        let entry = DESCRIPTORS + 16 * usize::from(index);
        self.memory.set(entry, self.physical + at as u64);
        self.memory.set(entry + 8, length as u32);
        self.memory.set(entry + 12, flags);
        self.memory.set(entry + 14, index + 1);
    }

    /// Offers messages at once, each with this much room for its answer.
    pub fn send(&mut self, messages: &[Vec<u8>], room: usize) {
        assert!(messages.len() <= usize::from(SLOTS) && room <= REPLY);
        for (slot, message) in messages.iter().enumerate() {
            let at = MESSAGES + slot * (REQUEST + REPLY);
            assert!(message.len() <= REQUEST);
            self.memory.write(at, message);
            self.memory.set(at + REQUEST, 0_u64);
            let first = 2 * slot as u16;
            let more = u16::from(room > 0);
            self.descriptor(first, at, message.len(), more);
            self.descriptor(first + 1, at + REQUEST, room, 2);
            let entry = AVAILABLE + 4 + 2 * usize::from(self.sent % ENTRIES);
            self.memory.set(entry, first);
            self.sent = self.sent.wrapping_add(1);
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.memory.set(AVAILABLE + 2, self.sent);
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.notify.set(self.notify_at, 0_u16);
    }

    /// The answers that come to what was sent, by slot.
    pub fn answers(&mut self, patience: Duration) -> Vec<(usize, Vec<u8>)> {
        let end = Instant::now() + patience;
        let mut answers = Vec::new();
        let mut waited = 0_u32;
        while self.seen != self.sent {
            if self.memory.get::<u16>(USED + 2) == self.seen {
                waited += 1;
                if Instant::now() > end || (waited % 64 == 0 && self.gave_up()) {
                    break;
                }
                std::thread::yield_now();
                continue;
            }
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            let entry = USED + 4 + 8 * usize::from(self.seen % ENTRIES);
            let slot = self.memory.get::<u32>(entry) as usize / 2;
            let length = self.memory.get::<u32>(entry + 4) as usize;
            assert!(slot < usize::from(SLOTS) && length <= REPLY);
            let at = MESSAGES + slot * (REQUEST + REPLY) + REQUEST;
            answers.push((slot, self.memory.read(at, length)));
            self.seen = self.seen.wrapping_add(1);
        }
        answers
    }
}
