//! DPDK in a guest: its huge pages, which its kernel reserved at boot, and network cards for a program.
//!
//! A card that a program drives is a device of the PCI bus, which goes from the kernel's driver to `vfio-pci` by its
//! `driver_override` alone (kernel: ABI/testing/sysfs-bus-pci). Cards are known by their Ethernet addresses, as the host
//! gave them.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount};

use crate::os;
use crate::step::{StepError, step};

const PLACE: &str = "/dev/hugepages";
const POOLS: &str = "/sys/kernel/mm/hugepages";
const INTERFACES: &str = "/sys/class/net";
const DRIVER: &str = "vfio-pci";
const PROBE: &str = "/sys/bus/pci/drivers_probe";
/// How long a card may take to appear after its driver was loaded.
const APPEAR: Duration = Duration::from_secs(5);

/// Counts the pages of `page` bytes, and mounts `bytes` of them, promised to this mount.
pub fn huge_pages(page: &str, bytes: &str) -> Result<(), String> {
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("{text} is no number of bytes"))
    };
    let (page, bytes) = (number(page)?, number(bytes)?);
    let wanted = bytes / page.max(1);
    let size = format!("{} MiB", page >> 20);
    let pool = format!("{POOLS}/hugepages-{}kB", page >> 10);
    if !Path::new(&pool).exists() {
        return Err(format!("the guest's CPU or kernel has none of {size}"));
    }
    let there = fs::read_to_string(format!("{pool}/nr_hugepages"));
    let there = there.map_err(|error| format!("read {pool}/nr_hugepages: {error}"))?;
    let there: u64 = there.trim().parse().unwrap_or(0);
    if there < wanted {
        return Err(format!(
            "of {wanted} pages of {size} the guest's kernel could reserve {there}"
        ));
    }
    step(fs::create_dir_all(PLACE), || format!("make {PLACE}"))?;
    let options = format!("pagesize={page},size={bytes},min_size={bytes},mode=0700");
    let options = CString::new(options).expect("no NUL");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let mounted = mount("hugetlbfs", PLACE, "hugetlbfs", flags, Some(&*options));
    Ok(step(mounted, || format!("mount huge pages on {PLACE}"))?)
}

/// Gives the cards with these Ethernet addresses to a driver of DPDK's ports. Prints the addresses on the bus of those
/// that a program drives itself, a line each.
pub fn ports(driver: &str, macs: &[&str]) -> Result<(), String> {
    for mac in macs {
        let interface = interface(mac)?;
        match driver {
            "vfio" => println!("{}", give(&interface)?),
            // Packet sockets get the frames of a card as they came, not several joined to one that is too long for a port.
            "af-packet" => step(os::switch_off_gro(&interface), || {
                format!("have {interface} join no frames")
            })?,
            other => return Err(format!("driver {other} is not for guests")),
        }
    }
    Ok(())
}

/// The interface with this Ethernet address, which is a card's.
fn interface(mac: &str) -> Result<String, StepError> {
    let deadline = Instant::now() + APPEAR;
    loop {
        let entries = step(fs::read_dir(INTERFACES), || format!("list {INTERFACES}"))?;
        let found = entries.flatten().map(|entry| entry.path()).find(|path| {
            let address = fs::read_to_string(path.join("address")).unwrap_or_default();
            address.trim() == mac && path.join("device").exists()
        });
        if let Some(name) = found.as_deref().and_then(Path::file_name) {
            return Ok(name.to_string_lossy().into_owned());
        }
        if Instant::now() > deadline {
            let none = Err(io::Error::from(io::ErrorKind::NotFound));
            return step(none, || format!("find the network card {mac}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Takes a card from its driver and gives it to that of programs. Returns its address on the bus.
fn give(interface: &str) -> Result<String, StepError> {
    let device = step(device(interface), || {
        format!("find the device of {interface} on the PCI bus")
    })?;
    let name = device.file_name().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let refused = |reason: &str| {
        step(Err(io::Error::other(reason.to_owned())), || {
            format!("give network card {name} to {DRIVER}")
        })
    };
    if !device.join("iommu_group").exists() {
        return refused("it has no IOMMU group");
    }
    write(&device.join("driver_override"), DRIVER)?;
    write(&device.join("driver/unbind"), &name)?;
    write(Path::new(PROBE), &name)?;
    let driver = fs::read_link(device.join("driver")).unwrap_or_default();
    match driver.ends_with(DRIVER) {
        true => Ok(name),
        false => refused("it was not taken"),
    }
}

fn write(file: &Path, text: &str) -> Result<(), StepError> {
    step(fs::write(file, text), || {
        format!("write {text} to {}", file.display())
    })
}

/// The device of the PCI bus behind an interface; a virtio card is one of virtio's bus, below it.
fn device(interface: &str) -> io::Result<PathBuf> {
    let mut path = fs::canonicalize(format!("{INTERFACES}/{interface}/device"))?;
    loop {
        let bus = fs::read_link(path.join("subsystem")).unwrap_or_default();
        if bus.ends_with("pci") {
            return Ok(path);
        }
        if !path.pop() {
            return Err(io::ErrorKind::NotFound.into());
        }
    }
}
