//! A program as a measurement needs it.

use latlab_host::nodes::session::Command;
use latlab_model::results::Figure;

use crate::workload::node::Ended;

/// A program in each node, and how its output is read.
pub(crate) trait Work {
    /// For messages.
    fn name(&self) -> &str;

    /// Where it has its files.
    fn files(&self) -> Files {
        Files::None
    }

    /// The server that it is a client of, in the node of the measurement; of a job the starter of a node's part.
    fn server(&self, _at: &Place) -> Option<Server> {
        None
    }

    /// A command in each node beforehand: it tells the version, and warms up. Empty for none.
    fn preparation(&self, _at: &Place) -> Vec<String> {
        Vec::new()
    }

    /// The program and its arguments. `prepared` is what the preparation wrote; the error says what is wrong with it.
    fn command(&self, at: &Place, prepared: &str) -> Result<Vec<String>, String>;

    /// A command behind it that shows what it did, as evidence for [`Work::read`]. Empty for none.
    fn check(&self, _at: &Place) -> Vec<String> {
        Vec::new()
    }

    /// The meaning of its values; the first is the metric.
    fn figures(&self) -> Vec<Figure>;

    /// The values, once it is certain that it did what it was asked for. The error says, of the program, what it did
    /// instead.
    fn read(&self, ended: &Ended, evidence: &Evidence) -> Result<Vec<f64>, String>;

    /// The program's version in the output of the preparation, or in its own.
    fn version(&self, _prepared: &str, _output: &str) -> Option<String> {
        None
    }
}

/// A node as its program finds it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    pub node: String,
    /// Path of the agent, in the client's node.
    pub agent: String,
    /// The agent as the node's own command.
    pub own_agent: String,
    /// The program's own directory, empty before; none without files.
    pub directory: String,
    /// The directory is in storage of type tmpfs.
    pub in_tmpfs: bool,
    /// The server's address for the client.
    pub server: String,
    /// The address that the server listens at.
    pub listen: String,
    /// The other nodes of a job, in the node that begins it.
    pub peers: Peers,
}

/// Nodes of a job as the one that begins it reaches them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peers {
    /// Its own address first. Empty without a job of several nodes.
    pub addresses: Vec<String>,
    /// The networks of these addresses, with the lengths of their prefixes.
    pub networks: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Files {
    None,
    /// In memory, in every kind of node: what is measured is no disk.
    Memory,
    /// Below a directory of the user's.
    In {
        directory: String,
        storage: bool,
    },
}

/// A program that runs in the background for as long as its clients need it.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// For messages.
    pub name: &'static str,
    pub argv: Vec<String>,
    /// A command of the client's node that succeeds once the server answers.
    pub ready: Vec<String>,
}

/// All else that is known of a program's run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    pub prepared: String,
    /// The output of [`Work::check`].
    pub checked: String,
}

pub(super) fn figure(name: &str, title: &str, unit: &str, higher_is_better: bool) -> Figure {
    Figure {
        name: name.into(),
        title: title.into(),
        unit: unit.into(),
        higher_is_better,
    }
}

/// A line for the node's shell.
pub(super) fn shell(line: &str) -> Vec<String> {
    Command::shell(line).argv
}

/// A command without blanks in its words.
pub(super) fn split(line: &str) -> Vec<String> {
    line.split(' ').map(String::from).collect()
}
