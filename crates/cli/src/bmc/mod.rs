//! `latlab host`: a machine by its management controller.

mod console;
mod power;
mod sensors;
mod this_machine;

use latlab_bmc::{BootDevice, Controller};
use latlab_model::spec::{ManagedHost, ManagedHosts};

use crate::args::{Device, Host, HostAction, HostBootDevice};
use crate::failure::{Failure, Outcome, of_controller};
use crate::files::Source;

pub fn run(args: &Host) -> Outcome {
    let source = Source::read(&args.hosts).map_err(|failure| match args.hosts.exists() {
        true => failure,
        false => failure.and_hint("`latlab host --help` shows one; `--hosts` names another"),
    })?;
    let hosts = match ManagedHosts::parse(&source.text) {
        Ok(hosts) => hosts,
        Err(mistakes) => return source.mistakes(mistakes).outcome(),
    };
    let host = find(&hosts, args)?;
    let controller = latlab_bmc::controller(host).map_err(of_controller)?;
    match &args.action {
        HostAction::Power(power) => power::run(host, &*controller, power),
        HostAction::BootDevice(boot) => boot_device(host, &*controller, boot),
        HostAction::Sensors(sensors) => sensors::run(&*controller, sensors),
        HostAction::Console(console) => console::run(host, &*controller, console),
    }
}

fn find<'h>(hosts: &'h ManagedHosts, args: &Host) -> Result<&'h ManagedHost, Failure> {
    hosts.host(&args.host).ok_or_else(|| {
        let names: Vec<&str> = hosts.hosts.iter().map(|host| host.name.as_str()).collect();
        let message = format!("{} has no host `{}`", args.hosts.display(), args.host);
        Failure::new(message, format!("it has {}", names.join(", ")))
    })
}

fn boot_device(host: &ManagedHost, controller: &dyn Controller, args: &HostBootDevice) -> Outcome {
    let device = match args.device {
        Device::None => BootDevice::None,
        Device::Disk => BootDevice::Disk,
        Device::Pxe => BootDevice::Pxe,
        Device::Cdrom => BootDevice::Cdrom,
        Device::Bios => BootDevice::Bios,
    };
    controller
        .boot_once(device, args.uefi)
        .map_err(of_controller)?;
    let name = host.name.value.as_str();
    match args.device {
        Device::None => println!("{name}: boots as its firmware is set"),
        Device::Disk => println!("{name}: boots from disk next, once"),
        Device::Pxe => println!("{name}: boots from the network next, once"),
        Device::Cdrom => println!("{name}: boots from CD next, once"),
        Device::Bios => println!("{name}: starts its firmware's setup next, once"),
    }
    Ok(std::process::ExitCode::SUCCESS)
}
