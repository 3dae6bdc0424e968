//! Files of other tools: captures, and topologies of containerlab.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::conversion::Output;
use crate::format::Format;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab import before.pcapng after.pcapng
  latlab import both.pcapng#eth0 both.pcapng#eth1 --by payload     (a file with two interfaces; NAT)
  latlab compare runs/captures-20261128-101500 runs/captures-20261128-102000
  latlab import lab.clab.yml -o lab.yaml                           (a topology of containerlab)
  latlab import lab.clab.yml --image host > lab.yaml               (the host's files in all nodes)

Captures become a run. Packets are matched by their bytes. The report counts lost, copied and overtaking packets, and says \
what was left out. Both captures need one clock, or clocks that were synchronised.

A topology becomes a lab. Each thing without an equivalent is told with line and column, on the standard error and in the \
lab. The exit code is 1 if a node or a link is left out. Needs no root.")]
pub struct Import {
    /// A capture before the device (pcapng or pcap) and one behind it, with #INTERFACE for a file that has several; further
    /// pairs are replicates. Or one topology of containerlab (.yml, .yaml).
    #[arg(required = true, num_args = 1.., value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub captures: ImportCaptures,
    #[command(flatten)]
    pub topology: ImportTopology,
}

#[derive(Debug, Args)]
pub struct ImportCaptures {
    /// Parts of a packet that the device leaves as they are [default: packet].
    #[arg(long, value_enum, help_heading = "Captures")]
    pub by: Option<By>,
    /// Name of the run's study. Runs of one name can be compared [default: captures].
    #[arg(long, help_heading = "Captures")]
    pub name: Option<String>,
    /// Directory in which the run's own directory is created.
    #[arg(
        long,
        default_value = "runs",
        env = "LATLAB_RUNS",
        value_name = "DIR",
        help_heading = "Captures"
    )]
    pub runs: PathBuf,
    /// Output format of the summary [default: table].
    #[arg(long, value_enum, help_heading = "Captures")]
    pub format: Option<Format>,
}

impl ImportCaptures {
    /// An option that was given.
    pub fn named(&self) -> Option<&'static str> {
        given(&[
            (self.by.is_some(), "--by"),
            (self.name.is_some(), "--name"),
            (self.format.is_some(), "--format"),
        ])
    }
}

#[derive(Debug, Args)]
pub struct ImportTopology {
    /// Image of all containers instead of those of the topology: `host`, `empty`, a directory or an OCI archive.
    #[arg(long, value_name = "IMAGE", help_heading = "Topologies")]
    pub image: Option<String>,
    #[command(flatten)]
    pub output: Output,
}

impl ImportTopology {
    /// An option that was given.
    pub fn named(&self) -> Option<&'static str> {
        given(&[
            (self.image.is_some(), "--image"),
            (self.output.output.is_some(), "--output"),
        ])
    }
}

fn given(options: &[(bool, &'static str)]) -> Option<&'static str> {
    let given = options.iter().find(|(is_given, _)| *is_given);
    given.map(|(_, name)| *name)
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
