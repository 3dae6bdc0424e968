//! Requests that every controller understands.

use std::process::Command;

use serde::Serialize;

use crate::error::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Power {
    On,
    Off,
}

/// A change of the power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    On,
    /// At once, whatever the system does.
    Off,
    /// The system is asked to shut down.
    Soft,
    /// Off, and on again.
    Cycle,
    /// A reset of the CPUs, with the power on.
    Reset,
}

/// A device from which the next start boots, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootDevice {
    /// As the firmware is set.
    None,
    Disk,
    Pxe,
    Cdrom,
    /// The firmware's setup.
    Bios,
}

/// A reading.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sensor {
    pub name: String,
    /// None: there is no reading at present.
    pub value: Option<f64>,
    /// As the controller names it: `degrees C`, `Watts`, `RPM`.
    pub unit: String,
    /// As the controller names it; `ok` where nothing is wrong.
    pub state: String,
}

pub trait Controller {
    fn power(&self) -> Result<Power, Error>;

    /// Asks for a change. It may take time: [`crate::switch_and_wait`] waits for it.
    fn switch(&self, switch: Switch) -> Result<(), Error>;

    /// Has the next start boot from a device; `uefi` instead of the legacy BIOS.
    fn boot_once(&self, device: BootDevice, uefi: bool) -> Result<(), Error>;

    fn sensors(&self) -> Result<Vec<Sensor>, Error>;

    /// The UUID of the machine, as its firmware tells it to the system (SMBIOS), if it is told.
    fn uuid(&self) -> Result<Option<String>, Error>;

    /// A command whose standard streams are the machine's serial console.
    fn console(&self) -> Result<Command, Error>;

    /// Ends a session of the console that another client, or an interrupted one, holds.
    fn free_console(&self) -> Result<(), Error>;
}
