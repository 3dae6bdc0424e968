//! `latlab-overlay`: the daemon.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use clap::Parser;
use latlab_model::overlay::Overlay;
use latlab_model::overlay::language::parse_file;
use latlab_overlay::control::{self, Server};
use latlab_overlay::daemon::Daemon;
use latlab_overlay::links::udp::sealed;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// One Ethernet for guests and hosts: joins virtual machines (vhost-user), taps and containers on
/// this host with each other and with other hosts.
///
/// It is told what to do by a file of commands, and by the same commands over its control socket,
/// for instance with `latlab overlay --control SOCKET list interfaces`. What it runs ends with it;
/// it changes nothing else on the machine.
#[derive(Debug, Parser)]
#[command(name = "latlab-overlay", version, after_help = EXAMPLE)]
struct Arguments {
    /// File of commands that the overlay begins with.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Unix socket where further commands are taken; only this user may open it.
    #[arg(long, value_name = "SOCKET", required_unless_present = "new_key")]
    control: Option<PathBuf>,
    /// Only says whether the file is right.
    #[arg(long, requires = "config")]
    check: bool,
    /// Only writes a new private key for sealed links into a file, and prints the public one, which
    /// the other host needs.
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
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err((message, hint)) => {
            eprintln!("error: {message}\n  hint: {hint}");
            ExitCode::from(2)
        }
    }
}

/// A line that says what failed, and one that says what to do.
type Failure = (String, String);

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
    // Asked for by the arguments' own rules.
    let control = arguments.control.clone().unwrap_or_default();
    let server = control::listen(&control).map_err(|error| {
        let path = control.display();
        let message = format!("cannot listen at {path}: {error}");
        (message, "name another socket with --control".to_string())
    })?;
    let name = control.display().to_string();
    let daemon =
        Daemon::start(&name, &overlay).map_err(|error| (error.to_string(), error.hint()))?;
    serve(&server, daemon)
}

fn new_key(file: &Path) -> Result<(), Failure> {
    let made = sealed::Identity::generate().and_then(|identity| {
        let mut private = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(file)?;
        writeln!(private, "{}", identity.private_text())?;
        Ok(identity)
    });
    let identity = made.map_err(|error| {
        let message = format!("cannot write a key into {}: {error}", file.display());
        (message, "name a file that is not there yet".to_string())
    })?;
    println!("{}", sealed::hexadecimal(&identity.public()));
    Ok(())
}

fn read(arguments: &Arguments) -> Result<Overlay, Failure> {
    let Some(path) = &arguments.config else {
        return Ok(Overlay::default());
    };
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot read {name}: {error}");
        (message, "name the file of commands with --config".into())
    })?;
    parse_file(&text).map_err(|(line, mistake)| {
        let message = format!("{name}:{line}:{mistake}");
        (message, mistake.hint)
    })
}

/// Serves until a signal ends it; then everything is closed in order.
fn serve(server: &Server, daemon: Daemon) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let message = format!("the control socket failed: {error}");
        (message, "restart the daemon".to_string())
    };
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let daemon = Arc::new(Mutex::new(daemon));
    std::thread::scope(|scope| {
        let serving = Arc::clone(&daemon);
        // Whoever started us waits for this line, or for the socket.
        println!("ready");
        scope.spawn(move || {
            if let Err(error) = server.serve(&serving) {
                eprintln!("error: the control socket failed: {error}");
            }
        });
        signals.forever().next();
        // The thread above waits for clients for ever.
        drop(std::fs::remove_file(server.path()));
        std::process::exit(0)
    })
}
