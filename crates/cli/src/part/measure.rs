//! A trial whose nodes are all on this host: measured as in a run here, and sent to where the run is.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use latlab_host::lab::Lab;
use latlab_host::sys::random;
use latlab_measure::run::{Deployed, Order};
use latlab_model::spec::Study;
use latlab_samples::{RunDir, carried};

use crate::args::PartMeasure;
use crate::failure::{Failure, Hint, INTERRUPTED, Outcome};

pub fn run(lab: &Lab, args: &PartMeasure) -> Outcome {
    let mut text = String::new();
    io::stdin()
        .take(args.study_bytes)
        .read_to_string(&mut text)
        .hint("a study is UTF-8 text")?;
    let by_name = |study: Study| {
        let mut all = study.measurements.into_iter();
        all.find(|m| m.name.value == args.measurement)
    };
    let measurement = Study::parse(&text).ok().and_then(by_name);
    let measurement = measurement.ok_or_else(|| {
        let message = format!("the study has no measurement `{}`", args.measurement);
        Failure::new(message, "the latlabs of all hosts must be equal")
    })?;
    let scratch = Scratch::new();
    give_up_with_stdin(scratch.0.clone());
    let dir = RunDir::create(&scratch.0)?;
    let order = Order {
        number: args.trial,
        cell: &args.cell,
        replicate: args.replicate,
        repeats: args.repeats,
        measurement: &measurement,
        seed: args.seed,
        starts: &[],
    };
    Deployed::measure(lab, &order, &dir)?;
    carried::pack(&dir, args.trial, io::stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}

/// The end of stdin is the end of the connection: the caller does not wait for the result any more. Programs in nodes end
/// with this process's ends of their pipes.
fn give_up_with_stdin(scratch: PathBuf) {
    thread::spawn(move || {
        io::copy(&mut io::stdin(), &mut io::sink()).ok();
        std::fs::remove_dir_all(scratch).ok();
        std::process::exit(INTERRUPTED.into());
    });
}

/// A directory that goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        let name = format!("latlab-trial-{}", random::hex::<8>());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
