//! Interruptions of this machine's CPUs.

use clap::Args;

use crate::format::Format;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab noise --duration 10s
  latlab noise --cpus 2-3 --threshold 500 --format json

A thread on each CPU reads its clock in a loop; every gap longer than the threshold is an interruption, and \
the flight recorder names its cause. The CPUs are not available to other programs meanwhile. A gap without a \
recorded cause is unexplained; if it recurs with a fixed period, it is a timer of the hypervisor or firmware. \
Without BPF the interruptions are counted and their causes are unknown.")]
pub struct Noise {
    /// CPU list, e.g. 0-3,8 [default: all].
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Duration of the measurement.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub duration: String,
    /// Report gaps longer than this (ns).
    #[arg(long, value_name = "NS", default_value_t = 1000)]
    pub threshold: u64,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
