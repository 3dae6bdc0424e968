//! Programs over MPI whose sources latlab's agent carries: compiled in every node of a job, and found there by name.
//!
//! Their directory is on a file system that programs may be executed from: `/dev/shm` of containers is none. The daemon of
//! each node looks for the program along its own `PATH`, so that nodes may have the directory at different places.

use latlab_model::results::Figure;

use super::mpi;
use super::work::{Evidence, Files, Place, Server, Work, shell};
use crate::workload::node::Ended;

/// Kept over a reboot, and executable, by the Filesystem Hierarchy Standard.
const DIRECTORY: &str = "/var/tmp";

/// A job of such a program.
pub(super) trait Job {
    /// For messages.
    const NAME: &'static str;
    const PROGRAM: &'static str;
    /// The files among the sources that the program is made of.
    const SOURCES: &'static str;

    /// Ranks in each node.
    fn processes(&self) -> u32;
    fn arguments(&self) -> String;
    /// The meaning of its values; the first is the metric.
    fn figures(&self) -> Vec<Figure>;
    /// The values, if the program is right by its own checks.
    fn read(&self, text: &str) -> Result<Vec<f64>, String>;
}

pub(super) struct Compiled<J> {
    job: J,
    /// A secret of one measurement.
    token: String,
}

impl<J: Job> Compiled<J> {
    pub fn new(job: J) -> Self {
        let token = mpi::token();
        Compiled { job, token }
    }

    /// A line that makes the program in its directory, by the agent as it is called there.
    fn make(agent: &str, directory: &str) -> String {
        let (program, sources) = (J::PROGRAM, J::SOURCES);
        format!(
            "cd '{directory}' && '{agent}' mpi sources . && mpicc -std=c99 -O2 -o {program} {sources} -lm"
        )
    }
}

impl<J: Job> Work for Compiled<J> {
    fn name(&self) -> &str {
        J::NAME
    }

    fn files(&self) -> Files {
        Files::In {
            directory: DIRECTORY.to_owned(),
            storage: false,
        }
    }

    /// The starter of a node's part, once that has the program; none in the node that begins.
    fn server(&self, at: &Place) -> Option<Server> {
        let server = mpi::server(at, &self.token)?;
        let make = Self::make(&at.own_agent, &at.directory);
        let words: Vec<String> = server.argv.iter().map(|word| format!("'{word}'")).collect();
        let serve = words.join(" ");
        Some(Server {
            argv: shell(&format!("{make} && PATH=\"$PWD:$PATH\" exec {serve}")),
            ..server
        })
    }

    /// The versions of MPI and of its compiler, and the program of the node that begins.
    fn preparation(&self, at: &Place) -> Vec<String> {
        let make = Self::make(&at.agent, &at.directory);
        shell(&format!(
            "mpirun --version && mpicc -dumpfullversion && {make}"
        ))
    }

    fn command(&self, at: &Place, _prepared: &str) -> Result<Vec<String>, String> {
        let program = format!("{} {}", J::PROGRAM, self.job.arguments());
        let run = mpi::run(at, &self.token, self.job.processes(), &program)?;
        let directory = &at.directory;
        Ok(shell(&format!(
            "cd '{directory}' && PATH=\"$PWD:$PATH\" {run}"
        )))
    }

    fn figures(&self) -> Vec<Figure> {
        self.job.figures()
    }

    fn read(&self, ended: &Ended, _evidence: &Evidence) -> Result<Vec<f64>, String> {
        self.job.read(&ended.text())
    }

    fn version(&self, prepared: &str, _output: &str) -> Option<String> {
        let mpi = prepared.lines().next()?.trim();
        let compiler = prepared.lines().last()?.trim();
        Some(format!("{mpi}, gcc {compiler}"))
    }
}
