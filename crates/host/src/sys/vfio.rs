//! Devices of the PCI bus given to programs behind an IOMMU (kernel: driver-api/vfio), in sysfs.
//!
//! A device goes to the driver `vfio-pci` by its `driver_override` alone: no other device of its type follows, and when the
//! override is gone it matches its own driver again (kernel: ABI/testing/sysfs-bus-pci).

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Error;
use super::command::output;
use super::file::if_there;
use super::sriov::{Device, linked_name, name_of};
use crate::programs;

/// The driver that gives devices to programs.
pub const DRIVER: &str = "vfio-pci";
const MODULE: &str = "vfio_pci";
const DRIVERS: &str = "/sys/bus/pci/drivers";
const GROUPS: &str = "/sys/kernel/iommu_groups";
/// Opened by programs beside the file of a group, which is below this directory as well.
pub const CONTAINER: &str = "/dev/vfio/vfio";
const DIRECTORY: &str = "/dev/vfio";

/// A module is read from the disk, and may need others.
const MODPROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the file of a group may take to appear.
const FILE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the kernel may take to end with a device whose program has ended.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(10);

/// Whether the kernel has an IOMMU in use.
pub fn has_iommu() -> bool {
    fs::read_dir(GROUPS).is_ok_and(|mut groups| groups.next().is_some())
}

/// Loads the driver, unless it is there.
pub fn load() -> io::Result<()> {
    let driver = Path::new(DRIVERS).join(DRIVER);
    if driver.exists() {
        return Ok(());
    }
    let modprobe = programs::find("modprobe");
    let modprobe = modprobe.ok_or_else(|| io::Error::other("modprobe is not installed"))?;
    output(modprobe.as_os_str(), &[MODULE], "", MODPROBE_TIMEOUT)?;
    match driver.exists() {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "the kernel has no driver {DRIVER}"
        ))),
    }
}

/// The file by which a program opens a group.
pub fn file_of(group: u32) -> PathBuf {
    Path::new(DIRECTORY).join(group.to_string())
}

/// A driver of a device, and its override, as they were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driven {
    pub driver: Option<String>,
    pub forced: Option<String>,
}

/// The IOMMU group of the device with this directory; none without an IOMMU.
pub fn group_of(device: &Path) -> Option<u32> {
    linked_name(&device.join("iommu_group"))?.parse().ok()
}

/// The other devices of its group, but bridges: those stay the kernel's.
pub fn others_of_group(device: &Path) -> Vec<String> {
    const BRIDGES: &str = "0x06";
    let devices = fs::read_dir(device.join("iommu_group/devices"));
    let is_other = |other: &PathBuf| {
        let class = fs::read_to_string(other.join("class"));
        let is_bridge = class.is_ok_and(|class| class.starts_with(BRIDGES));
        other.file_name() != device.file_name() && !is_bridge
    };
    let others = devices.into_iter().flatten().flatten();
    let others = others.map(|other| other.path()).filter(is_other);
    let mut names: Vec<String> = others.filter_map(|other| name_of(&other)).collect();
    names.sort();
    names
}

/// Ways in which the kernel can reset the device with this directory, in the order in which it tries them; unknown where
/// a kernel before Linux 5.15 knows some (kernel: ABI/testing/sysfs-bus-pci).
pub fn reset_methods(device: &Path) -> Option<Vec<String>> {
    match fs::read_to_string(device.join("reset_method")) {
        Ok(words) => Some(words.split_whitespace().map(str::to_owned).collect()),
        Err(_) if device.join("reset").exists() => None,
        Err(_) => Some(Vec::new()),
    }
}

impl Device {
    /// Whether the kernel knows a way to reset it.
    pub fn can_be_reset(&self) -> bool {
        reset_methods(&self.directory()).is_none_or(|methods| !methods.is_empty())
    }

    pub fn group(&self) -> Option<u32> {
        group_of(&self.directory())
    }

    /// Its driver, and the one that it was told to have.
    pub fn driven(&self) -> Driven {
        let forced = fs::read_to_string(self.directory().join("driver_override"));
        let forced = forced.ok().map(|text| text.trim().to_owned());
        Driven {
            driver: linked_name(&self.directory().join("driver")),
            forced: forced.filter(|text| !text.is_empty() && text != "(null)"),
        }
    }

