//! A machine's first process where it started from the network (`latlab image --live`): it makes the image the root, tells on
//! the console what the machine was started with, and hands over to the image's own `init`.
//!
//! The console is all that the one who started the machine can be sure of: it needs no address and no service. What fails is
//! told there too, and the machine stays up.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};
use rustix::process::{WaitOptions, wait};

use crate::image;
use crate::kernel_line::Parameters;
use crate::os;
use crate::step::{StepError, step};

const IMAGE: &str = "/image.squashfs";
const MODULES: &str = "/modules.squashfs";
/// The image's first process, the likeliest first; a shell is better than nothing.
const FIRST: [&str; 4] = ["/sbin/init", "/lib/systemd/systemd", "/bin/init", "/bin/sh"];
/// Between two looks for children that have ended.
const REST: Duration = Duration::from_secs(1);

/// Runs the machine; `failure` is that of what came before. Returns never.
pub fn run(parameters: &Parameters, failure: Option<String>) -> ExitCode {
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let has_image = Path::new(IMAGE).exists();
    let failure = failure.or_else(|| has_image.then(enter)?.err().map(String::from));
    let id = parameters.boot.as_deref().unwrap_or("-");
    tell(&match &failure {
        None => format!("latlab: live {id} runs with: {}", line.trim()),
        Some(reason) => format!("latlab: live {id} failed: {reason}"),
    });
    if has_image && failure.is_none() {
        for program in FIRST {
            // Returns where there is none.
            let error = Command::new(program).exec();
            if error.kind() != io::ErrorKind::NotFound {
                eprintln!("latlab-agent: start {program}: {error}");
            }
        }
    }
    loop {
        // None has ended, or there is none.
        if !matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {
            thread::sleep(REST);
        }
    }
}

/// Writes the answer in one piece, and once more: the kernel may write its own lines into the midst of it.
fn tell(line: &str) {
    let text = format!("\n{line} :end\n");
    for _ in 0..2 {
        // Without a console there is no one to tell.
        let _ = io::stdout().write_all(text.as_bytes());
        let _ = io::stdout().flush();
    }
}

fn enter() -> Result<(), StepError> {
    image::prepare()?;
    mount_squashfs(&device(IMAGE)?, "/lower")?;
    let modules = match Path::new(MODULES).exists() {
        true => Some(device(MODULES)?),
        false => None,
    };
    image::become_root()?;
    let Some(device) = modules else {
        return Ok(());
    };
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let target = format!("/lib/modules/{release}");
    step(fs::create_dir_all(&target), || format!("make {target}"))?;
    mount_squashfs(&device, &target)
}

/// A block device of a file.
fn device(file: &str) -> Result<String, StepError> {
    let attach = || os::attach_loop(&File::open("/dev/loop-control")?, &File::open(file)?);
    let number = step(attach(), || format!("make a device of {file}"))?;
    Ok(format!("/dev/loop{number}"))
}

fn mount_squashfs(device: &str, target: &str) -> Result<(), StepError> {
    let flags = MountFlags::RDONLY;
    step(mount(device, target, "squashfs", flags, None), || {
        format!("mount {device} on {target}")
    })
}
