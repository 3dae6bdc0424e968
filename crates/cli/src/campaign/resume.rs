//! The parts of a campaign that are left, started again.

use std::process::ExitCode;

use crate::campaign::record::{CampaignDir, Machines};
use crate::campaign::{progress, slurm, ssh};
use crate::failure::Outcome;

/// Starts the parts that are neither measured nor under way.
pub fn resume(campaign: &CampaignDir) -> Outcome {
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
