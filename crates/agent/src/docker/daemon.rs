//! The start of a daemon and of its only container.

use std::os::fd::{OwnedFd, RawFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::api::{Api, NO_FILES};
use super::handover::{COUNT, DESCRIPTORS, DOCUMENT, FIRST};
use crate::os;
use crate::os::UnshareFlags;

const CONTAINER: &str = "node";
const IMAGE: &str = "latlab";

/// All that the daemon has to accept; the runtime takes latlab's configuration instead.
const SETTINGS: &str = r#"{"Image":"latlab","Cmd":["pause"],"NetworkDisabled":true,"HostConfig":{"NetworkMode":"none","CapDrop":["ALL"],"SecurityOpt":["no-new-privileges"],"LogConfig":{"Type":"none"}}}"#;

const INTERVAL: Duration = Duration::from_millis(2);

/// Starts dockerd with a configuration file that names its socket, and has it start a container from latlab's own
/// configuration with that many descriptors. Returns once the container runs; the daemons stay.
pub fn run(file: &str, socket: &str, document: &str, count: &str) -> Result<(), String> {
    let number: RawFd = count
        .parse()
        .map_err(|_| format!("docker: {count} is no number of descriptors"))?;
    // Kept open until the container has them, and closed in the daemons.
    let held: Result<Vec<OwnedFd>, _> = (0..number).map(|n| os::inherited(FIRST + n)).collect();
    let _held = held.map_err(|e| format!("docker: cannot keep the descriptors: {e}"))?;
    // In a network of its own it can change no interface, rule or setting of the machine's.
    os::leave_namespaces(UnshareFlags::NEWNET)
        .map_err(|e| format!("docker: cannot leave the machine's network: {e}"))?;
    let mut daemon = start(file, document, count)?;
    let api = Api { socket };
    while !api.answers() {
        if let Some(end) = end_of(&mut daemon) {
            return Err(end);
        }
        std::thread::sleep(INTERVAL);
    }
    let begun = api
        .import(IMAGE, NO_FILES)
        .and_then(|()| api.create(CONTAINER, SETTINGS))
        .and_then(|()| api.start(CONTAINER));
    begun.map_err(|reason| end_of(&mut daemon).unwrap_or(format!("dockerd: {reason}")))
}

/// How the daemon has ended, if it has.
fn end_of(daemon: &mut Child) -> Option<String> {
    match daemon.try_wait() {
        Ok(None) => None,
        Ok(Some(status)) => Some(format!("dockerd did not stay: {status}")),
        Err(error) => Some(format!("dockerd: {error}")),
    }
}

fn start(file: &str, document: &str, count: &str) -> Result<Child, String> {
    let mut daemon = Command::new("dockerd");
    daemon.arg("--config-file").arg(file).stdin(Stdio::null());
    // Variables of the user's could name other directories, drivers and sockets.
    let is_kept = |name: &str| matches!(name, "PATH" | "TMPDIR") || name.starts_with("LATLAB_");
    let kept = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_kept));
    daemon
        .env_clear()
        .envs(kept)
        .env(DOCUMENT, document)
        .env(DESCRIPTORS, format!("/proc/{}/fd", std::process::id()))
        .env(COUNT, count);
    daemon.spawn().map_err(|e| format!("dockerd: {e}"))
}
