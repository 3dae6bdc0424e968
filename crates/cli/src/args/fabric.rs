//! Overlay daemons of many hosts, joined by etcd.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use latlab_fabric::keys::{Keys, Place, is_host_name};
use latlab_model::overlay::valid_name;
use latlab_model::spec::Mac;

use crate::format::Format;

#[derive(Debug, Subcommand)]
pub enum Fabric {
    /// Join this host's overlay daemon to a fabric, and keep it as the fabric is, until Ctrl-C.
    Join(Join),
    /// Show a fabric's networks, hosts and addresses.
    Show(Show),
    /// Send frames for addresses to another place from now on, at all hosts.
    Move(Move),
    /// Take a host that is away out of a fabric, with the addresses that are there.
    Remove(Remove),
}

/// The store of a fabric.
#[derive(Debug, Args)]
pub struct Store {
    /// Name of the fabric; one etcd may hold several.
    #[arg(value_name = "FABRIC", value_parser = fabric)]
    pub fabric: String,
    /// URLs of etcd's members, with commas; the next one is asked when one does not answer.
    #[arg(
        long,
        env = "LATLAB_ETCD",
        value_name = "URL",
        value_delimiter = ',',
        required = true
    )]
    pub etcd: Vec<String>,
    /// Certificate of the authority that signed etcd's (PEM), for https.
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
    /// This side's certificate (PEM), for an etcd that asks for one.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub certificate: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab-overlay --control /run/overlay.sock &
  latlab fabric join prod --etcd http://10.0.0.1:2379,http://10.0.0.2:2379 \\
      --host a --address 10.0.0.1 --carrier sealed --network lan=7 --control /run/overlay.sock
  latlab overlay --control /run/overlay.sock add interface vm1 network lan vhost-user /run/vm1.sock
  latlab fabric move prod 52:54:00:00:00:01 --to a:vm1

The host's networks and its links `host-NAME` are then the fabric's; its interfaces, its routes and all other links are left \
alone. No frame depends on etcd: while it cannot be reached, links and places stay as they are, and afterwards what was missed \
is applied. Ends with Ctrl-C; links and places stay then too.")]
pub struct Join {
    #[command(flatten)]
    pub store: Store,
    /// Name of this host in the fabric.
    #[arg(long, value_name = "NAME", value_parser = host)]
    pub host: String,
    /// Where the other hosts reach this one: an address, with a UDP port if it is not the carrier's own.
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = address)]
    pub address: (IpAddr, Option<u16>),
    /// How frames travel between the hosts; the same for all of them.
    #[arg(long, value_enum)]
    pub carrier: Carrier,
    /// A network that the fabric is to have, with its number; may be repeated.
    #[arg(long = "network", value_name = "NAME=VNI", value_parser = network)]
    pub networks: Vec<(String, u32)>,
    /// The control socket of this host's daemon.
    #[arg(long, value_name = "SOCKET")]
    pub control: PathBuf,
    /// Print the events as JSON, one a line.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Carrier {
    /// Encrypted, each host with a key of its own (see `latlab host-key`).
    Sealed,
    /// The overlay's own format, over a wire that you trust.
    Udp,
    /// VXLAN, over a wire that you trust.
    Vxlan,
}

#[derive(Debug, Args)]
pub struct Show {
    #[command(flatten)]
    pub store: Store,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab fabric move prod 52:54:00:00:00:01 --to b:vm1
  latlab fabric move prod 52:54:00:00:00:01 --from a:vm1 --to b:vm1   (if it is still there)
  latlab fabric move prod --to b:vm1 - < addresses

64 addresses move in one transaction: all or none of them. The printed number is the store's revision, which is that of the \
move at every host. A host that learns of it late, or joins again, changes nothing that is newer.")]
pub struct Move {
    #[command(flatten)]
    pub store: Store,
    /// MAC addresses; `-` reads them from the standard input.
    #[arg(required = true, value_name = "ADDRESS")]
    pub addresses: Vec<String>,
    /// The new place: an interface of a host's daemon.
    #[arg(long, value_name = "HOST:INTERFACE", value_parser = place)]
    pub to: Place,
    /// The place where all of them have to be; else nothing moves.
    #[arg(long, value_name = "HOST:INTERFACE", value_parser = place)]
    pub from: Option<Place>,
    /// The network, where the fabric has several.
    #[arg(long, value_name = "NAME")]
    pub network: Option<String>,
}

#[derive(Debug, Args)]
pub struct Remove {
    #[command(flatten)]
    pub store: Store,
    /// Name of the host.
    #[arg(value_parser = host)]
    pub host: String,
}

const NAME: &str = "a name has 1 to 63 letters, digits, dots, dashes and underscores";

fn fabric(text: &str) -> Result<String, String> {
    match Keys::of(text) {
        Some(_) => Ok(text.into()),
        None => Err(NAME.into()),
    }
}

fn host(text: &str) -> Result<String, String> {
    match is_host_name(text) {
        true => Ok(text.into()),
        false => {
            Err("a host's name has 1 to 58 letters, digits, dots, dashes and underscores".into())
        }
    }
}

fn place(text: &str) -> Result<Place, String> {
    Place::parse(text).ok_or_else(|| "write HOST:INTERFACE, as b:vm1".into())
}

fn network(text: &str) -> Result<(String, u32), String> {
    let wanted = "write NAME=NUMBER, as lan=7; a number is below 16777216";
    let (name, vni) = text.split_once('=').ok_or(wanted)?;
    let name = valid_name(name).ok_or(NAME)?;
    let vni = vni
        .parse()
        .ok()
        .filter(|vni| *vni < 1 << 24)
        .ok_or(wanted)?;
    Ok((name, vni))
}

fn address(text: &str) -> Result<(IpAddr, Option<u16>), String> {
    let with_port = || {
        let address: SocketAddr = text.parse().ok()?;
        Some((address.ip(), Some(address.port()).filter(|port| *port > 0)))
    };
    let read = text.parse().map(|address| (address, None)).ok();
    read.or_else(with_port)
        .filter(|(address, _)| !address.is_unspecified() && !address.is_multicast())
        .ok_or_else(|| "write an address, as 10.0.0.1, 10.0.0.1:51789 or [fd00::1]:51789".into())
}

impl Move {
    /// The addresses of the arguments. Errors: the first that is none, or stands twice.
    pub fn read(&self, input: &str) -> Result<Vec<Mac>, String> {
        let words = self.addresses.iter().flat_map(|word| match word.as_str() {
            "-" => input.split_whitespace().collect(),
            word => vec![word],
        });
        let mut all = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for word in words {
            let mac = Mac::parse(word).ok_or_else(|| format!("`{word}` is no MAC address"))?;
            if mac.is_group() {
                return Err(format!(
                    "{mac} is the address of a group, which has no place"
                ));
            }
            if !seen.insert(mac) {
                return Err(format!("{mac} is given twice"));
            }
            all.push(mac);
        }
        match all.is_empty() {
            true => Err("no address is given".into()),
            false => Ok(all),
        }
    }
}
