//! A machine's power, boot device, sensors and console, by its management controller.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::format::Format;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab host dut power
  latlab host dut power cycle
  latlab host dut boot-device pxe
  latlab host dut console --record dut.log --seconds 120
  latlab host dut sensors --format json

hosts.yaml:
  hosts:
    dut:
      ssh: root@dut.example
      bmc: {type: ipmi, address: 192.0.2.7, user: admin, password: {env: DUT_PASSWORD}}
    generator:
      bmc: {type: redfish, address: 192.0.2.8, user: admin, password: {file: generator.password}}

Controllers of `type: ipmi` are asked by ipmitool. Needs no root. The machine on which latlab runs is not switched off.")]
pub struct Host {
    /// Name of the host in the file.
    pub host: String,
    /// File of hosts and their controllers.
    #[arg(
        long,
        env = "LATLAB_HOSTS",
        value_name = "FILE",
        default_value = "hosts.yaml"
    )]
    pub hosts: PathBuf,
    #[command(subcommand)]
    pub action: HostAction,
}

#[derive(Debug, Subcommand)]
pub enum HostAction {
    /// Show whether the power is on, or switch it and wait until it is so.
    Power(HostPower),
    /// Have the next start boot from a device, once.
    BootDevice(HostBootDevice),
    /// Show temperatures, fans and power.
    Sensors(HostSensors),
    /// Use the serial console over the network, or record it.
    Console(HostConsole),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PowerChange {
    /// Switch on.
    On,
    /// Switch off at once, whatever the system does.
    Off,
    /// Have the system shut down.
    Soft,
    /// Off, and on again.
    Cycle,
    /// Reset the CPUs with the power on.
    Reset,
}

#[derive(Debug, Args)]
pub struct HostPower {
    /// The change; without it the state is shown.
    #[arg(value_enum)]
    pub change: Option<PowerChange>,
    /// Wait this long for the change [default: 10, of `soft` 120].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub wait: Option<Duration>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// As the firmware is set.
    None,
    /// The first disk.
    Disk,
    /// The network.
    Pxe,
    /// The CD, or what the controller shows as one.
    Cdrom,
    /// The firmware's setup.
    Bios,
}

#[derive(Debug, Args)]
pub struct HostBootDevice {
    /// The device.
    #[arg(value_enum)]
    pub device: Device,
    /// Boot as UEFI does, not as a legacy BIOS.
    #[arg(long)]
    pub uefi: bool,
}

#[derive(Debug, Args)]
pub struct HostSensors {
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct HostConsole {
    /// Write what the host prints into this new file, until Ctrl-C.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Record this long.
    #[arg(long, value_name = "SECONDS", requires = "record", value_parser = seconds)]
    pub seconds: Option<Duration>,
    /// End another session that has the console.
    #[arg(long)]
    pub take: bool,
}

/// A time from 1 s to a day.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|n| (1..=86_400).contains(n));
    let seconds = seconds.ok_or("a whole number of seconds from 1 to 86400 is needed")?;
    Ok(Duration::from_secs(seconds))
}
