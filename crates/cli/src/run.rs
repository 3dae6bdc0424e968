//! `latlab run`: a study from its file to its report.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use latlab_host::dirs::Dirs;
use latlab_host::{journal, lab};
use latlab_measure::run::{Event, Here, Labs, Options, Run};
use latlab_model::diagnostic::plain_line;
use latlab_model::facts::Facts;
use latlab_model::plan::{RunPlan, trials};
use latlab_model::results::{PlannedTrial, TrialOutcome};
use latlab_model::spec::{MAX_RETRIES, Study};
use latlab_samples::RunDir;

use crate::args::{self, StudyOptions};
use crate::bmc::{Beside, Machines};
use crate::failure::{Failure, INTERRUPTED, MEASURED_FAILED, Outcome, explain, need_root};
use crate::files::{self, Machine, Source, StudyFile};
use crate::format::counted;
use crate::hosts::study::{OnHosts, StudyPlan};
use crate::{hosts, print, progress, report, signals};

pub fn run(args: &args::Run) -> Outcome {
    let Some(done) = measure(args, None)? else {
        return Ok(ExitCode::SUCCESS);
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

/// Runs a study to its last trial, without its report; none if only its order was asked for. `stop` is the flag of a caller
/// who runs several; a study that runs alone has its own, from its first trial on.
pub fn measure(args: &args::Run, stop: Option<&AtomicBool>) -> Result<Option<Done>, Failure> {
    let source = Source::study(&args.study)?;
    source.must_be_study(true)?;
    if !args.dry_run {
        // Before planning, because without root many of the machine's capabilities seem missing.
        need_root("run", "it deploys labs")?;
    }
    let mut file = files::read_study(source)?;
    apply(&args.options, &mut file.study)?;
    let (planned, facts) = plan(args, &file)?;
    let plan = planned.run();
    if let Some(part) = args.part {
        can_be_divided(plan, part.of)?;
    }
    let visits = plan.visits_of(args.part);
    if args.dry_run {
        show_order(&plan.order_of(visits))?;
        return Ok(None);
    }
    let machines = Machines::find(&args.hosts, &args.sensors)?;
    let own;
    let stop = match stop {
        Some(stop) => stop,
        None => {
            own = signals::stop_flag()?;
            &*own
        }
    };
    if stop.load(Ordering::Relaxed) {
        let hint = format!("`latlab run {}` measures it", args.study);
        return Err(
            Failure::new("interrupted before the first trial", hint).with_code(Some(INTERRUPTED))
        );
    }
    execute(args, &file, &planned, &facts, &machines, stop).map(Some)
}

/// Runs the trials of a planned study.
fn execute(
    args: &args::Run,
    file: &StudyFile,
    planned: &Planned,
    facts: &Facts,
    machines: &Machines,
    stop: &AtomicBool,
) -> Result<Done, Failure> {
    let plan = planned.run();
    let count = trials(plan.visits_of(args.part));
    let dirs = Dirs::from_env();
    planned.names_are_free(&dirs)?;
    let options = Options {
        keep: args.keep,
        part: args.part,
    };
    let study = (&file.study, file.source.text.as_str());
    let failed = |e: latlab_measure::run::Error| {
        let hint = e.hint(&args.runs);
        Failure::of(e, hint)
    };
    let run = Run::create(&args.runs, study, plan, facts, &options, stop);
    let run = run.map_err(failed)?;
    let directory = run.directory().to_path_buf();
    eprintln!(
        "{}: {} into {}",
        *file.study.name,
        counted(count, "trial"),
        run.directory().display()
    );
    let bar = progress::bar(count, "trials");
    let on_event = &mut |event: &Event<'_>| show(&bar, event);
    let labs: Box<dyn Labs + '_> = match planned {
        Planned::Here(plan) => Box::new(Here {
            dirs: &dirs,
            plan,
            file: file.lab_file(),
            keep: args.keep,
            stop,
        }),
        Planned::OnHosts(plan) => Box::new(OnHosts {
            dirs: &dirs,
            plan,
            study: &file.source.text,
            stop,
        }),
    };
    let labs = &*labs;
    let done = run.execute(&Beside { labs, machines }, on_event);
    bar.finish_and_clear();
    let (dir, outcome) = done.map_err(|e| {
        let report = format!("latlab report --print-only {}", directory.display());
        failed(e).and_hint(format!("the measured data is kept: `{report}`"))
    })?;
    Ok(Done {
        dir,
        outcome,
        trials: count,
    })
}

/// A study planned for this machine, or for the hosts of its labs.
enum Planned {
    Here(RunPlan),
    OnHosts(StudyPlan),
}

impl Planned {
    fn run(&self) -> &RunPlan {
        match self {
            Planned::Here(plan) => plan,
            Planned::OnHosts(plan) => &plan.run,
        }
    }

    /// Refuses a study whose lab is deployed already: each of its trials would fail.
    fn names_are_free(&self, dirs: &Dirs) -> Result<(), Failure> {
        let deployed = lab::list(dirs).map_err(explain)?;
        let mut labs = self.run().labs.iter();
        if let Some(lab) = labs.find(|lab| deployed.contains(&lab.lab)) {
            return Err(explain(journal::Error::Taken(lab.lab.clone())));
        }
        match self {
            Planned::Here(_) => Ok(()),
            Planned::OnHosts(plan) => plan.must_be_new(dirs),
        }
    }
}

/// Plans a study, with the facts of this machine.
fn plan(args: &args::Run, file: &StudyFile) -> Result<(Planned, Facts), Failure> {
    if file.labs()?.iter().all(|lab| lab.hosts.is_empty()) {
        if file.study.reboots {
            return Err(hosts::study::reboot::of_this_machine());
        }
        let (plan, facts) = file.plan(Machine::Here, true)?;
        return Ok((Planned::Here(plan), facts));
    }
    if args.keep {
        let hint = "without it a lab on hosts is all or nothing";
        return Err(Failure::new("--keep is for labs on one machine", hint));
    }
    let plan = hosts::study::plan(file)?;
    if plan.reboots {
        hosts::study::reboot::can(&plan)?;
    }
    Ok((Planned::OnHosts(plan), files::facts()))
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

/// The end of the run as a message and an exit code.
pub fn verdict(args: &args::Run, outcome: &latlab_measure::run::Outcome, trials: usize) -> Outcome {
    let how = "inspect it with `latlab inspect` and `latlab exec`; then `latlab destroy --all`";
    if outcome.interrupted {
        let message = "interrupted: the measured data is kept, and the run is marked incomplete";
        let failure = match outcome.kept {
            true => Failure::new(format!("{message}; its lab is still up"), how),
            false => {
                let hint = format!("`latlab run {}` starts a new one", args.study);
                Failure::new(message, hint)
            }
        };
        return Err(failure.with_code(Some(INTERRUPTED)));
    }
    if outcome.kept {
        return Err(Failure::new("a trial failed, and its lab is still up", how)
            .with_code(Some(MEASURED_FAILED)));
    }
    if outcome.failed > 0 {
        let message = format!("{} of {trials} trials failed", outcome.failed);
        let hint = "with --keep a run on one machine stops at the first, and leaves its lab up";
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

fn show_order(order: &[PlannedTrial]) -> Result<(), Failure> {
    let mut text = String::new();
    for trial in order {
        line!(
            text,
            "{:4}  replicate {:2}  {}",
            trial.trial,
            trial.replicate,
            trial.cell
        );
    }
    print::out(&text)
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
            tell(bar);
        }
    }
}

/// Where no bar is drawn, as in a log: a line for each tenth of the trials.
fn tell(bar: &ProgressBar) {
    let (done, all) = (bar.position(), bar.length().unwrap_or_default());
    let tenths = |trials: u64| trials * 10 / all.max(1);
    if bar.is_hidden() && done < all && tenths(done) > tenths(done - 1) {
        let left = bar.eta().as_secs();
        eprintln!("{done} of {all} trials, {left} s left");
    }
}
