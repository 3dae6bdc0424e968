//! The command and its verbs.

use clap::{Parser, Subcommand};

use super::adapt::Adapt;
use super::cache::Cache;
use super::campaign::Campaign;
use super::clone::Clone;
use super::compare::Compare;
use super::completions::Completions;
use super::deploy::Deploy;
use super::destroy::Destroy;
use super::exec::{Exec, Shell};
use super::explain::Explain;
use super::export::Export;
use super::fabric::Fabric;
use super::forward::Forward;
use super::graph::Graph;
use super::host::Host;
use super::image::Image;
use super::import::Import;
use super::inspect::Inspect;
use super::migrate::Migrate;
use super::noise::Noise;
use super::overlay::Overlay;
use super::paper::Paper;
use super::part::Part;
use super::parts::Merge;
use super::pause::Pause;
use super::place::Place;
use super::report::Report;
use super::run::Run;
use super::schema::Document;
use super::serve::Serve;
use super::snapshot::{Restore, Snapshot};
use super::streams::Streams;
use super::traffic::Traffic;
use super::validate::Validate;
use crate::doctor::DoctorArgs;
use crate::tune::args::Tune;

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
