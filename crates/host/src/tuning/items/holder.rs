//! A wish that lasts as long as a device is open (`/dev/cpu_dma_latency`; PM QoS,
//! Documentation/power/pm_qos_interface.rst).
//!
//! latlab has no daemon, so a process that does nothing keeps the device open: `sleep infinity`,
//! whose standard input it is. It is known by a variable in its environment that names this tuning
//! and the device, and by having the device open: anybody may set the variable. So is one that was started by a latlab that died before
//! it could note anything. The tuning's lock is held by such a child until it has that environment,
//! because the lock's descriptor is closed by the same `execve`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::ABSENT;
use crate::sys::process::Process;
use crate::tuning::root::Root;

/// Names the device and the value in a holder's environment.
const VARIABLE: &str = "LATLAB_TUNING_HOLDS";

/// A process that sleeps ends at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// The value that is held, or [`ABSENT`].
pub(super) fn read(root: &Root, device: &Path) -> io::Result<String> {
    root.path(device).metadata()?;
    let found = holders(root, device)?;
    Ok(found.into_iter().next().map_or(ABSENT.into(), |(_, v)| v))
}

pub(super) fn write(root: &Root, device: &Path, value: &str) -> io::Result<()> {
    end(root, device)?;
    if value == ABSENT {
        return Ok(());
    }
    let microseconds: i32 = value.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    let path = root.path(device);
    let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
    file.write_all(&microseconds.to_ne_bytes())?;
    let sleep = Command::new("sleep")
        .arg("infinity")
        .env_clear()
        .env(
            "PATH",
            std::env::var_os("PATH").unwrap_or("/usr/bin:/bin".into()),
        )
        .env(VARIABLE, format!("{}={value}", path.display()))
        .current_dir("/")
        // Not of the terminal's group: Ctrl-C is not meant for it.
        .process_group(0)
        .stdin(Stdio::from(file))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    // It outlives this process, which therefore does not wait for it.
    sleep.map(|_| ())
}

fn end(root: &Root, device: &Path) -> io::Result<()> {
    for (process, _) in holders(root, device)? {
        let failed = |e: crate::sys::Error| e.source;
        process.signal(Signal::KILL).map_err(failed)?;
        if !process.wait(PATIENCE).map_err(failed)? {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        // Ours where this very process made it; nobody else's child is collected.
        process.collect().map_err(failed)?;
    }
    Ok(())
}

/// The processes that hold the device for latlab, each with its value.
fn holders(root: &Root, device: &Path) -> io::Result<Vec<(Process, String)>> {
    let mine = format!("{VARIABLE}={}=", root.path(device).display());
    let identity = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let wanted = identity(&root.path(device));
    let mut found = Vec::new();
    for pid in fs::read_dir("/proc")?
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok())
    {
        let value = || {
            let environ = Root::default().environ(pid).ok()?;
            let held = identity(Path::new(&format!("/proc/{pid}/fd/0")));
            let mut all = environ.split(|b| *b == 0);
            let value = all.find_map(|v| v.strip_prefix(mine.as_bytes()))?;
            if held != wanted {
                return None;
            }
            String::from_utf8(value.to_vec()).ok()
        };
        // The process is opened before its environment is read again, so that it is this one.
        if value().is_none() {
            continue;
        }
        let process = Process::of_pid(pid).map_err(|e| e.source)?;
        if let (Some(process), Some(value)) = (process, value()) {
            found.push((process, value));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_held_found_again_and_ended() {
        let dir = std::env::temp_dir().join(format!("latlab-holder-{}", std::process::id()));
        fs::create_dir_all(dir.join("dev")).unwrap();
        fs::write(dir.join("dev/wish"), "").unwrap();
        let root = Root::at(&dir);
        let device = Path::new("/dev/wish");
        assert_eq!(read(&root, device).unwrap(), ABSENT);
        write(&root, device, "20").unwrap();
        assert_eq!(
            fs::read(dir.join("dev/wish")).unwrap(),
            20_i32.to_ne_bytes()
        );
        // Until its execve the child has our environment, not its own.
        let deadline = std::time::Instant::now() + PATIENCE;
        while read(&root, device).unwrap() != "20" {
            assert!(std::time::Instant::now() < deadline, "never held");
        }
        write(&root, device, ABSENT).unwrap();
        assert_eq!(read(&root, device).unwrap(), ABSENT);
        // One that only says that it holds it.
        let claim = format!("{}=20", dir.join("dev/wish").display());
        let mut sleep = Command::new("sleep");
        sleep.arg("600").env(VARIABLE, claim).stdin(Stdio::null());
        let mut pretender = sleep.spawn().unwrap();
        let comm = format!("/proc/{}/comm", pretender.id());
        while fs::read_to_string(&comm).unwrap() != "sleep\n" {}
        assert_eq!(read(&root, device).unwrap(), ABSENT);
        write(&root, device, ABSENT).unwrap();
        assert!(pretender.try_wait().unwrap().is_none(), "it was killed");
        pretender.kill().unwrap();
        pretender.wait().unwrap();
        fs::remove_dir_all(&dir).unwrap();
    }
}
