//! `latlab report`: the table and page of a run directory. Needs neither root nor the measuring machine.

use std::path::Path;
use std::process::ExitCode;

use latlab_model::results::Summary;
use latlab_report::terminal;
use latlab_report::{Analysis, analyse, conclude};
use latlab_samples::RunDir;

use crate::args::Report;
use crate::failure::{Failure, Hint, Outcome};
use crate::format::Format;

pub fn run(args: &Report) -> Outcome {
    if args.print_only {
        print(&read(&args.run)?.summary, args.format)?;
    } else {
        let dir = open(&args.run)?;
        damaged(&dir);
        write_and_print(&dir, args.format)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The analysis of a run directory, in which nothing is written.
pub fn read(path: &Path) -> Result<Analysis, Failure> {
    let dir = open(path)?;
    damaged(&dir);
    analyse(&dir).hint("the run directory is incomplete; was it copied completely?")
}

pub fn open(path: &Path) -> Result<RunDir, Failure> {
    RunDir::open(path).hint("name a directory that `latlab run` made, for example runs/quick-…")
}

/// Reports raw files that changed since the run.
fn damaged(dir: &RunDir) {
    let Ok(manifest) = dir.read_manifest() else {
        return;
    };
    for (file, damage) in dir.verify(&manifest.checksums) {
        eprintln!(
            "latlab: {file} of {} is {damage:?} since the run",
            manifest.id
        );
    }
}

/// Computes the summary, and writes it and the page beside the data.
pub fn write(dir: &RunDir) -> Result<Summary, Failure> {
    conclude(dir).hint(
        "if the disk is full or read-only, `latlab report --print-only` writes nothing; else the run \
         directory is incomplete",
    )
}

/// As [`write()`], and prints the table and the path.
pub fn write_and_print(dir: &RunDir, format: Format) -> Result<(), Failure> {
    let summary = write(dir)?;
    print(&summary, format)?;
    if format == Format::Table {
        let page = std::path::absolute(dir.report_path()).unwrap_or_else(|_| dir.report_path());
        println!("\nreport: {}", page.display());
    }
    Ok(())
}

fn print(summary: &Summary, format: Format) -> Result<(), Failure> {
    let text = match format {
        Format::Table => terminal::render(summary, crate::print::look()),
        Format::Json => serde_json::to_string_pretty(summary)? + "\n",
        Format::Csv => terminal::csv(summary),
    };
    crate::print::out_if_read(&text)
}
