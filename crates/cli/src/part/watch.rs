//! The watch over this machine during a trial between hosts.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use latlab_host::lab::Lab;
use latlab_measure::error::one_line;
use latlab_measure::run::Deployed;
use latlab_measure::watch::{Watch, Watched};
use serde::{Deserialize, Serialize};

use crate::failure::{Outcome, explain};
use crate::print;

/// Printed once the watch has begun, and the nodes' scripts run.
pub const READY: &str = "watching";

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    pub watched: Watched,
    /// A node that has ended by itself.
    pub dead: Option<String>,
}

pub fn run(lab: &Lab) -> Outcome {
    let scripts = lab.run_scripts().map_err(explain)?;
    let watch = Watch::begin(lab);
    println!("{READY}");
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    let answer = Answer {
        watched: watch.end(lab),
        dead: lab.check_nodes().err().map(|dead| one_line(&dead)),
    };
    drop(scripts);
    print::document(&serde_json::to_string(&answer)?)
}

/// Waits until the machine is quiet, for a bounded time.
pub fn quiet(lab: &Lab) -> Outcome {
    Deployed::wait_for_quiet(lab, &AtomicBool::new(false));
    Ok(ExitCode::SUCCESS)
}
