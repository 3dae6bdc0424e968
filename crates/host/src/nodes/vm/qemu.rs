//! QEMU's command line, from what a guest is to be.
//!
//! The machine is the smallest that a distribution's kernel boots and that can still take a host's PCI
//! device: `q35` without firmware's legacy devices. (Measured: `pc` is slower to boot, and `microvm`, a
//! little faster bare, does not bring these PCI devices up with Debian 12's QEMU.) The kernel is entered
//! directly, without boot loader.
//!
//! Every guest carries the same fixed devices, so that measurements in different labs run on the same
//! machine: a serial console into a log, a virtio-serial bus with the channel's ports, the page for the
//! clock exchange, the image's share.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::{BorrowedFd, RawFd};
use std::path::{Path, PathBuf};

use latlab_model::kinds::{LostTicks, VmHardware};
use latlab_model::plan::{GuestMemory, GuestTopology};
use latlab_wire::channel::{clock_page, port_name};

use super::accelerator::Accelerator;
use super::command_line::{Line, process_name};
use super::confine::{self, Place};
use super::cpu;
use super::disk::{self, Disk};
use super::error::Error;
use super::kernel::{Kernel, Transport};
use super::nic::{self, Nic, Served};
use super::paths::{PORTS, virtiofs_socket};
use super::share::{Access, GuestDisks, Share};
use crate::sys::sriov::Device;
use crate::sys::vfio;

/// The number under which QEMU inherits the pipe that its guest's console goes to.
pub const CONSOLE_FD: RawFd = 9;
/// The number under which it inherits its listening control socket; those of the channel's ports follow.
pub const CONTROL_FD: RawFd = CONSOLE_FD + 1;
/// The number under which it inherits the memory of a template or a clone.
const MEMORY_FD: RawFd = CONTROL_FD + 1 + PORTS as RawFd;
/// The number under which a clone inherits the pipe of its devices' state.
pub(super) const STATE_FD: RawFd = MEMORY_FD + 1;
/// The number under which it inherits the page of the clock exchange, and keeps it open.
pub(super) const CLOCK_FD: RawFd = STATE_FD + 1;
/// The first number under which QEMU inherits a descriptor of a network card.
pub(super) const FIRST_FD: RawFd = CLOCK_FD + 1;

/// Memory that VFIO pins beside the guest's own: ROMs of the firmware, and memory of other devices.
const PINNED_BESIDE: u64 = 64 << 20;

/// Where things are in QEMU's place.
const KERNEL: &str = "/boot/kernel";
const INITRAMFS: &str = "/boot/initramfs";

fn export(index: usize) -> String {
    format!("/export/{index}")
}

fn disk_inside(index: usize) -> String {
    format!("/disk/{index}")
}

/// QEMU takes a path for the memory, not a descriptor.
fn in_descriptor(number: RawFd) -> String {
    format!("memory-backend-file,mem-path=/proc/self/fd/{number}")
}

fn virtiofs_inside(index: usize) -> String {
    format!("/sockets/fs{index}")
}

/// Parameters every guest's kernel gets, each because it was measured to matter.
const KERNEL_PARAMETERS: &[&str] = &[
    "console=ttyS0",
    // Serial output is slow in a guest; warnings and panics still appear.
    "quiet",
    // A panic restarts at once, which ends QEMU (-no-reboot): a dead guest is noticed, not waited for.
    "panic=-1",
    // The kernel's self-tests of ciphers: 0.2 to 0.4 s under software emulation.
    "cryptomgr.notests",
    // Emulated interrupts arrive late when the host is busy; the check would take that for breakage.
    "no_timer_check",
    // Keep the time-stamp counter as clock source: the watchdog compares it with emulated timers, and
    // its alternative costs a device access for every clock read.
    "tsc=reliable",
];

