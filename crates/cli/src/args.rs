//! What can be typed. The texts teach: each verb says what it does, what it needs, and shows a line
//! to copy.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::doctor::DoctorArgs;
use crate::tune::Tune;

const ENVIRONMENT: &str = "\
Environment:
  LATLAB_STATE_DIR, LATLAB_RUN_DIR, LATLAB_CACHE_DIR
                       other places than /var/lib/latlab, /run/latlab and /var/cache/latlab
  LATLAB_PROFILE_DIR   where `tune` looks for profiles by name [/etc/latlab/profiles]
  LATLAB_AGENT         latlab-agent, where it is not beside latlab
  LATLAB_OVERLAY       latlab-overlay, where it is not beside latlab
  LATLAB_BOOT_TIMEOUT  seconds a guest may take to boot [120]
  LATLAB_RUNS          where `run` makes its directories [runs]";

/// Build a network of processes, containers and VMs, time every packet, compare honestly.
#[derive(Debug, Parser)]
#[command(
    name = "latlab",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = ENVIRONMENT
)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Say what this machine offers, what is missing, what that costs, and how to get it.
    Doctor(DoctorArgs),
    /// Check a lab or a study and say every mistake with line, column and hint; change nothing.
    Validate(Validate),
    /// Draw a lab's nodes and links in the terminal, as Mermaid or as SVG.
    Graph(Graph),
    /// Say which processors and memory everything of a lab would use, and why; change nothing.
    Place(Place),
    /// Bring a lab up (needs root).
    Deploy(Deploy),
    /// List the nodes of deployed labs.
    Inspect(Inspect),
    /// Run a command inside a node, whatever its kind (needs root).
    Exec(Exec),
    /// Take labs down; needs neither their files nor that they are whole (needs root).
    Destroy(Destroy),
    /// Run a study: deploy, measure, write the run directory and its report (needs root).
    Run(Run),
    /// Summarise a run directory: a table here, and report.html beside the data.
    Report(Report),
    /// Say what each of a run's slowest packets waited for, and who owns the tail.
    Explain(Explain),
    /// Compare two runs of the same study cell by cell.
    Compare(Compare),
    /// Quiet this machine, see what is in force, and put it back.
    #[command(subcommand)]
    Tune(Tune),
    /// Say what interrupts this machine's processors, by cause (needs root).
    Noise(Noise),
    /// Speak with an overlay's daemon: see and change its networks, interfaces, links and routes.
    Overlay(Overlay),
    /// Carry frames between two interfaces: a device under test by hand (needs root).
    Forward(Forward),
    /// List the studies that come with latlab, or print one.
    Studies(Studies),
    /// Print the JSON Schema of lab.yaml or study.yaml, for editors.
    Schema(Schema),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
    /// For spreadsheets.
    Csv,
}

#[derive(Debug, Args)]
pub struct Validate {
    /// Files to check: labs, or studies (which have `measurements`).
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Plan for the machine described here (made by `latlab doctor --format json`), not this one.
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    /// Print the diagnostics, or the plan when there are none, as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Drawing {
    /// Lines of text.
    #[default]
    Terminal,
    /// For Markdown.
    Mermaid,
    /// A picture.
    Svg,
}

