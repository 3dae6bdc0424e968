//! The verbs of `latlab host`, for a host of the file.

use super::{boot, boot_device, console, file, power, sensors};
use crate::args::{Host, HostAction};
use crate::failure::{Outcome, of_controller};

pub fn run(args: &Host) -> Outcome {
    let hosts = file::read(&args.hosts)?;
    let host = file::find(&hosts, &args.hosts, &args.host)?;
    let controller = latlab_bmc::controller(host).map_err(of_controller)?;
    match &args.action {
        HostAction::Power(power) => power::run(host, &*controller, power),
        HostAction::BootDevice(boot) => boot_device::run(host, &*controller, boot),
        HostAction::Boot(boot) => boot::run(host, &*controller, boot),
        HostAction::Sensors { format } => sensors::run(&*controller, *format),
        HostAction::Console(console) => console::run(host, &*controller, console),
    }
}
