//! `latlab run`: a study from its file to its report.

use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use latlab_host::dirs::Dirs;
use latlab_host::{journal, lab};
use latlab_measure::run::{Event, Options, Run};
use latlab_model::diagnostic::plain_line;
use latlab_model::plan::{RunPlan, trials};
use latlab_model::results::{PlannedTrial, TrialOutcome};
use latlab_model::spec::{MAX_RETRIES, Study};
use latlab_samples::RunDir;

use crate::args::{self, StudyOptions};
use crate::failure::{Failure, INTERRUPTED, MEASURED_FAILED, Outcome, need_root};
use crate::files::{self, Machine, Source};
use crate::{report, signals};

pub fn run(args: &args::Run) -> Outcome {
    let done = match measure(args)? {
        Measured::Not(code) => return Ok(code),
        Measured::Done(done) => done,
    };
    report::write_and_print(&done.dir, args.format)?;
    verdict(args, &done.outcome, done.trials)
}

/// A study's run.
pub struct Done {
    pub dir: RunDir,
    pub outcome: latlab_measure::run::Outcome,
    pub trials: usize,
}

pub enum Measured {
    /// The study cannot run here, which was told, or only its order was asked for.
    Not(ExitCode),
    Done(Done),
}

/// Runs a study to its last trial, without its report.
pub fn measure(args: &args::Run) -> Result<Measured, Failure> {
    let source = Source::study(&args.study)?;
    source.must_be_study(true)?;
    if !args.dry_run {
        // Before planning, because without root many of the machine's capabilities seem missing.
        need_root("run", "it deploys labs")?;
    }
    let mut file = match files::read_study(source) {
        Ok(file) => file,
        Err(unusable) => return unusable.outcome().map(Measured::Not),
    };
    apply(&args.options, &mut file.study)?;
    let (plan, facts) = match file.plan(Machine::Here, true) {
        Ok(planned) => planned,
        Err(unusable) => return unusable.outcome().map(Measured::Not),
    };
    if let Some(part) = args.part {
        can_be_divided(&plan, part.of)?;
    }
    let visits = plan.visits_of(args.part);
    if args.dry_run {
        return Ok(Measured::Not(show_order(&plan.order_of(visits))));
    }
    let count = trials(visits);
    let dirs = Dirs::from_env();
    names_are_free(&dirs, &plan)?;
    let options = Options {
        file: file.lab_file(),
        keep: args.keep,
        part: args.part,
    };
    let stop = signals::stop_flag()?;
    let study = (&file.study, file.source.text.as_str());
    let failed = |e: latlab_measure::run::Error| {
        let hint = e.hint(&args.runs);
        Failure::of(e, hint)
    };
    let run = Run::create(&dirs, &args.runs, study, &plan, &facts, &options, &stop);
    let run = run.map_err(failed)?;
    let directory = run.directory().to_path_buf();
    eprintln!(
        "{}: {} trial{} into {}",
        *file.study.name,
        count,
        if count == 1 { "" } else { "s" },
        run.directory().display()
    );
    let bar = progress(count, "trials");
    let done = run.execute(&mut |event| show(&bar, event));
    bar.finish_and_clear();
    let (dir, outcome) = done.map_err(|e| {
        let report = format!("latlab report --print-only {}", directory.display());
        failed(e).and_hint(format!("the measured data is kept: `{report}`"))
    })?;
    Ok(Measured::Done(Done {
        dir,
        outcome,
        trials: count,
    }))
}

/// Puts the options in the place of the study's own fields.
pub fn apply(options: &StudyOptions, study: &mut Study) -> Result<(), Failure> {
    if options.replicates == Some(0) {
        return Err(Failure::new(
            "--replicates must be at least 1",
            "5 gives intervals",
        ));
    }
    if let Some(retries) = options.retries.filter(|&retries| retries > MAX_RETRIES) {
        return Err(Failure::new(
            format!("--retries is {retries}"),
            format!("from 0 to {MAX_RETRIES}; a machine that is never quiet stays so"),
        ));
    }
    study.replicates = options.replicates.unwrap_or(study.replicates);
    study.retries = options.retries.unwrap_or(study.retries);
    study.seed = options.seed.unwrap_or(study.seed);
    if options.no_isolation {
        study.isolation = false;
        let words = study.description.take().unwrap_or_default();
        study.description = Some(format!("{words} (without isolation)").trim().to_string());
    }
    Ok(())
}

/// Refuses a study whose lab is deployed already: each of its trials would fail.
fn names_are_free(dirs: &Dirs, plan: &RunPlan) -> Result<(), Failure> {
    let refused = |e: lab::Error| {
        let hint = e.hint();
        Failure::of(e, hint)
    };
    let deployed = lab::list(dirs).map_err(refused)?;
    match plan.labs.iter().find(|lab| deployed.contains(&lab.lab)) {
        Some(lab) => Err(refused(journal::Error::Taken(lab.lab.clone()).into())),
        None => Ok(()),
    }
}

/// The end of the run as a message and an exit code.
pub fn verdict(args: &args::Run, outcome: &latlab_measure::run::Outcome, trials: usize) -> Outcome {
    if outcome.kept {
        let how = "inspect it with `latlab inspect` and `latlab exec`; then `latlab destroy --all`";
        return Err(Failure::new("a trial failed, and its lab is still up", how)
            .with_code(Some(MEASURED_FAILED)));
    }
    if outcome.interrupted {
        let message = "interrupted: the measured data is kept, and the run is marked incomplete";
        let hint = format!("`latlab run {}` starts a new one", args.study);
        return Err(Failure::new(message, hint).with_code(Some(INTERRUPTED)));
    }
    if outcome.failed > 0 {
        let message = format!("{} of {trials} trials failed", outcome.failed);
        let hint = "with --keep the run stops at the first, and leaves its lab up for inspection";
        return Err(Failure::new(message, hint).with_code(Some(MEASURED_FAILED)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses parts of which some would have nothing to do.
pub fn can_be_divided(plan: &RunPlan, parts: u32) -> Result<(), Failure> {
    let visits = plan.visits.len();
    if (1..=visits).contains(&(parts as usize)) {
        return Ok(());
    }
    Err(Failure::new(
        format!("the run cannot be divided into {parts} parts"),
        format!("it deploys {visits} labs one after the other: at most {visits} parts"),
    ))
}

fn show_order(order: &[PlannedTrial]) -> ExitCode {
    for trial in order {
        println!(
            "{:4}  replicate {:2}  {}",
            trial.trial, trial.replicate, trial.cell
        );
    }
    ExitCode::SUCCESS
}

/// A bar for a number of units of work.
pub fn progress(count: usize, unit: &str) -> ProgressBar {
    let bar = ProgressBar::new(count as u64);
    let template = format!("{{bar:30}} {{pos}}/{{len}} {unit}, {{eta}} left  {{wide_msg}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn show(bar: &ProgressBar, event: &Event<'_>) {
    match event {
        Event::Deploying(levels) => {
            let levels: Vec<String> = levels.iter().map(|(k, v)| format!("{k} {v}")).collect();
            bar.set_message(plain_line(&format!("deploying {}", levels.join(", "))));
        }
        Event::Begin(cell) => bar.set_message(plain_line(cell)),
        Event::Repeat(trial) => bar.set_message(plain_line(&format!(
            "{} again, once the machine is quiet",
            trial.cell
        ))),
        Event::End(trial) => {
            if let TrialOutcome::Failed { reason } = &trial.outcome {
                bar.suspend(|| {
                    eprintln!("trial {} ({}) failed: {reason}", trial.trial, trial.cell);
                });
            }
            bar.inc(1);
        }
    }
}
