//! One verb of `latlab campaign`.

use std::process::ExitCode;

use crate::args::Campaign;
use crate::campaign::record::{CampaignDir, Machines};
use crate::campaign::{part, progress, slurm, ssh, status, submit};
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
