//! Writes a synthetic run directory and its report, so that the table and the page can be viewed on any
//! machine, without root:
//!
//! ```text
//! cargo run -p latlab-report --example synthetic_run -- /tmp/made-up [replicates [samples]]
//! ```

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use std::io::IsTerminal;
use std::process::ExitCode;

use latlab_report::terminal::{self, Look};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, numbers @ ..] = arguments.as_slice() else {
        eprintln!("usage: synthetic_run DIRECTORY [REPLICATES [SAMPLES]]");
        return ExitCode::from(2);
    };
    let mut plan = synthetic::Plan::realistic();
    let number = |index: usize| numbers.get(index).and_then(|text| text.parse().ok());
    plan.replicates = number(0).unwrap_or(plan.replicates);
    plan.samples = number(1).map_or(plan.samples, u64::from);
    let run = plan.write(directory);
    let started = std::time::Instant::now();
    match latlab_report::conclude(&run) {
        Ok(summary) => {
            let look = Look {
                colour: std::io::stdout().is_terminal(),
            };
            print!("{}", terminal::render(&summary, look));
            println!("\n{}", terminal::tally(&summary));
            println!("concluded in {:.2} s", started.elapsed().as_secs_f64());
            println!("{}", run.report_path().display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
