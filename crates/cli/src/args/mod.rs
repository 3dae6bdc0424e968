//! The command line. Each verb's help states what it does and what it needs, with an example to copy.

mod adapt;
mod cache;
mod campaign;
mod compare;
mod exec;
mod export;
mod fabric;
mod host;
mod image;
mod import;
mod migrate;
mod overlay;
mod pairs;
mod part;
mod parts;
mod serve;
mod snapshot;
mod streams;
mod study;
mod traffic;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use latlab_model::plan::PartNumber;

use crate::doctor::DoctorArgs;
use crate::format::Format;
use crate::tune::args::Tune;
pub use adapt::{Adapt, Change as AdaptChange};
pub use cache::{Cache, CacheAction, CacheClean};
pub use campaign::{Campaign, Status as CampaignStatus, Submit as CampaignSubmit};
pub use compare::Compare;
pub use exec::{Exec, Shell};
pub use export::{Export, Tool};
pub use fabric::{
    Carrier as FabricCarrier, Fabric, Join, Move as FabricMove, Remove as FabricRemove,
    Show as FabricShow, Store,
};
pub use host::{
    Device, Host, HostAction, HostBoot, HostBootDevice, HostConsole, HostPower, PowerChange,
};
pub use image::Image;
pub use import::{By as MatchBy, Import, ImportCaptures, ImportTopology};
pub use migrate::Migrate;
pub use overlay::Overlay;
use pairs::{node_place, peer_key};
pub use part::{Part, PartMeasure, PartPlan};
pub use parts::Merge;
use parts::part_number;
pub use serve::Serve;
pub use snapshot::{Restore, Snapshot};
pub use streams::{Streams, Switch};
pub use study::StudyOptions;
pub use traffic::Traffic;

