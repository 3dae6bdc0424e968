//! Arguments of `latlab adapt`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use latlab_model::units::Nanos;

use crate::format::Lines;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab adapt cluster                              tell what would be changed, and change nothing
  latlab adapt cluster --change routes,carriers     change it, until Ctrl-C
  latlab adapt web --change streams                 no streams where connections are short
  latlab adapt --control a.sock --control b.sock --control c.sock --change all --for 10m

Once a second the daemons tell how much their nodes exchange, and probes (ICMP) tell the round trips between \
hosts.

Changes:
  routes    two hosts whose wire is full or dead go by a third host
  carriers  VXLAN or UDP on one Ethernet segment becomes direct frames, where a CPU is the limit
  streams   connections to a server's port stay plain while a tenth of the time would go into
            setting up streams, if more of them are made then; a port that you have switched stays

A change is tried if it should cost at most 80 % of now in three windows of 5 s within a minute, the latest \
among them. It is kept if the measured cost then is at most 95 % of before, else taken back, and the pause \
before the next trial doubles. Every decision and every refusal is a line with its numbers. Sealed links and \
TCP links are never changed, nor are routes of yours.

At the end all changes are taken back, unless --keep. The placement of nodes on hosts is only advised.")]
pub struct Adapt {
    /// Name of the lab.
    #[arg(required_unless_present = "control")]
    pub lab: Option<String>,
    /// Control socket of a daemon on this machine, once for each host.
    #[arg(long, value_name = "SOCKET", conflicts_with = "lab")]
    pub control: Vec<PathBuf>,
    /// The changes that may be made; without it, they are told only.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND,…")]
    pub change: Vec<Change>,
    /// How long; without it, until Ctrl-C.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub time: Option<Nanos>,
    /// Leave the changes in effect at the end.
    #[arg(long)]
    pub keep: bool,
    /// Print what is measured, too, once a second.
    #[arg(long)]
    pub samples: bool,
    /// How to print: lines of text, or a JSON object a line.
    #[arg(long, value_enum, default_value_t)]
    pub format: Lines,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Change {
    Routes,
    Carriers,
    Streams,
    All,
}

/// Shorter, there is no window of 5 s.
fn time(text: &str) -> Result<Nanos, String> {
    let time = Nanos::parse(text).filter(|time| time.0 >= 5_000_000_000);
    time.ok_or_else(|| "a time of at least 5s".to_owned())
}