    /// Takes it from its driver and gives it to that of VFIO. Returns its group, whose file is there then.
    pub fn give_to_vfio(&self) -> Result<u32, Error> {
        load().map_err(Error::of("load", DRIVER))?;
        self.force(Some(DRIVER))?;
        if self.driven().driver.as_deref() != Some(DRIVER) {
            self.unbind()?;
            self.probe()?;
        }
        let failed = |reason: &str| {
            let kind = io::ErrorKind::Other;
            Err(Error::because("give to VFIO", &self.address, kind, reason))
        };
        if self.driven().driver.as_deref() != Some(DRIVER) {
            return failed("vfio-pci did not take it; see `dmesg`");
        }
        let Some(group) = self.group() else {
            return failed("it has no IOMMU group");
        };
        let deadline = Instant::now() + FILE_TIMEOUT;
        while !file_of(group).exists() {
            if Instant::now() >= deadline {
                return failed("its group has no file in /dev/vfio");
            }
            std::thread::sleep(RETRY);
        }
        Ok(group)
    }

    /// Gives it back to the driver that it had. To be repeated after whatever stopped it half-way.
    pub fn take_from_vfio(&self, before: &Driven) -> Result<(), Error> {
        if !self.directory().exists() {
            return Ok(());
        }
        self.wait_until_released()?;
        let now = self.driven().driver;
        if now.as_deref() == Some(DRIVER) && self.can_be_reset() {
            // The kernel did so too when its program ended. Its own driver begins with a reset of its kind, so a refusal
            // is no reason to keep it.
            fs::write(self.directory().join("reset"), "1").ok();
        }
        self.force(before.forced.as_deref())?;
        if now.as_deref() == Some(DRIVER) && now != before.driver {
            self.unbind()?;
        }
        match &before.driver {
            Some(driver) if self.driven().driver.is_none() => {
                let file = Path::new(DRIVERS).join(driver).join("bind");
                fs::write(&file, &self.address).map_err(Error::of("write", file.display()))
            }
            _ => Ok(()),
        }
    }

    /// Waits until no program has it open: the kernel would wait for that without end. Fails when one still has.
    pub fn wait_until_released(&self) -> Result<(), Error> {
        if self.driven().driver.as_deref() != Some(DRIVER) {
            return Ok(());
        }
        let Some(file) = self.group().map(file_of) else {
            return Ok(());
        };
        let deadline = Instant::now() + RELEASE_TIMEOUT;
        loop {
            // Only one opens it at a time.
            match OpenOptions::new().read(true).write(true).open(&file) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    if Instant::now() >= deadline {
                        return Err(Error::of("release", &self.address)(error));
                    }
                }
                _ => return Ok(()),
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Names the driver that is to have it; `None` leaves that to the kernel.
    fn force(&self, driver: Option<&str>) -> Result<(), Error> {
        let file = self.directory().join("driver_override");
        // An empty line takes it back.
        let text = driver.unwrap_or_default().to_owned() + "\n";
        fs::write(&file, text).map_err(Error::of("write", file.display()))
    }

    fn unbind(&self) -> Result<(), Error> {
        let file = self.directory().join("driver/unbind");
        let written = if_there(fs::write(&file, &self.address));
        written
            .map(drop)
            .map_err(Error::of("write", file.display()))
    }

    fn probe(&self) -> Result<(), Error> {
        let file = "/sys/bus/pci/drivers_probe";
        fs::write(file, &self.address).map_err(Error::of("write", file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_reset_are_known_none_or_untold() {
        let device = std::env::temp_dir().join(format!("latlab-reset-{}", std::process::id()));
        fs::create_dir_all(&device).unwrap();
        assert_eq!(reset_methods(&device), Some(Vec::new()));
        fs::write(device.join("reset"), "").unwrap();
        assert_eq!(reset_methods(&device), None);
        fs::write(device.join("reset_method"), "flr bus\n").unwrap();
        assert_eq!(reset_methods(&device).unwrap(), ["flr", "bus"]);
        fs::write(device.join("reset_method"), "\n").unwrap();
        assert_eq!(reset_methods(&device), Some(Vec::new()));
        fs::remove_dir_all(device).unwrap();
    }
}
