//! `latlab-streams`: the supervisor of a lab's streams, and its keeper.

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;
use latlab_streams::supervisor::Supervisor;
use latlab_streams::{control, keeper, ledger};
use latlab_wire::streams::Config;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities, set_no_new_privs, unshare_unsafe,
};

/// The supervisor's privileges: descriptors and memory of nodes' processes, also of other users', whose files below /proc
/// are theirs (nginx's workers); network namespaces; and buffers beyond the machine's limit. The keeper has none.
const NEEDED: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::NET_ADMIN);

/// Descriptors for 100,000 streams and more.
const MAX_DESCRIPTORS: u64 = 1 << 20;

/// Gives TCP connections between nodes of this host a socket without a network.
///
/// latlab starts it for labs with `streams: true`. It needs root.
#[derive(Debug, Parser)]
#[command(name = "latlab-streams", version)]
struct Arguments {
    /// Networks, nodes and their addresses (JSON).
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Unix socket for requests; only this user may open it.
    #[arg(long, value_name = "SOCKET")]
    control: PathBuf,
    /// Be the supervisor, with descriptors of the keeper's: a socket and the file of held calls.
    #[arg(long, hide = true, num_args = 2, value_names = ["SOCKET", "FILE"])]
    kept: Option<Vec<RawFd>>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    allow_descriptors();
    let result = match &arguments.kept {
        Some(inherited) => supervise(&arguments, inherited),
        None => keep(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

/// Allows as many descriptors as the machine does.
fn allow_descriptors() {
    let limit = |most| Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    if setrlimit(Resource::Nofile, limit(MAX_DESCRIPTORS)).is_err() {
        // Without CAP_SYS_RESOURCE, fewer streams have to do.
        if let Some(most) = getrlimit(Resource::Nofile).maximum {
            setrlimit(Resource::Nofile, limit(most)).ok();
        }
    }
}

/// Starts the supervisor and waits for its end.
fn keep(arguments: &Arguments) -> Result<(), String> {
    read_config(&arguments.config)?;
    let failed = |error: std::io::Error| format!("start the supervisor: {error}");
    let flags = SocketFlags::CLOEXEC;
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let (ours, theirs) = pair.map_err(|error| failed(error.into()))?;
    let held = ledger::new_file().map_err(failed)?;
    for inherited in [&theirs, &held] {
        fcntl_setfd(inherited, FdFlags::empty()).map_err(|error| failed(error.into()))?;
    }
    let supervisor = Command::new("/proc/self/exe")
        .arg0("latlab-streams")
        .arg("--config")
        .arg(&arguments.config)
        .arg("--control")
        .arg(&arguments.control)
        .arg("--kept")
        .args([&theirs, &held].map(|file| file.as_raw_fd().to_string()))
        .spawn();
    let mut supervisor = supervisor.map_err(failed)?;
    drop(theirs);
    give_up_all_but(CapabilitySet::empty())?;
    keeper::run(ours, held).map_err(|error| format!("keep listeners: {error}"))?;
    match supervisor.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the supervisor ended: {status}")),
        Err(error) => Err(failed(error)),
    }
}

fn supervise(arguments: &Arguments, inherited: &[RawFd]) -> Result<(), String> {
    let config = read_config(&arguments.config)?;
    let inherited = inherited.iter().map(|number| {
        // SAFETY: the keeper handed these numbers down for this process alone.
        unsafe { OwnedFd::from_raw_fd(*number) }
    });
    let [keeper, held] = <[OwnedFd; 2]>::try_from(inherited.collect::<Vec<_>>())
        .map_err(|_| "--kept takes two descriptors")?;
    for descriptor in [&keeper, &held] {
        fcntl_setfd(descriptor, FdFlags::CLOEXEC).map_err(|error| error.to_string())?;
    }
    let control = control::listen(&arguments.control)
        .map_err(|error| format!("listen at {}: {error}", arguments.control.display()))?;
    // SAFETY: this process has one thread, and has no sockets of the namespace that it leaves but the one at a path.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|error| format!("make a network namespace: {error}"))?;
    latlab_streams::loopback_up().map_err(|error| format!("set the loopback up: {error}"))?;
    latlab_streams::keep_shadows();
    give_up_all_but(NEEDED)?;
    let mut supervisor =
        Supervisor::new(config, control, keeper, held).map_err(|error| error.to_string())?;
    supervisor.run().map_err(|error| error.to_string())
}

fn give_up_all_but(kept: CapabilitySet) -> Result<(), String> {
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_no_new_privs(true)
        .and_then(|()| set_capabilities(None, sets))
        .map_err(|error| format!("give up capabilities: {error}"))
}

fn read_config(path: &Path) -> Result<Config, String> {
    let failed = |error: &dyn std::fmt::Display| format!("read {}: {error}", path.display());
    let text = fs::read(path).map_err(|error| failed(&error))?;
    serde_json::from_slice(&text).map_err(|error| failed(&error))
}
