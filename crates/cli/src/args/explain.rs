//! Causes of a run's slowest packets.

use std::path::PathBuf;

use clap::Args;

use crate::format::Format;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab run forwarder
  latlab explain runs/forwarder-…
  latlab explain runs/forwarder-… --trial 1 --perfetto slow.json   (for ui.perfetto.dev)
  latlab explain runs/forwarder-… --trial 1 --pcapng slow.pcapng   (for Wireshark)
  latlab explain runs/forwarder-… --folded all.folded   (for flamegraph.pl)

Only measurements with `probe: forward` have taps and a flight recorder. Needs no root, and gives the same \
answer on another machine.")]
pub struct Explain {
    /// The run directory.
    pub run: PathBuf,
    /// Only this cell, as the report names it.
    #[arg(long, value_name = "CELL")]
    pub cell: Option<String>,
    /// Only this trial.
    #[arg(long, value_name = "N")]
    pub trial: Option<u32>,
    /// How many of the slowest packets to show one by one.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub worst: usize,
    /// Output format; csv has one line per packet.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Also write a timeline of the slowest packets and the CPUs, for Perfetto.
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Also write the slowest packets at both taps, with their causes as comments.
    #[arg(long, value_name = "FILE")]
    pub pcapng: Option<PathBuf>,
    /// Also write all sampled stacks of the device, folded, for flamegraph.pl.
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Also write the sampled stacks of the slowest 1 % of the packets, folded.
    #[arg(long, value_name = "FILE")]
    pub folded_slow: Option<PathBuf>,
}
