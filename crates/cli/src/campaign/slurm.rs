//! Slurm, by its own commands: their output is stable over versions and needs no library of one of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::process::Command;

use crate::campaign::ranges::ranges;
use crate::campaign::record::{CampaignDir, Cluster, Record};
use crate::failure::{Failure, Hint};
use crate::ssh::quoted;

/// A part in Slurm's queue.
#[derive(Debug, Clone, PartialEq)]
pub enum Queued {
    /// On this node.
    Runs(String),
    Waits,
}

/// States of a task that has a node: running, configuring, completing, suspended, stopped.
const WITH_A_NODE: [&str; 5] = ["R", "CF", "CG", "S", "ST"];

/// Writes what Slurm starts for each part. `--exclusive`, because a neighbour on the node would be measured too; options
/// of the command line come before these.
pub fn write_script(campaign: &CampaignDir, record: &Record) -> Result<(), Failure> {
    let text = format!(
        "#!/bin/sh\n\
         # A part of the campaign in this directory, started by Slurm.\n\
         #SBATCH --job-name=latlab-{study}\n\
         #SBATCH --nodes=1\n\
         #SBATCH --exclusive\n\
         #SBATCH --requeue\n\
         #SBATCH --open-mode=append\n\
         set -- {latlab} campaign part {directory} \"$SLURM_ARRAY_TASK_ID\"\n\
         [ \"$(id -u)\" = 0 ] || set -- sudo --non-interactive \"$@\"\n\
         exec \"$@\"\n",
        study = record.study,
        latlab = quoted(&record.latlab.to_string_lossy()),
        directory = quoted(&campaign.root().to_string_lossy()),
    );
    fs::write(campaign.script(), text).hint("name a directory that can be written with --runs")
}

/// The arguments of `sbatch` for these parts.
pub fn arguments(campaign: &CampaignDir, cluster: &Cluster, parts: &[u32]) -> Vec<String> {
    let mut array = ranges(parts);
    if let Some(nodes) = cluster.nodes {
        array += &format!("%{nodes}");
    }
    let mut arguments = vec![
        "--parsable".to_owned(),
        format!("--array={array}"),
        format!("--output={}/%a-%A.log", campaign.logs().display()),
    ];
    arguments.extend(cluster.options.iter().cloned());
    arguments.push(campaign.script().display().to_string());
    arguments
}

/// Submits parts as one array job; its number.
pub fn submit(campaign: &CampaignDir, cluster: &Cluster, parts: &[u32]) -> Result<u32, Failure> {
    let told = command("sbatch", &arguments(campaign, cluster, parts))?;
    // JOB, or JOB;CLUSTER where there are several.
    let number = told.trim().split(';').next().unwrap_or_default();
    number.parse().map_err(|_| {
        Failure::new(
            format!(
                "`sbatch --parsable` printed {:?} instead of a job's number",
                told.trim()
            ),
            "`squeue` shows what was submitted; `scancel` removes it",
        )
    })
}

/// The parts that run or wait, by number.
pub fn queue(jobs: &[u32]) -> Result<BTreeMap<u32, Queued>, Failure> {
    let mut queue = BTreeMap::new();
    for job in jobs {
        let arguments = ["--noheader", "--array", "--format=%K|%t|%N"].map(str::to_owned);
        let of_job = [&arguments[..], &[format!("--jobs={job}")]].concat();
        match command("squeue", &of_job) {
            Ok(told) => queue.extend(told.lines().filter_map(task)),
            // Slurm forgets a job some minutes after its end.
            Err(failure) if failure.to_string().contains("Invalid job id") => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(queue)
}

/// A line of `squeue`: the number of the task, its state, its nodes.
fn task(line: &str) -> Option<(u32, Queued)> {
    let mut fields = line.trim().split('|');
    let number = fields.next()?.parse().ok()?;
    let (state, node) = (fields.next()?, fields.next()?);
    match WITH_A_NODE.contains(&state) {
        true => Some((number, Queued::Runs(node.to_owned()))),
        false => Some((number, Queued::Waits)),
    }
}

/// Removes jobs from the queue. One that has ended is none.
pub fn cancel(jobs: &[u32]) -> Result<(), Failure> {
    let mut arguments = vec!["--quiet".to_owned()];
    arguments.extend(jobs.iter().map(u32::to_string));
    command("scancel", &arguments).map(drop)
}

/// Runs one of Slurm's commands; what it printed.
fn command(program: &str, arguments: &[String]) -> Result<String, Failure> {
    let output = match Command::new(program).args(arguments).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Failure::new(
                format!("Slurm's `{program}` is not on this machine"),
                "submit from a host of the cluster (Debian: slurm-client), or name hosts with --ssh",
            ));
        }
        ran => ran?,
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut lines = told.lines().rev();
    let last = lines.find(|line| !line.trim().is_empty());
    let last = last.unwrap_or("it failed without a reason");
    let hint = match () {
        () if told.contains("Unable to contact slurm controller") => {
            "is slurmctld up, and does this host belong to its cluster? `sinfo` tells"
        }
        () if told.contains("Invalid job array specification") => {
            "the cluster allows less tasks in an array (MaxArraySize): take less parts with --parts"
        }
        () => "options behind `--` go to sbatch as they are; `sinfo` shows partitions and nodes",
    };
    let name = format!("{program}: ");
    let what = last
        .trim()
        .trim_start_matches(&name)
        .trim_start_matches("error: ");
    Err(Failure::new(format!("{program}: {what}"), hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_with_a_node_run() {
        assert_eq!(task("12|R|n3"), Some((12, Queued::Runs("n3".into()))));
        assert_eq!(task("13|PD|"), Some((13, Queued::Waits)));
        // The rest of an array, where --array is not known.
        assert_eq!(task("14-20|PD|"), None);
    }
}
