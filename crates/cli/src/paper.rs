//! `latlab paper`: a paper's studies, and its published figures beside those of this machine.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use latlab_model::paper::{Paper, PaperName};
use latlab_model::results::{PaperComparison, Summary};

use crate::failure::{Failure, INTERRUPTED, MEASURED_FAILED, Outcome, need_root};
use crate::format::Format;
use crate::run;
use crate::{args, report, signals, table};

/// The replicates of `--quick`: the fewest that have an interval.
const QUICK: u32 = 3;

pub fn run(args: &args::Paper) -> Outcome {
    let Some(name) = &args.name else {
        return list();
    };
    let Some(name) = PaperName::of_word(name) else {
        let known = PaperName::WORDS.join(", ");
        return Err(Failure::new(
            format!("no paper `{name}`"),
            format!("one of: {known}"),
        ));
    };
    let paper = read(name)?;
    let (summaries, code) = if args.from.is_empty() {
        measured(&paper, args)?
    } else {
        (kept(&paper, args)?, ExitCode::SUCCESS)
    };
    let all: Vec<&Summary> = summaries.iter().collect();
    print(&latlab_report::paper::compare(&paper, &all), args.format)?;
    Ok(code)
}

fn read(name: PaperName) -> Result<Paper, Failure> {
    let unread = |errors| {
        Failure::new(
            format!("paper `{name}`: {errors}"),
            "this is a fault of latlab",
        )
    };
    Paper::built_in(name).map_err(unread)
}

fn list() -> Outcome {
    let mut rows = Vec::new();
    for name in PaperName::ALL {
        let paper = read(*name)?;
        rows.push(vec![
            name.word().to_owned(),
            paper.title,
            paper.studies.join(", "),
        ]);
    }
    crate::print::document(&table::render(&["PAPER", "TITLE", "STUDIES"], &rows))
}

/// Runs the studies one after the other. One that cannot run here, or of which trials fail, ends only itself; an
/// interruption ends all, also between two of them.
fn measured(paper: &Paper, args: &args::Paper) -> Result<(Vec<Summary>, ExitCode), Failure> {
    need_root("paper", "it deploys labs")?;
    let replicates = args.replicates.or(args.quick.then_some(QUICK));
    let stop = signals::stop_flag()?;
    let mut summaries = Vec::new();
    let mut code = ExitCode::SUCCESS;
    for (index, study) in paper.studies.iter().enumerate() {
        eprintln!("study {} of {}: {study}", index + 1, paper.studies.len());
        let options = args::Run {
            study: study.clone(),
            runs: args.runs.clone(),
            options: args::StudyOptions {
                replicates,
                ..args::StudyOptions::default()
            },
            ..args::Run::default()
        };
        match run::measure(&options, Some(&stop)) {
            Ok(Some(done)) => {
                summaries.push(report::write(&done.dir)?);
                eprintln!("report: {}", done.dir.report_path().display());
                if let Err(failure) = run::verdict(&options, &done.outcome, done.trials) {
                    eprint!("{failure}");
                    code = failure.code();
                }
            }
            // Only the order was asked for, which is not done here.
            Ok(None) => {}
            Err(failure) => {
                eprint!("{failure}");
                code = ExitCode::from(MEASURED_FAILED);
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Ok((summaries, ExitCode::from(INTERRUPTED)));
        }
    }
    Ok((summaries, code))
}

/// The summaries of run directories, each of a study of the paper.
fn kept(paper: &Paper, args: &args::Paper) -> Result<Vec<Summary>, Failure> {
    let summary = |path: &Path| {
        let summary = report::read(path)?.summary;
        if paper.studies.contains(&summary.study) {
            return Ok(summary);
        }
        let message = format!("{} is a run of study `{}`", path.display(), summary.study);
        let hint = format!(
            "the studies of {} are {}",
            paper.name,
            paper.studies.join(", ")
        );
        Err(Failure::new(message, hint))
    };
    args.from.iter().map(|path| summary(path)).collect()
}

fn print(paper: &PaperComparison, format: Format) -> Result<(), Failure> {
    let text = match format {
        Format::Table => latlab_report::paper::render(paper, crate::print::look()),
        Format::Json => serde_json::to_string_pretty(paper)? + "\n",
        Format::Csv => latlab_report::paper::csv(paper),
    };
    crate::print::out_if_read(&text)
}
