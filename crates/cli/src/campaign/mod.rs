//! `latlab campaign`: a study in parts, measured by many machines.
//!
//! `submit` writes the campaign's directory (`record.rs`) and starts the parts, by Slurm (`slurm.rs`) or over ssh
//! (`ssh.rs`). Each machine measures a part by `part.rs`, which writes a run directory into the campaign's. What is measured
//! is what stands in these directories (`progress.rs`), so that nothing is lost with the process that submitted it.
//! `latlab merge` joins them.

mod part;
mod progress;
mod ranges;
mod record;
mod slurm;
mod ssh;
mod status;
mod study;
mod submit;

use std::process::ExitCode;

pub use record::parts_of;
use record::{CampaignDir, Machines};

use crate::args::Campaign;
use crate::failure::{Failure, Outcome};

pub fn run(verb: &Campaign) -> Outcome {
    match verb {
        Campaign::Submit(args) => submit::submit(args),
        Campaign::Status(args) => status::status(args),
        Campaign::Resume(args) => resume(&CampaignDir::open(&args.campaign)?),
        Campaign::Cancel(args) => cancel(&CampaignDir::open(&args.campaign)?),
        Campaign::Part(args) => part::measure(&CampaignDir::open(&args.campaign)?, args.number),
    }
}

/// Starts the parts that are neither measured nor under way.
fn resume(campaign: &CampaignDir) -> Outcome {
    let _lock = campaign.lock()?;
    let mut record = campaign.read()?;
    let progress = progress::read(campaign, &record)?;
    let left = progress.left();
    if left.is_empty() {
        match progress.is_measured() {
            true => println!("all parts are measured; `latlab merge {campaign}` joins them"),
            false => println!("all parts that are not measured are in Slurm's queue"),
        }
        return Ok(ExitCode::SUCCESS);
    }
    match record.machines.clone() {
        Machines::Slurm(cluster) => {
            let job = slurm::submit(campaign, &cluster, &left)?;
            record.add_jobs([job]);
            campaign.write(&record)?;
            println!("Slurm job {job}: {} parts", left.len());
            Ok(ExitCode::SUCCESS)
        }
        Machines::Ssh { hosts } => ssh::measure(campaign, &record, &hosts, left),
    }
}

fn cancel(campaign: &CampaignDir) -> Outcome {
    let record = campaign.read()?;
    let Machines::Slurm(cluster) = &record.machines else {
        return Err(Failure::new(
            format!("the parts of {campaign} are not in Slurm's queue"),
            "stop the `latlab campaign` that measures them with Ctrl-C",
        ));
    };
    slurm::cancel(&cluster.jobs)?;
    println!("`latlab campaign resume {campaign}` submits again what is not measured");
    Ok(ExitCode::SUCCESS)
}
