//! How far a campaign is, by Slurm's queue and the run directories of the parts.

use std::collections::BTreeMap;

use latlab_model::results::RunState;
use latlab_samples::{RunDir, RunDirError};

use crate::campaign::record::{CampaignDir, Machines, Record};
use crate::campaign::slurm::Queued;
use crate::campaign::{record, slurm};
use crate::failure::Failure;

#[derive(Debug)]
pub struct Progress {
    parts: u32,
    /// Machines, by number of the part.
    pub measured: BTreeMap<u32, String>,
    /// Reasons of those that stopped early and are not in the queue.
    pub stopped: BTreeMap<u32, String>,
    pub queue: BTreeMap<u32, Queued>,
}

/// The parts that have run directories.
#[derive(Debug, Default)]
pub struct Directories {
    /// Machines, by number of the part.
    pub measured: BTreeMap<u32, String>,
    /// Reasons of those that stopped early, also where the part was measured later.
    stopped: BTreeMap<u32, String>,
}

pub fn read(campaign: &CampaignDir, record: &Record) -> Result<Progress, Failure> {
    // Before the directories: a part that ends in between is then measured, and not missing.
    let mut queue = match &record.machines {
        Machines::Slurm(cluster) => slurm::queue(&cluster.jobs)?,
        Machines::Ssh { .. } => BTreeMap::new(),
    };
    let Directories {
        measured,
        mut stopped,
    } = of_directories(campaign)?;
    queue.retain(|number, _| !measured.contains_key(number));
    stopped.retain(|number, _| !measured.contains_key(number) && !queue.contains_key(number));
    Ok(Progress {
        parts: record.parts,
        measured,
        stopped,
        queue,
    })
}

pub fn of_directories(campaign: &CampaignDir) -> Result<Directories, Failure> {
    let mut found = Directories::default();
    for path in record::parts_of(campaign.root())?.unwrap_or_default() {
        let manifest = match RunDir::open(&path).and_then(|dir| dir.read_manifest()) {
            // A part that just begins.
            Err(RunDirError::NotARun { .. }) => continue,
            read => read?,
        };
        let Some(part) = manifest.part else { continue };
        match manifest.state {
            RunState::Complete => {
                found.measured.insert(part.number, part.machine);
            }
            RunState::Running => {
                found.stopped.insert(part.number, "killed".to_owned());
            }
            RunState::Incomplete { reason } => {
                found.stopped.insert(part.number, reason);
            }
        }
    }
    Ok(found)
}

impl Progress {
    pub fn is_measured(&self) -> bool {
        self.measured.len() == self.parts as usize
    }

    /// Parts that are neither measured nor in the queue.
    pub fn left(&self) -> Vec<u32> {
        let is_left =
            |number: &u32| !self.measured.contains_key(number) && !self.queue.contains_key(number);
        (1..=self.parts).filter(is_left).collect()
    }

    /// Nodes of the parts that run.
    pub fn running(&self) -> BTreeMap<u32, &str> {
        let mut nodes = BTreeMap::new();
        for (number, queued) in &self.queue {
            if let Queued::Runs(node) = queued {
                nodes.insert(*number, node.as_str());
            }
        }
        nodes
    }

    pub fn waiting(&self) -> Vec<u32> {
        let waits = self
            .queue
            .iter()
            .filter(|(_, queued)| **queued == Queued::Waits);
        waits.map(|(number, _)| *number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_measured_nor_queued_is_left() {
        let progress = Progress {
            parts: 5,
            measured: BTreeMap::from([(1, "a".to_owned())]),
            stopped: BTreeMap::from([(2, "killed".to_owned())]),
            queue: BTreeMap::from([(3, Queued::Runs("b".to_owned())), (4, Queued::Waits)]),
        };
        assert_eq!(progress.left(), [2, 5]);
        assert_eq!(progress.waiting(), [4]);
        assert_eq!(progress.running(), BTreeMap::from([(3, "b")]));
        assert!(!progress.is_measured());
    }
}
