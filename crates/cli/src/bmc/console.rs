//! `latlab host HOST console`.

use std::fs;
use std::process::{Command, ExitCode};
use std::time::Instant;

use latlab_bmc::Controller;
use latlab_model::spec::ManagedHost;

use super::session::{Session, create, reason};
use crate::args::HostConsole;
use crate::failure::{Hint, Outcome, of_controller};
use crate::signals;

pub fn run(host: &ManagedHost, controller: &dyn Controller, args: &HostConsole) -> Outcome {
    let command = controller.console().map_err(of_controller)?;
    if args.take {
        controller.free_console().map_err(of_controller)?;
    }
    let Some(path) = &args.record else {
        return at_the_terminal(command);
    };
    let file = create(path)?;
    let stop = signals::stop_flag()?;
    let mut session = Session::begin(command, file).hint("install ipmitool")?;
    eprintln!("recording the console of {} until Ctrl-C", &*host.name);
    let end = args.seconds.map(|seconds| Instant::now() + seconds);
    let ended = session.wait(&stop, end)?;
    let (bytes, said) = session.end()?;
    if ended {
        // A busy console, or a controller that is gone.
        let failure = of_controller(reason(host, &said));
        return Err(match bytes {
            0 => {
                fs::remove_file(path)?;
                failure
            }
            _ => failure.and_hint(format!("{bytes} bytes are in {}", path.display())),
        });
    }
    println!("{}: {bytes} bytes", path.display());
    Ok(ExitCode::SUCCESS)
}

/// Hands the terminal to the tool, which is left by `~.` at the beginning of a line.
fn at_the_terminal(mut command: Command) -> Outcome {
    eprintln!("`~.` at the beginning of a line leaves the console");
    let status = command.status().hint("install ipmitool")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}
