//! Arguments of `latlab traffic`.

use clap::Args;
use latlab_model::units::Nanos;

use crate::format::Format;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab traffic cluster
  latlab traffic cluster --for 30s --format json

The daemons of the lab's links of type overlay count frames by their addresses. Two counts, some time apart, \
make rates. Pairs of nodes with at least a tenth of the largest pair's bytes, both directions together, are \
compared with the topologies that parallel applications have: a pair, a star, a chain, a ring, a mesh, all to all.

A frame counts once, also one that stands for many packets (TSO, GRO). Bytes that streams carry are not \
frames: `latlab streams` shows these connections.")]
pub struct Traffic {
    /// Name of the lab.
    pub lab: String,
    /// Time between the two counts.
    #[arg(long = "for", value_name = "TIME", default_value = "2s", value_parser = interval)]
    pub time: Nanos,
    /// How to print.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Shorter, one frame is a rate; longer, an interrupted count is an hour lost.
fn interval(text: &str) -> Result<Nanos, String> {
    let time =
        Nanos::parse(text).filter(|time| (100_000_000..=3_600_000_000_000).contains(&time.0));
    time.ok_or_else(|| "a time from 100ms to 3600s".to_owned())
}