const ENVIRONMENT: &str = "\
Environment:
  LATLAB_STATE_DIR, LATLAB_RUN_DIR, LATLAB_CACHE_DIR
                       instead of /var/lib/latlab, /run/latlab and /var/cache/latlab
  LATLAB_MACHINE       the file of this machine's ports and cables [/etc/latlab/machine.yaml]
  LATLAB_PROFILE_DIR   where `tune` looks for profiles by name [/etc/latlab/profiles]
  LATLAB_AGENT         path of latlab-agent, if it is not beside latlab
  LATLAB_OVERLAY       path of latlab-overlay, if it is not beside latlab
  LATLAB_STREAMS       path of latlab-streams, if it is not beside latlab
  LATLAB_BOOT_TIMEOUT  seconds a guest may take to boot [120]
  LATLAB_RUNS          where `run` creates its directories [runs]";

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
    /// Show what this machine offers, what is missing, its cost and its remedy.
    Doctor(DoctorArgs),
    /// Check a lab, a study or a file of hosts and list every mistake with line, column and hint; change nothing.
    Validate(Validate),
    /// Draw a lab's nodes and links in the terminal, as Mermaid or as SVG.
    Graph(Graph),
    /// Show which CPUs and memory each part of a lab would use, and why; change nothing.
    Place(Place),
    /// Deploy a lab (needs root).
    Deploy(Deploy),
    /// List the nodes of deployed labs (needs root).
    Inspect(Inspect),
    /// Run a command inside a node, whatever its kind (needs root).
    Exec(Exec),
    /// Open a login shell in a node, whatever its kind (needs root).
    Shell(Shell),
    /// Stop nodes where they are: a VM's CPUs, or all processes of another node.
    Pause(Pause),
    /// Let paused nodes go on, also those whose move, snapshot or restore was cut off.
    Resume(Pause),
    /// Save a node with all its state into a directory; the node goes on (needs root).
    Snapshot(Snapshot),
    /// Let a node go on where it was saved (needs root).
    Restore(Restore),
    /// Make VMs of a lab copies of another one that runs (needs root).
    Clone(Clone),
    /// Move a VM or a container that runs to the hosts of another node (needs root).
    Migrate(Migrate),
    /// Destroy labs, including partially deployed ones; lab files are not needed (needs root).
    Destroy(Destroy),
    /// Run a study: deploy, measure, write the run directory and its report (needs root).
    Run(Run),
    /// Have a study measured by many machines: the nodes of a Slurm cluster, or hosts over ssh.
    #[command(subcommand)]
    Campaign(Campaign),
    /// Join the parts of a run, measured one by one or by several machines, into one run directory.
    Merge(Merge),
    /// Make a run of two captures of the same packets, or a lab of a topology of containerlab.
    Import(Import),
    /// Write a lab as a topology of containerlab.
    Export(Export),
    /// Summarise a run directory: a table here, and report.html beside the data.
    Report(Report),
    /// Show what each of a run's slowest packets waited for, and what causes the tail.
    Explain(Explain),
    /// Make an image from packages of Debian or Ubuntu, for containers, VMs and machines (needs root).
    Image(Image),
    /// List what is cached (images, kernels, disks), and remove what no lab uses (needs root).
    Cache(Cache),
    /// Compare two runs of the same study cell by cell.
    Compare(Compare),
    /// Serve a web page over a directory of runs: search, comparison, trends, notes.
    Serve(Serve),
    /// Quiet this machine, show what is in force, and restore it.
    #[command(subcommand)]
    Tune(Tune),
    /// Measure what interrupts this machine's CPUs, by cause (needs root).
    Noise(Noise),
    /// Query or reconfigure an overlay daemon: its networks, interfaces, links and routes.
    Overlay(Overlay),
    /// Show how many TCP connections of a lab are streams, and why others are not; switch streams on or off.
    Streams(Streams),
    /// Show which nodes of a lab exchange how much over its overlay, and in which topology.
    Traffic(Traffic),
    /// Change ways and carriers between the hosts of an overlay as their traffic asks for, or tell what would help.
    Adapt(Adapt),
    /// Join overlay daemons of many hosts by etcd: networks, links, and where each address is.
    #[command(subcommand)]
    Fabric(Fabric),
    /// Switch a machine, show its sensors or use its console, by its management controller (IPMI, Redfish).
    Host(Host),
    /// Forward frames between two interfaces: a device under test by hand (needs root).
    Forward(Forward),
    /// List the studies that come with latlab, or print one.
    Studies {
        /// Print this one's YAML.
        name: Option<String>,
    },
    /// Run a paper's studies again, and put its published figures beside those of this machine.
    Paper(Paper),
    /// Print the JSON Schema of lab.yaml or study.yaml, for editors.
    Schema {
        /// Document to print the schema of.
        #[arg(value_enum)]
        document: Document,
    },
    /// Print the public key of this machine, which seals links to it from other hosts of a lab (needs root).
    HostKey,
    /// Do a host's share of a study whose lab is on several. `latlab run` calls this on each host by itself.
    #[command(subcommand, hide = true)]
    Part(Part),
    /// Print the completions of a shell.
    Completions(Completions),
}

#[derive(Debug, Args)]
pub struct Validate {
    /// Files to check: labs, studies (which have `measurements`), hosts with their controllers, images, or the ports
    /// and cables of this machine.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Plan for the machine described here (by `latlab doctor --format json`), not this one.
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    /// Print the diagnostics, or the plan when there are none, as JSON; of several files an array of them.
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
    /// An image.
    Svg,
}

