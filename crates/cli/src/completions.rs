//! `latlab completions`: what a shell completes.

use clap::CommandFactory;

use crate::args::{Cli, Completions};
use crate::failure::Outcome;

pub fn run(args: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "latlab", &mut script);
    crate::print::document(&String::from_utf8_lossy(&script))
}