/// How a guest begins.
#[derive(Debug, Clone, Copy)]
pub enum Origin<'a> {
    Boot,
    /// A boot in this memory; the guest then waits to be saved.
    Template(BorrowedFd<'a>),
    /// Execution goes on where a template was saved.
    Clone {
        memory: BorrowedFd<'a>,
        /// A pipe with the state of the template's devices.
        state: BorrowedFd<'a>,
    },
    /// Execution is to go on where the guest itself was saved, or where it leaves another QEMU.
    Saved {
        /// A file or a socket with the state of devices and memory.
        state: BorrowedFd<'a>,
        /// The guest stands still until it is told to go on.
        waits: bool,
    },
}

#[derive(Debug, Clone)]
pub struct VmConfig<'a> {
    /// The node's name; the guest's host name.
    pub name: String,
    /// The lab's unique id, which marks the guest's processes.
    pub lab: String,
    pub vcpus: u32,
    /// How they lie to each other, where they are somewhere in particular.
    pub topology: Option<GuestTopology>,
    pub memory_bytes: u64,
    pub memory: GuestMemory,
    /// Its CPU and timers.
    pub hardware: VmHardware,
    /// An IOMMU is there, without which its kernel gives no card to a program. Virtio's cards are not behind it.
    pub iommu: bool,
    pub kernel: Kernel,
    /// From [`super::initramfs::prepare`].
    pub initramfs: PathBuf,
    /// The agent's binary, which on the host keeps the logs and confines the guest's servers.
    pub agent: PathBuf,
    /// Words for the kernel's command line, after ours, so that they win.
    pub boot_parameters: Vec<String>,
    pub nics: Vec<Nic<'a>>,
    /// The guest's root, under a writable layer in memory.
    pub root: Share,
    pub shares: Vec<Share>,
    /// The file system images of root and modules, where they are on disks.
    pub disks: Option<GuestDisks>,
    /// Disks that it may write.
    pub storage: Vec<Disk<'a>>,
    /// Directories in a memory of their own, each with its size in bytes.
    pub scratch: Vec<(String, u64)>,
    /// Where sockets, console and logs go; made if absent. Its path must be short enough for sockets.
    pub dir: PathBuf,
    pub accelerator: Accelerator,
    pub origin: Origin<'a>,
}