#[derive(Debug, Args)]
pub struct Graph {
    /// The lab's file, or the name of a deployed lab.
    pub lab: String,
    /// How to draw it.
    #[arg(long, value_enum, default_value_t)]
    pub format: Drawing,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab place labs/isolated.yaml
  latlab doctor --format json > machine.json    (on the machine in question)
  latlab place labs/isolated.yaml --facts machine.json --format json

A node asks with `cpus: 3, isolate: true` for cores of its own, and with `tuning: isolated` for a share
of cores that the host is kept off. Needs no root.")]
pub struct Place {
    /// The lab's file.
    pub lab: PathBuf,
    /// Place it on the machine described here (made by `latlab doctor --format json`), not this one.
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Deploy {
    /// The lab's file.
    pub lab: PathBuf,
    /// If something fails, leave what is up for inspection instead of taking it down.
    #[arg(long)]
    pub keep: bool,
    /// Start at most this many nodes at once [default: one a processor].
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// How to print the deployed nodes.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Leave out all tuning and isolation that the lab asks for.
    #[arg(long)]
    pub no_isolation: bool,
    /// Only show what would be made.
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct Inspect {
    /// Name of a lab; all labs when not given.
    pub lab: Option<String>,
    /// How to print it.
    #[arg(long, short, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: latlab exec pair server -- ip address")]
pub struct Exec {
    /// Name of the lab.
    pub lab: String,
    /// Name of the node.
    pub node: String,
    /// Set a variable for the command (repeatable).
    #[arg(long, short, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Run it in this directory.
    #[arg(long, short = 'C', value_name = "DIR")]
    pub directory: Option<String>,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true)]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Destroy {
    /// Names of labs.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub labs: Vec<String>,
    /// Every lab of this machine, also half-made ones.
    #[arg(long, short)]
    pub all: bool,
    /// Do not ask.
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example: latlab run first-light\n         latlab run studies/paths.yaml --runs /tmp/runs"
)]
pub struct Run {
    /// A study's file, or the name of one that comes with latlab (see `latlab studies`).
    pub study: String,
    /// Directory in which the run's own directory is made.
    #[arg(long, default_value = "runs", env = "LATLAB_RUNS", value_name = "DIR")]
    pub runs: PathBuf,
    /// Replicates instead of the study's own number.
    #[arg(long, value_name = "N")]
    pub replicates: Option<u32>,
    /// Seed instead of the study's own.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// If a trial fails, stop and leave its lab up for inspection.
    #[arg(long)]
    pub keep: bool,
    /// How to print the summary.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Leave out all tuning and isolation that the labs ask for: what were they worth?
    #[arg(long)]
    pub no_isolation: bool,
    /// Only show the trials in their order.
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct Report {
    /// The run directory.
    pub run: PathBuf,
    /// How to print the summary.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Do not write summary.json, latency.hlog and report.html; only print.
    #[arg(long)]
    pub print_only: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab run forwarder
  latlab explain runs/forwarder-20261121-220409
  latlab explain runs/forwarder-20261121-220409 --trial 1 --perfetto slow.json   (for ui.perfetto.dev)
  latlab explain runs/forwarder-20261121-220409 --trial 1 --pcapng slow.pcapng   (for Wireshark)

Only measurements with `probe: forward` have taps and a flight recorder. Needs no root, and gives the same
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
    /// How to print it; csv has one line a packet.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Also write a timeline of the slowest packets and the processors, for Perfetto.
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Also write the slowest packets at both taps, with their causes as comments.
    #[arg(long, value_name = "FILE")]
    pub pcapng: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab noise --duration 10s
  latlab noise --cpus 2-3 --threshold 500 --format json

A thread on each processor does nothing but read its clock; every step longer than the threshold is an
interruption, and the flight recorder says whose. It takes these processors from everything else meanwhile.
One of which it knows nothing is unexplained; if it comes back at the same time of every period, it is the
hypervisor's or the firmware's own timer.
Without BPF the interruptions are counted and their causes are not known.")]
pub struct Noise {
    /// Processors, as the kernel lists them [default: all].
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// How long.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub duration: String,
    /// Steps of the clock that are longer are interruptions, in ns.
    #[arg(long, value_name = "NS", default_value_t = 1000)]
    pub threshold: u64,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ForwardBy {
    /// Packet sockets: two system calls a frame, works on every interface.
    #[default]
    AfPacket,
    /// AF_XDP: frames in memory shared with the kernel, taken before its own network sees them.
    AfXdp,
    /// An XDP program in the kernel that sends each frame on where it comes in.
    Xdp,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab forward eth1 eth2
  latlab forward eth1 eth2 --by af-xdp --cpu 3            (polls: processor 3 is its own)
  latlab forward eth1 eth2 --by af-packet --block         (sleeps while nothing comes)
  ip netns exec middle latlab forward in out --by xdp --duration 10s

It joins two interfaces of this network namespace like a cable with a processor in it: every frame that comes
in at one leaves at the other, whoever it is for, and the kernel's own network does not get it (af-packet: it
gets a copy as well, so give the interfaces no addresses). It stands in the middle of `latlab run forwarder`,
where taps time it from outside; in a lab's measurement it is `device: af-packet`, `af-xdp` or `xdp`.

Polling (the default) takes a whole processor and has no wake-up in its latency; --block is interrupt-driven.
AF_XDP loses what a sender leaves to its card: on veth, `ethtool -K IF tx off` at both far ends lets TCP and
UDP of ordinary sockets through; ARP, ICMP and latlab's own generator need nothing. XDP programs go with the
process, however it ends.")]
pub struct Forward {
    /// One interface.
    #[arg(value_name = "INTERFACE")]
    pub first: String,
    /// The other.
    #[arg(value_name = "INTERFACE")]
    pub second: String,
    /// What carries the frames.
    #[arg(long, value_enum, default_value_t)]
    pub by: ForwardBy,
    /// Sleep until something comes instead of asking again and again.
    #[arg(long)]
    pub block: bool,
    /// Run on these processors, as the kernel lists them.
    #[arg(long, value_name = "LIST")]
    pub cpu: Option<String>,
    /// End after this time [default: at Ctrl-C].
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
}

#[derive(Debug, Args)]
pub struct Compare {
    /// The run to compare against.
    pub before: PathBuf,
    /// The run to judge.
    pub after: PathBuf,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Compare even if the machines differ.
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct Studies {
    /// Print this one's YAML.
    pub name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// lab.yaml
    Lab,
    /// study.yaml
    Study,
}

#[derive(Debug, Args)]
pub struct Schema {
    /// Which document.
    #[arg(value_enum)]
    pub document: Document,
}

/// The overlay's daemon is `latlab-overlay`; a lab's `type: overlay` links run one each (or one for
/// each end, when they have a `carrier`). What is said here is its control language: `help` prints
/// all of it. Without a command, commands are read from the standard input, one a line.
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
    /// Certificate of the authority that has signed the daemon's (PEM).
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
