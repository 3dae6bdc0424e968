//! How a guest's instructions run: by the CPU (KVM) or in software (TCG).
//!
//! That `/dev/kvm` opens proves little: there are machines on which it makes VMs and runs real-mode code
//! while a stock Linux guest spins for ever. So KVM counts only after it has booted the very kernel the
//! labs will boot, to user space, within a bound. The verdict holds for this boot of this host with this
//! QEMU and this kernel, and is kept in a file with its reason. A refusal is kept for an hour: the machine
//! may have been too busy, and where it is KVM's, no deployment waits for it each time.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::accelerator::{Accelerator, PROGRAM};
use super::console;
use super::kernel::Kernel;
use crate::sys;
use crate::sys::cached;
use crate::sys::file::{Lock, write_atomically};
use crate::sys::proc;
use crate::sys::process::{Exit, Process};
use crate::sys::spawn::Spawn;

/// A KVM guest reaches its init within half a second; a machine that needs ten times as long does not
/// run it in hardware.
const TIMEOUT: Duration = Duration::from_secs(5);
/// For how long a refusal is kept.
const REFUSED_FOR: Duration = Duration::from_secs(3600);
/// Name of the file in the cache that keeps the verdict; without it KVM is tried again.
pub const VERDICT_FILE: &str = "accelerator.json";
/// Label of the process that tries KVM; no lab has this identifier.
const PROBE: &str = "probe";
/// The agent's line when it only proves that user space runs.
const PROOF: &str = "latlab-agent: user space runs";

/// The accelerator to use, and the evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    pub accelerator: Accelerator,
    /// Why, in a sentence for people.
    pub reason: String,
    /// The identity that the verdict holds for: boot of the host, its kernel, QEMU, the guest's kernel.
    holds_for: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Sys(#[from] sys::Error),
    #[error("cannot run {PROGRAM}: {source}")]
    Qemu { source: io::Error },
    #[error("another latlab has been probing KVM for {} s", after.as_secs())]
    Locked { after: Duration },
}

/// Decides by booting `kernel` with the initramfs made for it, once a boot of this host if KVM works, else at most once
/// an hour. Fails when QEMU or the cache directory cannot be used. That KVM does not work is a verdict, not an error.
pub fn prove(kernel: &Kernel, initramfs: &Path, cache: &Path) -> Result<Verdict, Error> {
    let failed = sys::Error::of("make directory", cache.display());
    fs::create_dir_all(cache).map_err(failed)?;
    let timeout = TIMEOUT * 3;
    let lock = Lock::take(&cache.join("accelerator.lock"), timeout)?;
    let _lock = lock.ok_or(Error::Locked { after: timeout })?;
    let holds_for = identity(kernel)?;
    let memory = cache.join(VERDICT_FILE);
    if let Some(known) = kept(&memory, &holds_for) {
        return Ok(known);
    }
    let (accelerator, reason) = match try_kvm(kernel, initramfs, cache)? {
        Ok(reason) => (Accelerator::Kvm, reason),
        Err(reason) => (Accelerator::Tcg, reason),
    };
    let verdict = Verdict {
        accelerator,
        reason,
        holds_for,
    };
    let failed = sys::Error::of("write", memory.display());
    let text = serde_json::to_vec_pretty(&verdict).map_err(failed)?;
    write_atomically(&memory, &text, 0o644)?;
    Ok(verdict)
}

/// The verdict in the cache that still holds. A file that is not ours, or of another boot, is replaced.
fn kept(memory: &Path, holds_for: &str) -> Option<Verdict> {
    let text = fs::read(memory).ok()?;
    let known: Verdict = serde_json::from_slice(&text).ok()?;
    let written = cached::used(memory)?;
    let lasts = match known.accelerator {
        Accelerator::Kvm => true,
        Accelerator::Tcg => written.elapsed().is_ok_and(|age| age < REFUSED_FOR),
    };
    (lasts && known.holds_for == holds_for).then_some(known)
}

fn identity(kernel: &Kernel) -> Result<String, Error> {
    let boot = proc::boot_id()?;
    let host = rustix::system::uname();
    let release = host.release().to_string_lossy();
    let version = Command::new(PROGRAM).arg("--version").output();
    let version = version.map_err(|source| Error::Qemu { source })?;
    let version = String::from_utf8_lossy(&version.stdout);
    let version = version.lines().next().unwrap_or_default().to_owned();
    let guest = &kernel.release;
    Ok(format!(
        "boot {boot} of {release}; {version}; guest {guest}"
    ))
}

