//! `latlab run`: a study from its file to its report.

use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use latlab_host::dirs::Dirs;
use latlab_measure::run::{Event, Options, Run};
use latlab_model::plan::RunPlan;
use latlab_model::results::TrialOutcome;

use crate::args;
use crate::failure::{Failure, Outcome, need_root};
use crate::files::{self, Machine, Source};
use crate::{report, signals};

pub fn run(args: &args::Run) -> Outcome {
    let source = Source::study(&args.study)?;
    let mut file = match files::read_study(source) {
        Ok(file) => file,
        Err(unusable) => return unusable.outcome(),
    };
    if args.replicates == Some(0) {
        return Err(Failure::new(
            "--replicates must be at least 1",
            "5 gives intervals",
        ));
    }
    file.study.replicates = args.replicates.unwrap_or(file.study.replicates);
    file.study.seed = args.seed.unwrap_or(file.study.seed);
    let (plan, facts) = match file.plan(Machine::Here, true) {
        Ok(planned) => planned,
        Err(unusable) => return unusable.outcome(),
    };
    if args.dry_run {
        return Ok(show_order(&plan));
    }
    need_root("run", "it deploys labs")?;
    let dirs = Dirs::from_env();
    let options = Options { keep: args.keep };
    let stop = signals::stop_flag()?;
    let study = (&file.study, file.source.text.as_str());
    let run = Run::create(&dirs, &args.runs, study, &plan, &facts, &options, &stop)?;
    eprintln!(
        "{}: {} trials into {}",
        *file.study.name,
        plan.trials(),
        run.directory().display()
    );
    let bar = progress(plan.trials());
    let done = run.execute(&mut |event| show(&bar, event));
    bar.finish_and_clear();
    let (dir, outcome) = done?;
    report::write_and_print(dir.root(), args.format)?;
    if outcome.kept {
        eprintln!(
            "latlab: a trial failed; its lab is still up: `latlab inspect`, `latlab destroy --all`"
        );
    }
    if outcome.interrupted {
        eprintln!(
            "latlab: interrupted; what was measured is kept and the run is marked incomplete"
        );
    }
    Ok(match outcome.failed == 0 && !outcome.interrupted {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn show_order(plan: &RunPlan) -> ExitCode {
    for trial in plan.order() {
        println!(
            "{:4}  replicate {:2}  {}",
            trial.trial, trial.replicate, trial.cell
        );
    }
    ExitCode::SUCCESS
}

fn progress(trials: usize) -> ProgressBar {
    let bar = ProgressBar::new(trials as u64);
    let template = "{bar:30} {pos}/{len} trials, {eta} left  {wide_msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn show(bar: &ProgressBar, event: &Event<'_>) {
    match event {
        Event::Deploying(levels) => {
            let levels: Vec<String> = levels.iter().map(|(k, v)| format!("{k} {v}")).collect();
            bar.set_message(format!("deploying {}", levels.join(", ")));
        }
        Event::Begin(_, _, cell) => bar.set_message((*cell).to_string()),
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