#[derive(Debug, Args)]
pub struct Graph {
    /// The lab's file, or the name of a deployed lab.
    pub lab: String,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: Drawing,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab place labs/isolated.yaml
  latlab doctor --format json > machine.json    (on the machine in question)
  latlab place labs/isolated.yaml --facts machine.json --format json

With `cpus: 3, isolate: true` a node asks for dedicated cores, and with `tuning: isolated` for a share of \
cores that the host does not use. Needs no root.")]
pub struct Place {
    /// The lab's file.
    pub lab: PathBuf,
    /// Place it on the machine described here (by `latlab doctor --format json`), not this one.
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Deploy {
    /// The lab's file, or `-` for standard input.
    pub lab: PathBuf,
    /// Deploy only the part of this host of the lab. `latlab deploy` calls this on each host by itself.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Public key of another host of the lab, for sealed links (repeatable). `latlab deploy` gives them by itself.
    #[arg(long, value_name = "HOST=KEY", requires = "host", value_parser = peer_key)]
    pub peer_key: Vec<(String, String)>,
    /// Host of a node that leaves the choice (repeatable). `latlab deploy` chooses by itself.
    #[arg(long, value_name = "NODE=HOST", requires = "host", value_parser = node_place)]
    pub place: Vec<(String, String)>,
    /// If something fails, leave the nodes up for inspection instead of destroying them.
    #[arg(long)]
    pub keep: bool,
    /// Start at most this many nodes at once [default: per CPU one with VMs, four without].
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Output format of the deployed nodes.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Leave out all tuning and isolation that the lab asks for.
    #[arg(long)]
    pub no_isolation: bool,
    /// Only show what would be created.
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct Inspect {
    /// Name of a lab [default: all labs].
    pub lab: Option<String>,
    /// Only what is on this machine, of labs on several hosts too.
    #[arg(long)]
    pub here: bool,
    /// Output format.
    #[arg(long, short, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: latlab pause pair server")]
pub struct Pause {
    /// Name of the lab.
    pub lab: String,
    /// Names of nodes; all but the host without any.
    pub nodes: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example: latlab clone cluster first second third

The copies go on with the memory, processes and files of the node, and with their own names, hardware addresses, \
addresses, machine ids, random numbers and links. What ran of them before ends. The lab has them as VMs with \
`root: disk` and the same fields as the node. Another one is refused and goes on; copies named before it are made.")]
pub struct Clone {
    /// Name of the lab.
    pub lab: String,
    /// Name of the node, which goes on.
    pub node: String,
    /// Names of the nodes that become copies of it.
    #[arg(required = true)]
    pub copies: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Destroy {
    /// Names of labs.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub labs: Vec<String>,
    /// Every lab of this machine, including partially deployed ones, and every lab deployed from here onto hosts.
    #[arg(long, short)]
    pub all: bool,
    /// Only the parts on this machine, of labs on several hosts.
    #[arg(long)]
    pub here: bool,
    /// Skip confirmation.
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Debug, Default, Args)]
#[command(
    after_help = "Example: latlab run first-light\n         latlab run studies/paths.yaml --runs /tmp/runs"
)]
pub struct Run {
    /// A study's file, or the name of one that comes with latlab (see `latlab studies`).
    pub study: String,
    /// Directory in which the run's own directory is created.
    #[arg(long, default_value = "runs", env = "LATLAB_RUNS", value_name = "DIR")]
    pub runs: PathBuf,
    #[command(flatten)]
    pub options: StudyOptions,
    /// If a trial fails, stop and leave its lab up for inspection.
    #[arg(long)]
    pub keep: bool,
    /// Output format of the summary.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Only this part of the run, for example 2/4; `latlab merge` joins the parts.
    #[arg(long, value_name = "K/N", value_parser = part_number)]
    pub part: Option<PartNumber>,
    /// Read temperature and power of this host by its controller, before and after each trial (repeatable).
    #[arg(long, value_name = "HOST")]
    pub sensors: Vec<String>,
    /// The file of such hosts (see `latlab host --help`).
    #[arg(
        long,
        env = "LATLAB_HOSTS",
        value_name = "FILE",
        default_value = "hosts.yaml"
    )]
    pub hosts: PathBuf,
    /// Only show the trials in their order.
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct Report {
    /// The run directory.
    pub run: PathBuf,
    /// Output format of the summary.
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

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ForwardBy {
    /// Packet sockets: two system calls per frame, works on every interface.
    #[default]
    AfPacket,
    /// AF_XDP: frames in memory shared with the kernel, taken before its network stack.
    AfXdp,
    /// An XDP program in the kernel that redirects each frame at the driver.
    Xdp,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab forward eth1 eth2
  latlab forward eth1 eth2 --by af-xdp --cpu 3            (polls: it occupies CPU 3)
  latlab forward eth1 eth2 --by af-packet --block         (sleeps while no frame arrives)
  ip netns exec middle latlab forward in out --by xdp --duration 10s

It joins two interfaces of this network namespace: every frame received on one leaves at the other, whatever \
its destination, and bypasses the kernel's network stack. With af-packet the stack gets a copy as well, so give \
the interfaces no addresses. It is the device under test of `latlab run forwarder`, timed by taps from outside; \
in a lab's measurement it is `device: af-packet`, `af-xdp` or `xdp`.

Polling (the default) occupies a whole CPU and has no wake-up in its latency; --block is interrupt-driven. \
AF_XDP loses checksum and segmentation offloads of the sender: on veth, `ethtool -K IF tx off` at both far ends \
lets TCP and UDP of ordinary sockets through; ARP, ICMP and latlab's own generator need no change. XDP programs \
are removed with the process, however it ends.")]
pub struct Forward {
    /// One interface.
    #[arg(value_name = "INTERFACE")]
    pub first: String,
    /// The other.
    #[arg(value_name = "INTERFACE")]
    pub second: String,
    /// Forwarding method.
    #[arg(long, value_enum, default_value_t)]
    pub by: ForwardBy,
    /// Sleep until a frame arrives instead of polling.
    #[arg(long)]
    pub block: bool,
    /// Run on these CPUs, e.g. 3 or 2-3.
    #[arg(long, value_name = "LIST")]
    pub cpu: Option<String>,
    /// Stop after this time [default: at Ctrl-C].
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example: latlab completions bash > /usr/share/bash-completion/completions/latlab

The Debian package installs them.")]
pub struct Completions {
    /// The shell.
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab paper                              the papers, and the studies of each
  latlab paper dhar2016 --quick             run its studies with three replicates (needs root)
  latlab paper dhar2016 --from runs/boot-…  no run: compare what was measured before

Only ratios to the first column are compared: absolute figures of two machines say nothing about each other. \
A published ratio says more, less, or the same within 5 %. It holds if the whole 95 % interval of the ratio \
here says the same. An emulated VM tells nothing of a real one.")]
pub struct Paper {
    /// The paper; without it, all of them are listed.
    pub name: Option<String>,
    /// Three replicates instead of each study's own number.
    #[arg(long, requires = "name")]
    pub quick: bool,
    /// Number of replicates, instead of each study's own.
    #[arg(long, value_name = "N", requires = "name", conflicts_with = "quick")]
    pub replicates: Option<u32>,
    /// Directory in which the runs' own directories are created.
    #[arg(long, default_value = "runs", env = "LATLAB_RUNS", value_name = "DIR")]
    pub runs: PathBuf,
    /// Run directories to compare; nothing is measured.
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "name")]
    pub from: Vec<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// lab.yaml
    Lab,
    /// study.yaml
    Study,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn texts(command: &clap::Command, found: &mut Vec<(String, String)>) {
        if let Some(text) = command.get_after_help() {
            found.push((command.get_name().to_owned(), text.to_string()));
        }
        for verb in command.get_subcommands() {
            texts(verb, found);
        }
    }

    /// The terminal's width ends a line of prose; an example is one line to copy.
    #[test]
    fn help_has_no_line_that_a_terminal_breaks_in_the_middle() {
        let mut found = Vec::new();
        texts(&Cli::command(), &mut found);
        assert!(found.len() > 10);
        let is_prose =
            |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
        for (verb, text) in found {
            let lines: Vec<&str> = text.lines().collect();
            for line in &lines {
                let width = line.chars().count();
                assert!(
                    is_prose(line) || width <= 100,
                    "{verb}: {width} columns: {line}"
                );
            }
            for pair in lines.windows(2) {
                assert!(!pair.iter().all(|line| is_prose(line)), "{verb}: {pair:?}");
            }
        }
    }
}
