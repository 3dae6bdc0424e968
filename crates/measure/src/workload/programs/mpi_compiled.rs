//! Programs over MPI whose sources latlab's agent carries: compiled in every node of a job, and found there by name.
//!
//! Their directory is on a file system that programs may be executed from: `/dev/shm` of containers is none. The daemon of
//! each node looks for the program along its own `PATH`, so that nodes may have the directory at different places.

use super::mpi;
use super::work::{Files, Place, Server, shell};

/// Kept over a reboot, and executable, by the Filesystem Hierarchy Standard.
const DIRECTORY: &str = "/var/tmp";

/// A program, and what of the sources it is made of.
pub(super) struct Compiled {
    pub program: &'static str,
    pub sources: &'static str,
    /// A secret of one measurement.
    pub token: String,
}

pub(super) fn files() -> Files {
    Files::In {
        directory: DIRECTORY.to_owned(),
        storage: false,
    }
}

impl Compiled {
    /// A line that makes the program in its directory, by the agent as it is called there.
    fn make(&self, agent: &str, directory: &str) -> String {
        let Compiled {
            program, sources, ..
        } = self;
        format!(
            "cd '{directory}' && '{agent}' mpi sources . && mpicc -std=c99 -O2 -o {program} {sources} -lm"
        )
    }

    /// The starter of a node's part, once that has the program; none in the node that begins.
    pub fn server(&self, at: &Place) -> Option<Server> {
        let server = mpi::server(at, &self.token)?;
        let make = self.make(&at.own_agent, &at.directory);
        let words: Vec<String> = server.argv.iter().map(|word| format!("'{word}'")).collect();
        let serve = words.join(" ");
        Some(Server {
            argv: shell(&format!("{make} && PATH=\"$PWD:$PATH\" exec {serve}")),
            ..server
        })
    }

    /// The versions of MPI and of its compiler, and the program of the node that begins.
    pub fn preparation(&self, at: &Place) -> Vec<String> {
        let make = self.make(&at.agent, &at.directory);
        shell(&format!(
            "mpirun --version && mpicc -dumpfullversion && {make}"
        ))
    }

    /// A line that runs the program over all nodes, with `ranks` ranks in each.
    pub fn command(&self, at: &Place, ranks: u32, arguments: &str) -> Result<Vec<String>, String> {
        let program = format!("{} {arguments}", self.program);
        let run = mpi::run(at, &self.token, ranks, &program)?;
        let directory = &at.directory;
        Ok(shell(&format!(
            "cd '{directory}' && PATH=\"$PWD:$PATH\" {run}"
        )))
    }
}

/// The versions that the preparation told.
pub(super) fn version(prepared: &str) -> Option<String> {
    let mpi = prepared.lines().next()?.trim();
    let compiler = prepared.lines().last()?.trim();
    Some(format!("{mpi}, gcc {compiler}"))
}
