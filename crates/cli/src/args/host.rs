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
  latlab host dut boot --cmdline \"isolcpus=2-7 nohz_full=2-7\"
  latlab host dut boot                          (without them again)
  latlab host dut console --record dut.log --seconds 120
  latlab host dut sensors --format json

hosts.yaml:
  hosts:
    dut:
      ssh: root@dut.example
      live: /srv/tftp                           (from `latlab image IMAGE --live /srv/tftp`)
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
    /// Start the host with kernel parameters, and verify that its kernel has them.
    Boot(HostBoot),
    /// Show temperatures, fans and power.
    Sensors {
        /// Output format.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
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
#[command(after_help = "\
Examples:
  latlab host dut boot --cmdline \"isolcpus=2-7 nohz_full=2-7\"
  latlab host dut boot --profile isolated --facts dut.json
  latlab host dut boot --record dut.log         (takes the parameters back)

A host with `live:` boots the live system in that directory from the network, once, by a power cycle. One without, or \
with `--installed`, is told by ssh to write the parameters for its GRUB (/etc/default/grub.d/90-latlab.cfg), and to \
reboot. Either way the exit code is 0 only if the kernel that then runs has exactly what was asked for. Parameters stay \
until the next `boot`, and one without parameters takes them back.")]
pub struct HostBoot {
    /// Kernel parameters beside the host's own.
    #[arg(long, value_name = "PARAMETERS")]
    pub cmdline: Option<String>,
    /// Those of a profile: a built-in one, a file, or the name of one in /etc/latlab/profiles.
    #[arg(long, conflicts_with = "cmdline", requires = "facts")]
    pub profile: Option<String>,
    /// The output of `latlab doctor --format json` on the host, whose CPUs the profile divides.
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub facts: Option<PathBuf>,
    /// CPUs to keep quiet, instead of the profile's or the default choice.
    #[arg(long, value_name = "LIST", requires = "profile")]
    pub cpus: Option<String>,
    /// Boot what is installed on the host, although it has a live system.
    #[arg(long)]
    pub installed: bool,
    /// Boot from the network as UEFI does, not as a legacy BIOS.
    #[arg(long, conflicts_with = "installed")]
    pub uefi: bool,
    /// Write the console's output into this new file.
    #[arg(long, value_name = "FILE", conflicts_with = "installed")]
    pub record: Option<PathBuf>,
    /// End another session that has the console.
    #[arg(long, conflicts_with = "installed")]
    pub take: bool,
    /// Wait this long for the host's answer.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "300")]
    pub wait: Duration,
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