impl VmConfig<'_> {
    /// All shares: the root, the kernel's modules where `modprobe` looks for them, then the lab's.
    pub fn all_shares(&self) -> Vec<Share> {
        let disks = self.disks.as_ref();
        let root = self.root.clone();
        let mut shares = vec![root.on_disk(disks.map(|disks| disks.root.clone()))];
        let on_disk = disks.map(|disks| disks.modules.clone());
        // A root on a disk that loads no modules has none.
        if let Some(modules) = self
            .kernel
            .modules
            .as_ref()
            .filter(|_| on_disk != Some(None))
        {
            let target = format!("/lib/modules/{}", self.kernel.release);
            let modules = Share::new(modules, target, Access::Everybody);
            shares.push(modules.on_disk(on_disk.flatten()));
        }
        shares.extend(self.shares.iter().cloned());
        shares
    }

    /// QEMU's view of the host, and the capabilities it keeps there.
    pub(super) fn place(&self) -> Result<Place, Error> {
        let mut place = Place::new(&self.dir, "qemu", true)?;
        if self.boots() {
            place.file(&self.kernel.image, KERNEL);
            place.file(&self.initramfs, INITRAMFS);
        }
        if self.accelerator == Accelerator::Kvm {
            place.device("/dev/kvm");
        }
        let mut kept = BTreeSet::new();
        for (index, share) in self.all_shares().iter().enumerate() {
            if let Some(disk) = &share.disk {
                place.file(disk, disk_inside(index));
                continue;
            }
            match self.kernel.transport {
                Transport::NineP => {
                    place.share(share, &export(index));
                    kept.extend(confine::capabilities(share.access));
                }
                Transport::VirtioFs => {
                    place.file(&virtiofs_socket(&self.dir, index), virtiofs_inside(index));
                }
            }
        }
        if self.memory.locked {
            kept.insert(confine::capability::IPC_LOCK);
        }
        kept.into_iter().for_each(|one| place.keep(one));
        for (index, nic) in self.nics.iter().enumerate() {
            match &nic.served {
                Served::Taps { .. } => {}
                Served::VhostUser(socket) => {
                    let directory = socket.parent().unwrap_or(Path::new("/"));
                    place.directory(directory, nic::directory(index));
                }
                Served::Hardware(card) => {
                    let device = Device {
                        address: card.address.clone(),
                    };
                    // QEMU reads the number of its group there.
                    place.directory(&device.directory(), device.directory());
                    place.device(&vfio::file_of(card.group).to_string_lossy());
                }
            }
        }
        let cards = self.hardware_cards() as u64;
        if cards > 0 {
            place.device(vfio::CONTAINER);
            // Behind an IOMMU each may be given other memory.
            let times = if self.iommu { cards } else { 1 };
            place.lock(times * self.memory_bytes + PINNED_BESIDE);
        }
        Ok(place)
    }

    /// Which descriptor of its memory or of a card QEMU inherits under which number.
    pub fn descriptors(&self) -> Vec<(BorrowedFd<'_>, RawFd)> {
        let cards = self.nics.iter().flat_map(Nic::descriptors);
        let disks = self.storage.iter().map(|disk| disk.image);
        let mut all: Vec<_> = cards.chain(disks).zip(FIRST_FD..).collect();
        match self.origin {
            Origin::Boot => {}
            Origin::Template(memory) => all.push((memory, MEMORY_FD)),
            Origin::Clone { memory, state } => {
                all.extend([(memory, MEMORY_FD), (state, STATE_FD)]);
            }
            Origin::Saved { state, .. } => all.push((state, STATE_FD)),
        }
        all
    }

    /// Nothing of the guest's state is on the host.
    pub(super) fn can_be_saved(&self) -> bool {
        let shares = self.all_shares();
        let is_inside = self.storage.is_empty() && !self.has_hardware();
        is_inside && shares.iter().all(|share| share.disk.is_some())
    }

    /// Whether it drives cards of the host.
    fn has_hardware(&self) -> bool {
        self.hardware_cards() > 0
    }

    fn hardware_cards(&self) -> usize {
        let is_hardware = |nic: &&Nic<'_>| matches!(nic.served, Served::Hardware(_));
        self.nics.iter().filter(is_hardware).count()
    }

    fn boots(&self) -> bool {
        !matches!(self.origin, Origin::Clone { .. } | Origin::Saved { .. })
    }

    /// Another process maps the memory.
    pub(super) fn is_mapped(&self) -> bool {
        let by_card = |nic: &Nic<'_>| matches!(nic.served, Served::VhostUser(_));
        self.virtiofs().next().is_some() || self.nics.iter().any(by_card)
    }

    /// The shares that a virtiofsd serves, with their numbers.
    pub(super) fn virtiofs(&self) -> impl Iterator<Item = (usize, Share)> {
        let is_virtiofs = self.kernel.transport == Transport::VirtioFs;
        let shares = self.all_shares().into_iter().enumerate();
        shares.filter(move |(_, share)| is_virtiofs && share.disk.is_none())
    }

    pub fn kernel_line(&self) -> String {
        let ours = KERNEL_PARAMETERS.iter().map(|word| (*word).to_owned());
        let mut words: Vec<String> = ours.collect();
        match self.origin {
            Origin::Boot | Origin::Saved { .. } => words.push(self.agent_parameters()),
            Origin::Template(_) | Origin::Clone { .. } => {
                words.push(format!("latlab.template latlab.ports={PORTS}"));
            }
        }
        words.extend(self.boot_parameters.iter().cloned());
        words.join(" ")
    }

    /// Words for the guest's agent: on the kernel's command line, or told to a clone later.
    pub(super) fn agent_parameters(&self) -> String {
        let mut words = vec![format!("latlab.name={}", self.name)];
        words.push(format!("latlab.ports={PORTS}"));
        words.push(match self.kernel.transport {
            Transport::NineP => "latlab.fs=9p".into(),
            Transport::VirtioFs => "latlab.fs=virtiofs".into(),
        });
        if self.disks.is_some() {
            words.push("latlab.root=disk".into());
        }
        for (index, share) in self.all_shares().iter().enumerate().skip(1) {
            let access = match (&share.disk, share.is_writable()) {
                (Some(_), _) => "disk",
                (None, true) => "rw",
                (None, false) => "ro",
            };
            words.push(format!(
                "latlab.share=share{index}:{access}:{}",
                share.target
            ));
        }
        for (index, disk) in self.storage.iter().enumerate() {
            let serial = disk::serial(index);
            words.push(format!("latlab.share={serial}:ext4:{}", disk.at));
        }
        if self.has_hardware() {
            words.push("latlab.drivers".into());
        }
        for (at, bytes) in &self.scratch {
            words.push(format!("latlab.memory={bytes}:{at}"));
        }
        words.join(" ")
    }

    pub fn arguments(&self) -> Vec<OsString> {
        let mut line = Line::default();
        // The first memory of all: an emulator that tracks what a guest writes looks at the length of each memory from
        // the beginning of the first one, and ends if that is shorter (QEMU 10, `tlb_reset_dirty_range_all`).
        if let Some(ram) = self.memory_backend() {
            line.option("-object", ram);
        }
        line.0.extend(self.hardware());
        if self.boots() {
            line.option("-kernel", KERNEL);
            line.option("-initrd", INITRAMFS);
            line.option("-append", self.kernel_line());
        } else {
            line.option("-incoming", "defer");
        }
        if matches!(self.origin, Origin::Saved { waits: true, .. }) {
            // The CPUs start when they are told to.
            line.0.push("-S".into());
        }
        line.0
    }

    /// The words that say what the guest's hardware is, however it begins: a saved guest goes on with the same.
    pub(super) fn hardware(&self) -> Vec<OsString> {
        let mut line = Line::default();
        self.machine(&mut line);
        self.consoles(&mut line);
        for (index, share) in self.all_shares().iter().enumerate() {
            self.share(&mut line, index, share);
        }
        let mut fd = FIRST_FD;
        for (index, nic) in self.nics.iter().enumerate() {
            fd = nic.describe(&mut line, index, fd, self.accelerator);
        }
        for ((index, disk), fd) in self.storage.iter().enumerate().zip(fd..) {
            disk.describe(&mut line, index, fd);
        }
        let size = clock_page::PAGE_BYTES;
        let page = in_descriptor(CLOCK_FD);
        line.option("-object", format!("{page},id=clock,size={size},share=on"));
        // A guest with memory that another process owns could not be saved (`master`).
        line.option("-device", "ivshmem-plain,memdev=clock,master=on");
        line.0
    }

    fn machine(&self, line: &mut Line) {
        for flag in ["-nodefaults", "-no-user-config", "-no-reboot"] {
            line.0.push(flag.into());
        }
        line.option("-display", "none");
        // System calls that no guest's devices need are denied to an attacker inside QEMU (seccomp). Its threads
        // are put on CPUs from outside.
        line.option(
            "-sandbox",
            "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        );
        line.option("-name", process_name(&self.name));
        let mut machine =
            "q35,sata=off,smbus=off,usb=off,vmport=off,dump-guest-core=off".to_owned();
        // As libvirt's installer sets it: a guest under KVM has better clocks.
        machine.push_str(if self.hardware.hpet {
            ",hpet=on"
        } else {
            ",hpet=off"
        });
        if self.memory_backend().is_some() {
            machine.push_str(",memory-backend=ram");
        }
        if self.memory.locked {
            line.option("-overcommit", "mem-lock=on");
        }
        if self.iommu && self.accelerator == Accelerator::Kvm {
            // The IOMMU remaps interrupts, for which KVM leaves their controller to QEMU.
            machine.push_str(",kernel-irqchip=split");
        }
        line.option("-machine", machine);
        line.option("-accel", self.accelerator.qemu_name());
        if self.accelerator == Accelerator::Kvm && self.hardware.pit != LostTicks::default() {
            line.option(
                "-global",
                format!("kvm-pit.lost_tick_policy={}", self.hardware.pit),
            );
        }
        if self.iommu {
            // Before all devices that are behind it. VFIO of the host learns of its mappings by the caching mode.
            let mode = if self.has_hardware() {
                ",caching-mode=on"
            } else {
                ""
            };
            line.option("-device", format!("intel-iommu,intremap=on{mode}"));
        }
        line.option("-cpu", self.cpu());
        line.option("-smp", self.smp());
        line.option("-m", format!("{}M", self.memory_megabytes()));
    }

    fn memory_megabytes(&self) -> u64 {
        self.memory_bytes / (1024 * 1024)
    }

    /// Memory that another process maps, that is to be of a particular kind, or that is there already. A guest that can
    /// be saved always has a backend, because QEMU saves memory under the backend's name.
    fn memory_backend(&self) -> Option<String> {
        let GuestMemory {
            preallocated, huge, ..
        } = self.memory;
        let (kind, is_shared) = match self.origin {
            Origin::Boot | Origin::Saved { .. } => {
                ("memory-backend-memfd".to_owned(), self.is_mapped())
            }
            // Writes of the guest reach the file of a template, and stay in a clone.
            Origin::Template(_) => (in_descriptor(MEMORY_FD), true),
            Origin::Clone { .. } => (in_descriptor(MEMORY_FD), self.is_mapped()),
        };
        let is_any = matches!(self.origin, Origin::Boot) && self.disks.is_none();
        let is_plain = is_any && !is_shared && !preallocated && !huge;
        let mut ram = kind;
        for (yes, property) in [
            (is_shared, ",share=on"),
            (preallocated, ",prealloc=on"),
            (huge, ",hugetlb=on"),
        ] {
            ram.push_str(if yes { property } else { "" });
        }
        let size = self.memory_megabytes();
        (!is_plain).then(|| format!("{ram},id=ram,size={size}M"))
    }

    /// The CPU that the guest sees. With a topology of its own it also sees the host's caches, if
    /// it runs on the host's CPU.
    fn cpu(&self) -> String {
        let mut cpu = cpu::chosen(self.accelerator, &self.hardware);
        if self.hardware.cpu.is_none() {
            cpu.push_str(match (self.accelerator, self.topology) {
                (Accelerator::Kvm, Some(_)) => ",host-cache-info=on",
                // The emulator's own CPU is one of AMD's of before it could tell threads from cores.
                (Accelerator::Tcg, Some(t)) if t.threads > 1 => ",vendor=GenuineIntel",
                _ => "",
            });
        }
        cpu
    }

    /// An emulated guest that can only ever have one CPU gets no memory barriers from QEMU, although
    /// the devices run beside it: once in a while a ring's notification is lost, and the interface is deaf
    /// from then on. One that could get a second gets them.
    fn smp(&self) -> String {
        let Self { vcpus, .. } = self;
        if *vcpus == 1 && self.accelerator == Accelerator::Tcg {
            return "1,maxcpus=2".to_owned();
        }
        match self.topology {
            None => vcpus.to_string(),
            Some(GuestTopology {
                sockets,
                dies,
                cores,
                threads,
            }) => format!("{vcpus},sockets={sockets},dies={dies},cores={cores},threads={threads}"),
        }
    }

    fn consoles(&self, line: &mut Line) {
        // Appended to: a pipe cannot be emptied first.
        line.option("-add-fd", format!("fd={CONSOLE_FD},set=1"));
        line.option("-chardev", "file,id=console,append=on,path=/dev/fdset/1");
        line.option("-serial", "chardev:console");
        let listening = |id: &str, fd| format!("socket,id={id},server=on,wait=off,fd={fd}");
        line.option("-chardev", listening("qmp", CONTROL_FD));
        line.option("-mon", "chardev=qmp,mode=control");
        line.option(
            "-device",
            format!("virtio-serial-pci,max_ports={}", PORTS + 1),
        );
        for index in 0..PORTS {
            let fd = CONTROL_FD + 1 + index as RawFd;
            line.option("-chardev", listening(&format!("port{index}"), fd));
            let name = port_name(index);
            line.option(
                "-device",
                format!("virtserialport,chardev=port{index},name={name}"),
            );
        }
    }

    fn share(&self, line: &mut Line, index: usize, share: &Share) {
        let tag = if index == 0 {
            "root".to_owned()
        } else {
            format!("share{index}")
        };
        if share.disk.is_some() {
            let path = disk_inside(index);
            line.option(
                "-blockdev",
                format!("driver=raw,node-name=disk{index},read-only=on,file.driver=file,file.filename={path}"),
            );
            line.option(
                "-device",
                format!("virtio-blk-pci,drive=disk{index},serial={tag}"),
            );
            return;
        }
        match self.kernel.transport {
            Transport::NineP => {
                // A writable share keeps the guest's root as the host's root: the same files, the same
                // owners, as in a container's bind mount. Devices below one export are told apart.
                let access = if share.is_writable() {
                    "security_model=passthrough"
                } else {
                    "security_model=none,readonly=on"
                };
                let path = export(index);
                line.option(
                    "-fsdev",
                    format!("local,id=fs{index},{access},multidevs=remap,path={path}"),
                );
                line.option(
                    "-device",
                    format!("virtio-9p-pci,fsdev=fs{index},mount_tag={tag}"),
                );
            }
            Transport::VirtioFs => {
                let path = virtiofs_inside(index);
                line.option("-chardev", format!("socket,id=fs{index},path={path}"));
                line.option(
                    "-device",
                    format!("vhost-user-fs-pci,chardev=fs{index},tag={tag}"),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use latlab_model::kinds::{DiskAio, DiskCache, DiskDevice, DiskFormat, GuestDisk};

    use super::*;

    fn config(transport: Transport) -> VmConfig<'static> {
        VmConfig {
            name: "third".into(),
            lab: "pair-1".into(),
            vcpus: 2,
            topology: None,
            memory_bytes: 512 << 20,
            memory: GuestMemory::default(),
            hardware: VmHardware::default(),
            iommu: false,
            kernel: Kernel {
                release: "6.1".into(),
                origin: "test".into(),
                vmlinuz: "/k/vmlinuz".into(),
                image: "/k/vmlinux".into(),
                compressed_because: None,
                modules: Some("/k/lib/modules/6.1".into()),
                transport,
            },
            initramfs: "/k/initramfs".into(),
            agent: "/a/latlab-agent".into(),
            boot_parameters: vec!["isolcpus=1".into()],
            nics: Vec::new(),
            root: Share::new("/", "/", Access::Everybody),
            shares: vec![Share::new("/data,1", "/mnt/data", Access::Write)],
            disks: None,
            storage: Vec::new(),
            scratch: Vec::new(),
            dir: "/run/x".into(),
            accelerator: Accelerator::Tcg,
            origin: Origin::Boot,
        }
    }

    fn text(config: &VmConfig<'_>) -> String {
        let words = config.arguments();
        words
            .iter()
            .map(|word| word.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn shares_reach_the_guest_by_tag() {
        let line = text(&config(Transport::NineP));
        assert!(line.contains(
            "local,id=fs0,security_model=none,readonly=on,multidevs=remap,path=/export/0 "
        ));
        assert!(line.contains(
            "security_model=passthrough,multidevs=remap,path=/export/2 -device virtio-9p-pci,fsdev=fs2,mount_tag=share2"
        ));
        assert!(line.contains(
            "latlab.share=share1:ro:/lib/modules/6.1 latlab.share=share2:rw:/mnt/data isolcpus=1"
        ));
        assert!(!line.contains("memory-backend=ram"));
    }

    #[test]
    fn disks_come_as_descriptors_behind_the_cards() {
        let image = std::fs::File::open("/dev/null").unwrap();
        let mut config = config(Transport::NineP);
        let disk = |device, cache, aio| Disk {
            at: "/data".into(),
            shape: GuestDisk {
                device,
                cache,
                aio,
                format: DiskFormat::Qcow2,
            },
            image: image.as_fd(),
        };
        config.storage = vec![
            disk(DiskDevice::VirtioBlk, DiskCache::None, DiskAio::IoUring),
            disk(DiskDevice::VirtioScsi, DiskCache::Unsafe, DiskAio::Threads),
        ];
        config.scratch = vec![("/tmp/x".into(), 1 << 24)];
        let line = text(&config);
        for expected in [
            "set=2 -blockdev driver=qcow2,node-name=storage0,cache.direct=on,cache.no-flush=off,\
             file.driver=file,file.filename=/dev/fdset/2,file.aio=io_uring,",
            "-device virtio-blk-pci,drive=storage0,serial=storage0,write-cache=on",
            ",set=3 ",
            "cache.direct=off,cache.no-flush=on",
            "-device virtio-scsi-pci,id=scsi1 -device scsi-hd,bus=scsi1.0,drive=storage1,",
            "latlab.share=storage0:ext4:/data latlab.share=storage1:ext4:/data latlab.memory=16777216:/tmp/x",
        ] {
            assert!(line.contains(expected), "{expected}: {line}");
        }
        let numbers = config.descriptors().into_iter().map(|(_, number)| number);
        assert_eq!(numbers.collect::<Vec<_>>(), [FIRST_FD, FIRST_FD + 1]);
        assert!(!config.can_be_saved());
    }

    #[test]
    fn virtiofs_needs_memory_that_another_process_can_map() {
        let line = text(&config(Transport::VirtioFs));
        assert!(line.contains("memory-backend-memfd,share=on,id=ram,size=512M"));
        assert!(line.contains("memory-backend=ram"));
        assert!(line.contains("vhost-user-fs-pci,chardev=fs0,tag=root"));
        assert!(line.contains("latlab.fs=virtiofs"));
    }

    #[test]
    fn memory_is_there_from_the_start_locked_and_huge_where_wanted() {
        let mut config = config(Transport::NineP);
        assert!(!text(&config).contains("memory-backend-memfd"));
        config.memory = GuestMemory {
            preallocated: true,
            locked: true,
            huge: true,
        };
        let line = text(&config);
        assert!(
            line.contains("memfd,prealloc=on,hugetlb=on,id=ram,size=512M -"),
            "{line}"
        );
        assert!(line.contains("memory-backend=ram") && line.contains("-overcommit mem-lock=on"));
    }

    #[test]
    fn an_iommu_comes_before_what_is_behind_it() {
        let mut config = config(Transport::NineP);
        assert!(!text(&config).contains("iommu"));
        config.iommu = true;
        let line = text(&config);
        let (before, behind) = line
            .split_once("-device intel-iommu,intremap=on ")
            .expect("an IOMMU");
        assert!(!before.contains("-device") && behind.contains("-device"));
        assert!(!line.contains("split"), "{line}");
        config.accelerator = Accelerator::Kvm;
        assert!(text(&config).contains(",kernel-irqchip=split -accel kvm"));
    }

    #[test]
    fn the_topology_is_told_to_the_guest() {
        let mut config = config(Transport::NineP);
        assert!(text(&config).contains("-cpu max -smp 2 "));
        config.vcpus = 1;
        let guarded = text(&config).contains("-smp 1,maxcpus=2 ");
        assert!(guarded, "with memory barriers: {}", text(&config));
        config.vcpus = 8;
        config.topology = Some(GuestTopology {
            sockets: 2,
            dies: 1,
            cores: 2,
            threads: 2,
        });
        let told = "-smp 8,sockets=2,dies=1,cores=2,threads=2 ";
        assert!(text(&config).contains(told), "{}", text(&config));
        config.accelerator = Accelerator::Kvm;
        assert!(text(&config).contains("-cpu host,host-cache-info=on"));
        (config.vcpus, config.topology) = (1, None);
        assert!(text(&config).contains("-smp 1 "), "{}", text(&config));
    }
}
