//! The end of a campaign's jobs in Slurm's queue.

use std::process::ExitCode;

use crate::campaign::record::{CampaignDir, Machines};
use crate::campaign::slurm;
use crate::failure::{Failure, Outcome};

pub fn cancel(campaign: &CampaignDir) -> Outcome {
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
