//! The probes as a program of their own, for working on them without an agent.

use std::process::ExitCode;

fn main() -> ExitCode {
    latlab_probe::main(std::env::args_os().skip(1))
}
