//! `latlab host`: a machine by its management controller.

mod beside;
mod boot;
mod console;
mod file;
mod power;
mod sensors;
mod session;
mod this_machine;

use latlab_bmc::{BootDevice, Controller};
use latlab_model::spec::ManagedHost;

use crate::args::{Device, Host, HostAction, HostBootDevice};
use crate::failure::{Outcome, of_controller};

pub use beside::{Beside, Machines};

pub fn run(args: &Host) -> Outcome {
    let hosts = file::read(&args.hosts)?;
    let host = file::find(&hosts, &args.hosts, &args.host)?;
    let controller = latlab_bmc::controller(host).map_err(of_controller)?;
    match &args.action {
        HostAction::Power(power) => power::run(host, &*controller, power),
        HostAction::BootDevice(boot) => boot_device(host, &*controller, boot),
        HostAction::Boot(boot) => boot::run(host, &*controller, boot),
        HostAction::Sensors { format } => sensors::run(&*controller, *format),
        HostAction::Console(console) => console::run(host, &*controller, console),
    }
}

fn boot_device(host: &ManagedHost, controller: &dyn Controller, args: &HostBootDevice) -> Outcome {
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
