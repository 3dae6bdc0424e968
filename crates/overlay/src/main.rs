//! `latlab-overlay`: the daemon.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use clap::Parser;
use latlab_model::overlay::language::parse_file;
use latlab_model::overlay::{Overlay, Peer};
use latlab_overlay::control::{Local, Remote};
use latlab_overlay::daemon::Daemon;
use latlab_overlay::links::udp::sealed;
use latlab_overlay::tls::Credentials;
use latlab_overlay::watchdog::guard_process;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// One Ethernet for guests and hosts: joins virtual machines (vhost-user), taps and containers on
/// this host with each other and with other hosts.
///
/// Commands come from a file, and over its control socket, for instance with `latlab overlay --control
/// SOCKET list interfaces`. Taps, rings and links end with it. Containers keep the routes that the
/// kernel knows, until their interfaces are deleted; the interface of a direct link is given back to
/// the host.
#[derive(Debug, Parser)]
#[command(name = "latlab-overlay", version, after_help = EXAMPLE)]
struct Arguments {
    /// File of commands for the start.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Unix socket for further commands; only this user may open it.
    #[arg(long, value_name = "SOCKET", required_unless_present_any = ["new_key", "check"])]
    control: Option<PathBuf>,
    /// Address for commands from other hosts, under mutual TLS: from those that --allow names.
    #[arg(long, value_name = "ADDRESS:PORT", requires_all = ["allow", "certificate", "key", "authority"])]
    listen: Option<SocketAddr>,
    /// Host that may give commands, by a name or address in its certificate; repeatable. `any` is every
    /// host that the authority has signed.
    #[arg(long, value_name = "NAME|ADDRESS|any", requires = "listen", value_parser = peer)]
    allow: Vec<Peer>,
    /// This host's certificate (PEM), which names the address above.
    #[arg(long, value_name = "FILE", requires = "listen")]
    certificate: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "listen")]
    key: Option<PathBuf>,
    /// Certificate of the authority that signs the other hosts' (PEM).
    #[arg(long, value_name = "FILE", requires = "listen")]
    authority: Option<PathBuf>,
    /// Keep all privileges, without a system call filter: for debuggers and sanitizers.
    #[arg(long)]
    unconfined: bool,
    /// Check the file and exit; needs no --control.
    #[arg(long, requires = "config")]
    check: bool,
    /// Write a new private key for sealed links to a file, print the public key, which the other host
    /// needs, and exit.
    #[arg(long, value_name = "FILE", exclusive = true)]
    new_key: Option<PathBuf>,
}

const EXAMPLE: &str = "Example of a file:
  add network lan vni 7
  add interface vm1 network lan vhost-user /run/vm1.sock mtu 9000
  add interface host network lan tap lan0
  add link other vxlan 10.0.0.2
Run `help` over the control socket for every command.";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    guard_process();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err((message, hint)) => {
            eprintln!("error: {message}\n  hint: {hint}");
            ExitCode::from(2)
        }
    }
}

/// Maximum wait for a running command after a signal to end.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Message and hint of an error.
type Failure = (String, String);

/// The failure of an action by an error.
fn failed(action: impl Display, hint: &str) -> impl FnOnce(io::Error) -> Failure {
    move |error| (format!("{action}: {error}"), hint.to_string())
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(file) = &arguments.new_key {
        return new_key(file);
    }
    let overlay = read(arguments)?;
    if arguments.check {
        println!(
            "good: {} networks, {} interfaces, {} links, {} routes",
            overlay.networks.len(),
            overlay.interfaces.len(),
            overlay.links.len(),
            overlay.routes.len()
        );
        return Ok(());
    }
    if !arguments.unconfined {
        let hint = "the kernel needs CONFIG_SECCOMP_FILTER; --unconfined goes without";
        let failed = failed("cannot confine the daemon", hint);
        latlab_overlay::confine::confine().map_err(failed)?;
    }
    // Required by the arguments' rules.
    let control = arguments.control.clone().unwrap_or_default();
    let remote = listen(arguments)?;
    let action = format!("cannot listen at {}", control.display());
    let failed = failed(action, "name another socket with --control");
    let local = Local::listen(&control).map_err(failed)?;
    let name = control.display().to_string();
    let daemon =
        Daemon::start(&name, &overlay).map_err(|error| (error.to_string(), error.hint()))?;
    serve(&local, remote.as_ref(), daemon)
}

fn listen(arguments: &Arguments) -> Result<Option<Remote>, Failure> {
    let (Some(address), Some(certificate), Some(key), Some(authority)) = (
        arguments.listen,
        &arguments.certificate,
        &arguments.key,
        &arguments.authority,
    ) else {
        return Ok(None);
    };
    let credentials = Credentials::read(certificate, key, authority).map_err(|error| {
        let hint = "give PEM files to --certificate, --key and --authority";
        (error.to_string(), hint.to_string())
    })?;
    let accepting = credentials.accepting(&arguments.allow).map_err(|error| {
        let hint = "name hosts as their certificates do, with --allow";
        (error.to_string(), hint.to_string())
    })?;
    let hint = "give an address of this host, and a free port, to --listen";
    let failed = failed(format!("cannot listen at {address}"), hint);
    Ok(Some(Remote::listen(address, accepting).map_err(failed)?))
}

fn peer(text: &str) -> Result<Peer, String> {
    Peer::parse(text).ok_or_else(|| "no address, no DNS name, and not `any`".into())
}

fn new_key(file: &Path) -> Result<(), Failure> {
    let action = format!("cannot write a key into {}", file.display());
    let failed = failed(action, "name a file that is not there yet");
    let identity = sealed::Identity::create(file).map_err(failed)?;
    println!("{}", sealed::hexadecimal(&identity.public()));
    Ok(())
}

fn read(arguments: &Arguments) -> Result<Overlay, Failure> {
    let Some(path) = &arguments.config else {
        return Ok(Overlay::default());
    };
    let name = path.display();
    let action = format!("cannot read {name}");
    let failed = failed(action, "name the file of commands with --config");
    let text = std::fs::read_to_string(path).map_err(failed)?;
    parse_file(&text).map_err(|(line, mistake)| {
        let message = format!("{name}:{line}:{mistake}");
        (message, mistake.hint)
    })
}

/// Serves until a signal. Containers' routes in the kernel stay in force.
fn serve(local: &Local, remote: Option<&Remote>, daemon: Daemon) -> Result<(), Failure> {
    let failed = failed("cannot wait for signals", "restart the daemon");
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let daemon = Arc::new(Mutex::new(daemon));
    std::thread::scope(|scope| {
        scope.spawn(|| local.serve(&daemon));
        if let Some(remote) = remote {
            scope.spawn(|| remote.serve(&daemon));
        }
        // The parent process waits for this line, or for the socket.
        match remote.map(Remote::address) {
            Some(Ok(address)) => println!("ready at {address}"),
            _ => println!("ready"),
        }
        signals.forever().next();
        leave(&daemon);
        drop(std::fs::remove_file(local.path()));
        std::process::exit(0)
    })
}

/// Gives back the host's interfaces, after a running command or a timeout.
fn leave(daemon: &Mutex<Daemon>) {
    let end = Instant::now() + LEAVE_TIMEOUT;
    while Instant::now() < end {
        match daemon.try_lock() {
            Ok(daemon) => return daemon.leave(),
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner().leave(),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
