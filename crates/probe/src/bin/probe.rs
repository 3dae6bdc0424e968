//! The probes as a program of their own, for their tests and for working on them. What nodes run
//! is `latlab-agent probe`, which calls the same function.

use std::process::ExitCode;

fn main() -> ExitCode {
    latlab_probe::main(std::env::args_os().skip(1))
}
