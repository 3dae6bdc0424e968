//! The overlay's daemon.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// The daemon is `latlab-overlay`; each `type: overlay` link of a lab runs one (or one per end, with a `carrier`).
/// Commands are in its control language, which `help` prints. Without a command, commands are read from the
/// standard input, one per line.
#[derive(Debug, Args)]
#[command(after_help = OVERLAY_EXAMPLES)]
pub struct Overlay {
    /// The daemon of a lab: LAB, LAB/LINK, or LAB/LINK.END where each end has one.
    #[arg(value_name = "LAB[/LINK]", required_unless_present_any = ["control", "connect"])]
    pub lab: Option<String>,
    /// The control socket of a daemon that belongs to no lab.
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// A daemon on another host that was started with --listen, under mutual TLS.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        conflicts_with = "control",
        requires_all = ["certificate", "key", "authority"]
    )]
    pub connect: Option<SocketAddr>,
    /// This side's certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub certificate: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub key: Option<PathBuf>,
    /// Certificate of the authority that signed the daemon's (PEM).
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub authority: Option<PathBuf>,
    /// The command, in words.
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub command: Vec<String>,
}

const OVERLAY_EXAMPLES: &str = "\
Examples:
  latlab overlay pair list interfaces
  latlab overlay pair/l0 counters
  latlab overlay pair/l0.1 set dispatch mode vmm idle immediate
  latlab overlay --control /run/overlay.sock -- show > overlay.conf
  latlab overlay --control /run/overlay.sock < changes
  latlab overlay --connect 10.0.0.2:7700 --certificate me.pem --key me.key --authority ca.pem show";
