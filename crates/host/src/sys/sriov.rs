//! Cards that divide themselves into virtual functions (kernel, Documentation/PCI/pci-iov-howto.rst), in sysfs.

use std::fs;
use std::path::{Path, PathBuf};

use latlab_model::units::CpuList;

use super::Error;
use super::file::if_there;

/// The directory of the PCI bus's devices.
const BUS: &str = "/sys/bus/pci/devices";

/// The last name of a path, where it is text.
pub fn name_of(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

/// The name of what a link in sysfs leads to, such as a device's `driver`.
pub fn linked_name(link: &Path) -> Option<String> {
    name_of(&fs::read_link(link).ok()?)
}

/// A device of the PCI bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Such as `0000:03:00.0`.
    pub address: String,
}

impl Device {
    /// The device behind an interface of this network namespace; `None` behind a virtual one, and on other buses.
    pub fn of_interface(name: &str) -> Option<Device> {
        let device = fs::canonicalize(format!("/sys/class/net/{name}/device")).ok()?;
        let address = name_of(&device)?;
        let device = Device { address };
        device.exists().then_some(device)
    }

    /// Its directory in sysfs.
    pub fn directory(&self) -> PathBuf {
        PathBuf::from(BUS).join(&self.address)
    }

    pub fn exists(&self) -> bool {
        self.directory().exists()
    }

    /// How many virtual functions it can have; 0 without SR-IOV.
    pub fn max_functions(&self) -> u32 {
        self.number("sriov_totalvfs")
    }

    pub fn functions(&self) -> u32 {
        self.number("sriov_numvfs")
    }

    fn number(&self, file: &str) -> u32 {
        let text = fs::read_to_string(self.directory().join(file));
        text.ok().and_then(|t| t.trim().parse().ok()).unwrap_or(0)
    }

    /// Makes this many virtual functions, where there are none, or removes all of them: 0.
    pub fn set_functions(&self, count: u32) -> Result<(), Error> {
        let file = self.directory().join("sriov_numvfs");
        fs::write(&file, count.to_string()).map_err(Error::of("write", file.display()))
    }

    /// One of its virtual functions, from 0.
    pub fn function(&self, number: u32) -> Result<Device, Error> {
        let link = self.directory().join(format!("virtfn{number}"));
        let device = fs::canonicalize(&link).map_err(Error::of("find", link.display()))?;
        let address = device.file_name().unwrap_or_default();
        Ok(Device {
            address: address.to_string_lossy().into_owned(),
        })
    }

    /// Has its driver let it go and take it again: some read a function's address then only. False without a driver.
    pub fn bind_again(&self) -> Result<bool, Error> {
        let driver = if_there(fs::canonicalize(self.directory().join("driver")))
            .map_err(Error::of("find the driver of", &self.address))?;
        let Some(driver) = driver else {
            return Ok(false);
        };
        for file in ["unbind", "bind"] {
            let file = driver.join(file);
            fs::write(&file, &self.address).map_err(Error::of("write", file.display()))?;
        }
        Ok(true)
    }

    /// Keeps its interrupts on these CPUs. Those that the kernel manages by itself stay where they are.
    pub fn keep_interrupts(&self, cpus: &CpuList) {
        let numbers = fs::read_dir(self.directory().join("msi_irqs"));
        for number in numbers.into_iter().flatten().flatten() {
            let number = number.file_name();
            let file = PathBuf::from("/proc/irq").join(number);
            fs::write(file.join("smp_affinity_list"), cpus.to_string()).ok();
        }
    }

    /// How many interfaces it has in this network namespace.
    pub fn interfaces(&self) -> usize {
        fs::read_dir(self.directory().join("net")).map_or(0, Iterator::count)
    }

    /// Its interface, while it has one in this network namespace.
    pub fn interface(&self) -> Option<String> {
        let mut interfaces = fs::read_dir(self.directory().join("net")).ok()?;
        interfaces.next()?.ok()?.file_name().into_string().ok()
    }
}
