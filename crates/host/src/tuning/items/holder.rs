//! A request that lasts as long as a device is open (`/dev/cpu_dma_latency`; PM QoS,
//! Documentation/power/pm_qos_interface.rst).
//!
//! latlab has no daemon, so an idle process keeps the device open: `sleep infinity`, with the device as its
//! standard input. The holder is recognised by an environment variable that names the device, and by having the
//! device open, since any user may set the variable. This also finds the holder of a latlab that died before it
//! wrote the journal. The child holds the tuning lock until it has that environment, because the same `execve`
//! closes the lock's descriptor.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::value::Value;
use crate::sys::process::{self, Process};
use crate::tuning::root::Root;

/// The variable with device and value in a holder's environment.
const VARIABLE: &str = "LATLAB_TUNING_HOLDS";

/// For a new holder to be seen, and for a killed one to end.
const TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(1);

pub(super) fn read(root: &Root, device: &Path) -> io::Result<Value> {
    root.path(device).metadata()?;
    let found = holders(root, device)?;
    let held = found.into_iter().next();
    Ok(held.map_or(Value::Absent, |(_, value)| Value::Text(value)))
}

pub(super) fn write(root: &Root, device: &Path, value: &Value) -> io::Result<()> {
    end(root, device)?;
    if *value == Value::Absent {
        return Ok(());
    }
    let text = value.text().unwrap_or_default();
    let microseconds: i32 = text.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    let path = root.path(device);
    let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
    file.write_all(&microseconds.to_ne_bytes())?;
    let mut sleep = Command::new("sleep")
        .arg("infinity")
        .env_clear()
        .env(
            "PATH",
            std::env::var_os("PATH").unwrap_or("/usr/bin:/bin".into()),
        )
        .env(VARIABLE, format!("{}={value}", path.display()))
        .current_dir("/")
        // Outside of the terminal's process group, so that Ctrl-C does not reach it.
        .process_group(0)
        .stdin(Stdio::from(file))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let seen = wait_until_seen(root, device, value);
    if seen.is_err() {
        // The process has ended, or does so now.
        sleep.kill().ok();
        sleep.wait()?;
    }
    // The holder outlives this process, so its end is not waited for.
    seen
}

/// Waits until the holder is found by its environment: the kernel shows that a moment after the `execve` that `spawn` waits
/// for.
fn wait_until_seen(root: &Root, device: &Path, value: &Value) -> io::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while read(root, device)? != *value {
        if Instant::now() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn end(root: &Root, device: &Path) -> io::Result<()> {
    for (process, _) in holders(root, device)? {
        let failed = |e: crate::sys::Error| e.source;
        process.signal(Signal::KILL).map_err(failed)?;
        if !process.wait(TIMEOUT).map_err(failed)? {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        // Reaps the holder if this process started it.
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
            let environ = process::environ(pid).ok()?;
            let held = identity(Path::new(&format!("/proc/{pid}/fd/0")));
            let mut all = environ.split(|b| *b == 0);
            let value = all.find_map(|v| v.strip_prefix(mine.as_bytes()))?;
            if held != wanted {
                return None;
            }
            String::from_utf8(value.to_vec()).ok()
        };
        // The environment is read again after opening the process: its PID may have been reused.
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
    fn a_request_is_held_found_again_and_ended() {
        let dir = std::env::temp_dir().join(format!("latlab-holder-{}", std::process::id()));
        fs::create_dir_all(dir.join("dev")).unwrap();
        fs::write(dir.join("dev/latency"), "").unwrap();
        let root = Root::at(&dir);
        let device = Path::new("/dev/latency");
        assert_eq!(read(&root, device).unwrap(), Value::Absent);
        // Seen from the first moment on.
        for microseconds in (1..=20).map(|number: i32| number.to_string()) {
            let value = Value::from(microseconds);
            write(&root, device, &value).unwrap();
            assert_eq!(read(&root, device).unwrap(), value);
        }
        assert_eq!(
            fs::read(dir.join("dev/latency")).unwrap(),
            20_i32.to_ne_bytes()
        );
        write(&root, device, &Value::Absent).unwrap();
        assert_eq!(read(&root, device).unwrap(), Value::Absent);
        // A process that only claims to hold the device.
        let claim = format!("{}=20", dir.join("dev/latency").display());
        let mut sleep = Command::new("sleep");
        sleep.arg("600").env(VARIABLE, claim).stdin(Stdio::null());
        let mut pretender = sleep.spawn().unwrap();
        let comm = format!("/proc/{}/comm", pretender.id());
        while fs::read_to_string(&comm).unwrap() != "sleep\n" {}
        assert_eq!(read(&root, device).unwrap(), Value::Absent);
        write(&root, device, &Value::Absent).unwrap();
        assert!(pretender.try_wait().unwrap().is_none(), "it was killed");
        pretender.kill().unwrap();
        pretender.wait().unwrap();
        fs::remove_dir_all(&dir).unwrap();
    }
}