/// `Ok(Ok(why))` when KVM runs the kernel, `Ok(Err(why not))` when it does not.
fn try_kvm(
    kernel: &Kernel,
    initramfs: &Path,
    cache: &Path,
) -> Result<Result<String, String>, Error> {
    if let Err(error) = fs::File::options().read(true).write(true).open("/dev/kvm") {
        return Ok(Err(format!("/dev/kvm cannot be opened: {error}")));
    }
    let log = cache.join(format!("accelerator-{}.log", std::process::id()));
    let file =
        |path: &Path| fs::File::create(path).map_err(sys::Error::of("write", path.display()));
    let output = file(&log)?;
    // Tied to us: a guest that spins for ever must not outlive a latlab that is killed meanwhile.
    let command = Spawn::new(PROGRAM, PROBE)
        .tied()
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none", "-machine", "q35", "-accel", "kvm"])
        .args(["-cpu", "host", "-m", "256M", "-serial", "stdio"])
        .args(["-append", "console=ttyS0 panic=-1 latlab.probe"])
        .args([Path::new("-kernel"), &kernel.image])
        .args([Path::new("-initrd"), initramfs])
        .descriptor(output.as_fd(), 1)
        .descriptor(output.as_fd(), 2);
    let result = command.start().and_then(|process| watch(&process, &log));
    // The log is not needed any more; the verdict quotes it.
    let _ = fs::remove_file(&log);
    Ok(result?)
}

fn watch(process: &Process, log: &Path) -> Result<Result<String, String>, sys::Error> {
    let start = Instant::now();
    loop {
        let said = fs::read_to_string(log).unwrap_or_default();
        let proven = said.contains(PROOF);
        let ended = process.has_ended()?;
        if !proven && !ended && start.elapsed() < TIMEOUT {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        if !ended {
            process.signal(Signal::KILL)?;
            process.wait(TIMEOUT)?;
        }
        let exit = process.collect()?;
        if proven {
            let seconds = start.elapsed().as_secs_f64();
            return Ok(Ok(format!(
                "a guest under KVM reached user space in {seconds:.2} s"
            )));
        }
        let last = console::last_lines(log)
            .pop()
            .unwrap_or_else(|| "it printed nothing".into());
        return Ok(Err(match exit.filter(|_| ended) {
            Some(Exit::Code(code)) => {
                format!("the guest under KVM ended early (QEMU returned {code}); last line: {last}")
            }
            Some(Exit::Signal(signal)) => format!(
                "the guest under KVM ended early (QEMU was ended by signal {signal}); last line: {last}"
            ),
            None => format!(
                "/dev/kvm opens, but a guest did not reach user space within {} s; last line: {last}",
                TIMEOUT.as_secs()
            ),
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn watched(name: &str, script: &str) -> Result<String, String> {
        let log = std::env::temp_dir().join(format!("latlab-accel-{name}-{}", std::process::id()));
        let output = fs::File::create(&log).unwrap();
        let shell = Spawn::new("sh", PROBE).args(["-c", script]);
        let process = shell.descriptor(output.as_fd(), 1).start().unwrap();
        let result = watch(&process, &log).unwrap();
        fs::remove_file(log).unwrap();
        result
    }

    #[test]
    fn only_the_agents_word_is_proof() {
        assert!(watched("proof", "echo 'latlab-agent: user space runs'; sleep 60").is_ok());
        let refusal = watched("early", "echo 'kvm: not here'; exit 1").unwrap_err();
        assert!(
            refusal.contains("ended early") && refusal.contains("not here"),
            "{refusal}"
        );
    }

    #[test]
    fn a_verdict_is_read_back_as_it_was_written() {
        let verdict = Verdict {
            accelerator: Accelerator::Tcg,
            reason: "because".into(),
            holds_for: "boot x".into(),
        };
        let text = serde_json::to_string(&verdict).unwrap();
        assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
        assert!(serde_json::from_str::<Verdict>("{}").is_err());
    }

    #[test]
    fn a_refusal_is_kept_for_an_hour_only() {
        let file = std::env::temp_dir().join(format!("latlab-verdict-{}", std::process::id()));
        for (accelerator, hours, holds) in [
            (Accelerator::Kvm, 2, true),
            (Accelerator::Tcg, 0, true),
            (Accelerator::Tcg, 2, false),
        ] {
            let verdict = Verdict {
                accelerator,
                reason: "because".into(),
                holds_for: "boot x".into(),
            };
            fs::write(&file, serde_json::to_vec(&verdict).unwrap()).unwrap();
            let written = SystemTime::now() - hours * REFUSED_FOR;
            let written_file = fs::File::options().write(true).open(&file).unwrap();
            written_file.set_modified(written).unwrap();
            assert_eq!(kept(&file, "boot x"), holds.then_some(verdict));
            assert_eq!(kept(&file, "boot y"), None);
        }
        fs::remove_file(file).unwrap();
    }
}
