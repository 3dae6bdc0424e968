//! A new campaign.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use latlab_measure::run::stamp;
use latlab_model::plan::{PartNumber, RunPlan, trials};

use crate::args::CampaignSubmit;
use crate::campaign::ranges::ranges;
use crate::campaign::record::{CampaignDir, Cluster, Machines, Record};
use crate::campaign::{record, slurm, ssh, study};
use crate::failure::{Failure, Hint, Outcome};
use crate::files::{self, Machine, Source, StudyFile};
use crate::run;

pub fn submit(args: &CampaignSubmit) -> Outcome {
    let machines = machines(args)?;
    let source = Source::study(&args.study)?;
    source.must_be_study(true)?;
    let mut file = files::read_study(source)?;
    run::apply(&args.options, &mut file.study)?;
    let (plan, _) = file.plan(Machine::of(args.facts.as_deref()), false)?;
    let text = study::whole_text(&file)?;
    let mut record = record(args, &file, &plan, machines)?;
    if args.dry_run {
        return show(args, &record, &plan);
    }
    let campaign = CampaignDir::create(&args.runs, &record.study, &stamp())?;
    let _lock = campaign.lock()?;
    let (study, parts, trials) = (&record.study, record.parts, record.trials);
    eprintln!("{study}: {trials} trials in {parts} parts into {campaign}");
    let all = (1..=parts).collect::<Vec<_>>();
    let job = begin(&campaign, &record, &text, &all).inspect_err(|_| {
        // Nothing was submitted: nothing stays.
        fs::remove_dir_all(campaign.root()).ok();
    })?;
    if let Machines::Ssh { hosts } = &record.machines {
        return ssh::measure(&campaign, &record, hosts, all);
    }
    record.add_jobs(job);
    campaign.write(&record)?;
    println!("`latlab campaign status {campaign}` shows how far it is");
    Ok(ExitCode::SUCCESS)
}

/// Writes the campaign's directory, and submits all parts where Slurm has them; the job's number.
fn begin(
    campaign: &CampaignDir,
    record: &Record,
    text: &str,
    all: &[u32],
) -> Result<Option<u32>, Failure> {
    fs::write(campaign.study(), text).hint("name a directory that can be written with --runs")?;
    campaign.write(record)?;
    let Machines::Slurm(cluster) = &record.machines else {
        return Ok(None);
    };
    slurm::write_script(campaign, record)?;
    slurm::submit(campaign, cluster, all).map(Some)
}

fn machines(args: &CampaignSubmit) -> Result<Machines, Failure> {
    if args.nodes == Some(0) {
        return Err(Failure::new("--nodes is 0", "1 or more nodes measure"));
    }
    // The name is a word of a command line, and of a file's name.
    let is_strange = |host: &&String| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "@.:_-".contains(c);
        host.starts_with('-') || host.is_empty() || !host.chars().all(is_plain)
    };
    if let Some(host) = args.ssh.iter().find(is_strange) {
        return Err(Failure::new(
            format!("{host:?} is no host"),
            "name hosts as ssh does, separated by commas: root@a,root@b; ~/.ssh/config has the rest",
        ));
    }
    match args.ssh.is_empty() {
        true => Ok(Machines::Slurm(Cluster {
            nodes: args.nodes,
            options: args.sbatch.clone(),
            jobs: Vec::new(),
        })),
        false => Ok(Machines::Ssh {
            hosts: args.ssh.clone(),
        }),
    }
}

fn record(
    args: &CampaignSubmit,
    file: &StudyFile,
    plan: &RunPlan,
    machines: Machines,
) -> Result<Record, Failure> {
    let parts = args.parts.unwrap_or(plan.visits.len() as u32);
    run::can_be_divided(plan, parts)?;
    let mut labs: Vec<String> = plan.labs.iter().map(|lab| lab.lab.clone()).collect();
    labs.dedup();
    let latlab = match (&args.latlab, &machines) {
        (Some(path), _) => path.clone(),
        (None, Machines::Slurm(_)) => std::env::current_exe()?,
        (None, Machines::Ssh { .. }) => PathBuf::from("latlab"),
    };
    Ok(Record {
        parts,
        trials: trials(&plan.visits),
        labs,
        options: args.options.clone(),
        latlab,
        format: record::FORMAT.into(),
        study: file.study.name.value.clone(),
        machines,
    })
}

/// Shows the parts, and how they would be submitted.
fn show(args: &CampaignSubmit, record: &Record, plan: &RunPlan) -> Outcome {
    for number in 1..=record.parts {
        let part = PartNumber {
            number,
            of: record.parts,
        };
        let trials = plan.order_of(plan.visits_of(Some(part)));
        let numbers: Vec<u32> = trials.iter().map(|trial| trial.trial).collect();
        println!("part {number:4}  trials {}", ranges(&numbers));
    }
    if let Machines::Slurm(cluster) = &record.machines {
        let all: Vec<u32> = (1..=record.parts).collect();
        let name = args.runs.join(format!("{}-…-campaign", record.study));
        let words = slurm::arguments(&CampaignDir::at(name), cluster, &all);
        println!("\nsbatch {}", words.join(" "));
    }
    Ok(ExitCode::SUCCESS)
}
