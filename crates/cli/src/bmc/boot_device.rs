//! `latlab host HOST boot-device`.

use latlab_bmc::{BootDevice, Controller};
use latlab_model::spec::ManagedHost;

use crate::args::{Device, HostBootDevice};
use crate::failure::{Outcome, of_controller};

pub fn run(host: &ManagedHost, controller: &dyn Controller, args: &HostBootDevice) -> Outcome {
    let (device, what) = match args.device {
        Device::None => (BootDevice::None, "boots as its firmware is set"),
        Device::Disk => (BootDevice::Disk, "boots from disk next, once"),
        Device::Pxe => (BootDevice::Pxe, "boots from the network next, once"),
        Device::Cdrom => (BootDevice::Cdrom, "boots from CD next, once"),
        Device::Bios => (BootDevice::Bios, "starts its firmware's setup next, once"),
    };
    controller
        .boot_once(device, args.uefi)
        .map_err(of_controller)?;
    println!("{}: {what}", *host.name);
    Ok(std::process::ExitCode::SUCCESS)
}
