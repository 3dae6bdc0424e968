//! Captures of others.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::format::Format;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab import before.pcapng after.pcapng
  latlab import both.pcapng#eth0 both.pcapng#eth1 --by payload     (a file with two interfaces; NAT)
  latlab compare runs/captures-20261128-101500 runs/captures-20261128-102000

Packets are matched by their bytes. The report counts lost, copied and overtaking packets, and says what was left out. \
Both captures need one clock, or clocks that were synchronised. Needs no root.")]
pub struct Import {
    /// A capture before the device (pcapng or pcap) and one behind it, with #INTERFACE for a file that has several. Further
    /// pairs are replicates.
    #[arg(required = true, num_args = 2.., value_name = "CAPTURE")]
    pub captures: Vec<PathBuf>,
    /// Parts of a packet that the device leaves as they are.
    #[arg(long, value_enum, default_value_t)]
    pub by: By,
    /// Name of the run's study. Runs of one name can be compared.
    #[arg(long, default_value = "captures")]
    pub name: String,
    /// Directory in which the run's own directory is created.
    #[arg(long, default_value = "runs", env = "LATLAB_RUNS", value_name = "DIR")]
    pub runs: PathBuf,
    /// Output format of the summary.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum By {
    /// All bytes of the frame: switches and bridges.
    Frame,
    /// The IP packet but for what a router changes; without IP, all behind Ethernet's header and VLAN tags.
    #[default]
    Packet,
    /// The transport's sequence numbers and payload: NAT.
    Payload,
}
