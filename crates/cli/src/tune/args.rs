//! The arguments of `latlab tune`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::format::Format;

#[derive(Debug, Subcommand)]
pub enum Tune {
    /// Show every knob: what is in force, what latlab applied for whom, where it drifted.
    Show(Show),
    /// Show what a profile would change on this machine, why, and at what risk; change nothing.
    Plan(Apply),
    /// Apply a profile (needs root). The original values are saved to the disk first.
    Apply(Apply),
    /// Compare the applied values with those in force; list drift and exit with 1 if there is any.
    Verify(Verify),
    /// Restore the original values (needs root). Works after a crash, any number of times.
    Revert(Revert),
    /// List threads, kernel threads and interrupts that run on CPUs that are kept quiet.
    Watch(Watch),
    /// Write boot parameters: a kernel command line, a GRUB drop-in, a tuned profile.
    Export(Export),
}

const EXAMPLES: &str = "\
Examples:
  latlab tune plan isolated                     what would change, why, at what risk
  latlab tune apply isolated --cpus 2-7         keep CPUs 2 to 7 quiet
  latlab tune apply realtime --without thp      all of a profile but one knob
  latlab tune apply isolated --knob irq-affinity --knob cpuset
                                                only these knobs of it
  latlab tune apply --knob swappiness=1         one knob, no profile
  latlab tune verify && latlab tune revert";

/// Profile, CPUs and knobs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Choice {
    /// A built-in profile (default, throughput, isolated, realtime), a profile's file, or the name of
    /// one in /etc/latlab/profiles (LATLAB_PROFILE_DIR). May be left out with `--knob NAME=VALUE`.
    pub profile: Option<String>,
    /// CPUs to keep quiet, instead of the profile's or the default: all but the first quarter.
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Only this knob, as the profile wants it or with this value (repeatable).
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub knob: Vec<String>,
    /// Leave this knob out (repeatable).
    #[arg(long, value_name = "NAME")]
    pub without: Vec<String>,
}

/// The host, unless a node is named.
#[derive(Debug, Args)]
pub struct Place {
    /// Inside a tuned VM of this lab.
    #[arg(long, value_name = "LAB", requires = "node")]
    pub lab: Option<String>,
    /// Name of the node.
    #[arg(long, value_name = "NODE", requires = "lab")]
    pub node: Option<String>,
}

#[derive(Debug, Args)]
pub struct Show {
    /// Only these knobs, with their evidence and risk.
    pub knobs: Vec<String>,
    #[command(flatten)]
    pub place: Place,
    /// Output format.
    #[arg(long, short, value_enum, default_value_t)]
    pub format: Format,
}

// `plan` takes the same.
#[derive(Debug, Args)]
pub struct Apply {
    #[command(flatten)]
    pub choice: Choice,
    /// Output format.
    #[arg(long, short, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Verify {
    #[command(flatten)]
    pub place: Place,
    /// Output format.
    #[arg(long, short, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Only values from `tune apply` are reverted; a lab's values are restored when it is destroyed. A value that \
another program changed meanwhile is left alone and reported, and the exit code is 1. After a reboot there is \
nothing to restore: no setting outlives the kernel.")]
pub struct Revert {
    /// Output format.
    #[arg(long, short, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "\
One line for each thread or interrupt that ran there since the last sample, five samples per second. A lab may \
run on its own CPUs, and is an intruder on those of another. The exit code is 1 if any intruder was seen. \
Activity between two samples may be missed.")]
pub struct Watch {
    /// CPUs to watch, instead of those that labs and tuning keep quiet now.
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Stop after this time, e.g. 10s [default: at Ctrl-C].
    #[arg(long = "for", value_name = "TIME")]
    pub time: Option<String>,
    /// Print one JSON object per line.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab tune export isolated --cmdline
  latlab tune export realtime --cpus 2-7 --grub /etc/default/grub.d/90-latlab.cfg
                                                (then: update-grub, boot)
  latlab tune export isolated --lab labs/isolated.yaml --facts machine.json --cmdline
  latlab tune export realtime --tuned /etc/tuned/latlab-realtime
                                                (then: tuned-adm profile latlab-realtime)

Evidence and risk of each parameter are comments in the GRUB file; `--json` prints them too.")]
pub struct Export {
    /// A built-in profile, a profile's file, or the name of one in /etc/latlab/profiles.
    pub profile: String,
    /// CPUs to keep quiet, instead of the profile's or the default choice.
    #[arg(long, value_name = "LIST", conflicts_with = "lab")]
    pub cpus: Option<String>,
    /// Keep the CPUs quiet that this lab would get.
    #[arg(long, value_name = "FILE")]
    pub lab: Option<PathBuf>,
    /// For the machine described here (by `latlab doctor --format json`), not this one.
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Target {
    /// Print the parameters as one line.
    #[arg(long)]
    pub cmdline: bool,
    /// Print the parameters with evidence and risk as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write a drop-in for GRUB (`/etc/default/grub.d/NAME.cfg`).
    #[arg(long, value_name = "FILE")]
    pub grub: Option<PathBuf>,
    /// Write a profile for tuned: this directory, with its tuned.conf.
    #[arg(long, value_name = "DIR")]
    pub tuned: Option<PathBuf>,
}
