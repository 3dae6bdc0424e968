//! A guest's first process: from the kernel's hand-over to a served command channel.
//!
//! Every step delays every VM's start, five times longer under software emulation, so only necessary ones are done.
//! In this order: the modules packed by the host (in the packed order), the usual kernel file systems, the host's file
//! tree read-only with a writable layer in memory on top, the channel's ports. A failure does not end the
//! boot if the channel can still be served: the host then gets the reason instead of a timeout.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};

use crate::kernel_line::Parameters;
use crate::serve::{self, Readiness};
use crate::step::{StepError, step};
use crate::{cards, image, live, modules, network};

/// How long the channel's ports may take to appear after their driver was loaded.
const PORTS_APPEAR: Duration = Duration::from_secs(10);

/// Runs the guest. Returns only when the machine could not even be turned off.
pub fn run() -> ExitCode {
    let (parameters, mut failure) = match prepare() {
        Ok(parameters) => (parameters, None),
        // The channel is still worth trying, on its first port.
        Err(message) => {
            let parameters = Parameters {
                ports: 1,
                ..Parameters::default()
            };
            (parameters, Some(message))
        }
    };
    if parameters.probe {
        println!("latlab-agent: user space runs");
        return power_off();
    }
    if parameters.live {
        return live::run(&parameters, failure);
    }
    if failure.is_none() {
        failure = begin(&parameters).err().map(String::from);
    }
    if let Some(message) = &failure {
        eprintln!("latlab-agent: {message}");
    }
    let readiness = match failure {
        Some(message) => Readiness::Unusable(message),
        None if parameters.template => Readiness::Waiting,
        None => Readiness::Ready,
    };
    let served = open_ports(parameters.ports)
        .map_err(|error| error.to_string())
        .and_then(|ports| serve::on_ports(ports, readiness).map_err(|error| error.to_string()));
    if let Err(message) = served {
        eprintln!("latlab-agent: serve the channel: {message}");
    }
    power_off()
}

/// The guest's own steps before it serves its channel. One that is to be saved stops before anything that tells it from
/// its clones.
fn begin(parameters: &Parameters) -> Result<(), StepError> {
    image::prepare()?;
    network::quiet_ipv6();
    if parameters.template {
        return cards::release();
    }
    image::enter(parameters)?;
    match parameters.drivers {
        true => cards::load_drivers(),
        false => Ok(()),
    }
}

fn prepare() -> Result<Parameters, String> {
    for (kind, target) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys")] {
        let mounted = mount(kind, target, kind, MountFlags::empty(), None);
        step(mounted, || format!("mount {kind} on {target}"))?;
    }
    modules::load()?;
    let line = step(fs::read_to_string("/proc/cmdline"), || {
        "read /proc/cmdline".into()
    })?;
    Parameters::parse(&line)
}

/// Opens the channel's ports, which appear some time after their driver was loaded.
fn open_ports(count: usize) -> io::Result<Vec<OwnedFd>> {
    let deadline = Instant::now() + PORTS_APPEAR;
    loop {
        let devices = find_ports().unwrap_or_default();
        if devices.len() >= count {
            return devices
                .iter()
                .map(|device| {
                    let file = File::options().read(true).write(true).open(device)?;
                    Ok(file.into())
                })
                .collect();
        }
        if Instant::now() > deadline {
            return Err(io::Error::other(format!(
                "{} of {count} virtio-serial ports appeared within {} s",
                devices.len(),
                PORTS_APPEAR.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn find_ports() -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/class/virtio-ports")? {
        let entry = entry?;
        let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        let device = format!("/dev/{}", entry.file_name().to_string_lossy());
        if name.starts_with("latlab.") && Path::new(&device).exists() {
            found.push(device);
        }
    }
    Ok(found)
}

/// Turns the machine off. A machine that cannot be restarts, which its QEMU takes as the end too.
fn power_off() -> ExitCode {
    rustix::fs::sync();
    for command in [RebootCommand::PowerOff, RebootCommand::Restart] {
        if let Err(error) = reboot(command) {
            eprintln!("latlab-agent: {command:?}: {error}");
        }
    }
    ExitCode::FAILURE
}
