//! A campaign's directory.
//!
//! | path | holds |
//! |---|---|
//! | `campaign.json` | the [`Record`] |
//! | `study.yaml` | the study, with its lab inside |
//! | `part.sh` | what Slurm starts |
//! | `parts/` | a run directory for each attempt of a part |
//! | `logs/` | what each attempt printed |

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use latlab_host::sys::file::Lock;
use latlab_samples::write_atomically;
use serde::{Deserialize, Serialize};

use crate::args::StudyOptions;
use crate::failure::{Failure, Hint};

pub const FORMAT: &str = "latlab-campaign-1";
const RECORD: &str = "campaign.json";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`FORMAT`].
    pub format: String,
    /// Name of the study.
    pub study: String,
    pub parts: u32,
    pub trials: usize,
    /// Names of the labs that parts deploy.
    pub labs: Vec<String>,
    pub options: StudyOptions,
    /// Path of latlab on the machines.
    pub latlab: PathBuf,
    pub machines: Machines,
}

/// Which machines measure.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Machines {
    Slurm(Cluster),
    Ssh { hosts: Vec<String> },
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Most nodes at once.
    pub nodes: Option<u32>,
    /// Options of `sbatch`.
    pub options: Vec<String>,
    /// Array jobs, oldest first. Each task has its part's number.
    pub jobs: Vec<u32>,
}

impl Record {
    /// Notes jobs of the cluster.
    pub fn add_jobs(&mut self, jobs: impl IntoIterator<Item = u32>) {
        if let Machines::Slurm(cluster) = &mut self.machines {
            cluster.jobs.extend(jobs);
        }
    }
}

#[derive(Debug, Clone)]
pub struct CampaignDir {
    root: PathBuf,
}

impl CampaignDir {
    /// Makes a directory of its own below `runs`, with an absolute path: jobs start elsewhere.
    pub fn create(runs: &Path, study: &str, stamp: &str) -> Result<CampaignDir, Failure> {
        let hint = "name a directory that can be written with --runs";
        let runs = std::path::absolute(runs).hint(hint)?;
        fs::create_dir_all(&runs).hint(hint)?;
        let mut root = runs.join(format!("{study}-{stamp}-campaign"));
        let mut number = 1;
        loop {
            match fs::create_dir(&root) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 100 => {
                    number += 1;
                    root = runs.join(format!("{study}-{stamp}-{number}-campaign"));
                }
                Err(error) => return Err(Failure::of(error, hint)),
            }
        }
        let campaign = CampaignDir { root };
        for directory in [campaign.parts(), campaign.logs()] {
            fs::create_dir(directory).hint(hint)?;
        }
        Ok(campaign)
    }

    /// One that is not made.
    pub fn at(root: PathBuf) -> CampaignDir {
        CampaignDir { root }
    }

    /// A directory that `campaign submit` made.
    pub fn open(path: &Path) -> Result<CampaignDir, Failure> {
        if !is_campaign(path) {
            return Err(Failure::new(
                format!(
                    "{} is not a campaign's directory: it has no {RECORD}",
                    path.display()
                ),
                "name a directory that `latlab campaign submit` made, for example runs/paths-…-campaign",
            ));
        }
        Ok(CampaignDir {
            root: std::path::absolute(path)?,
        })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn study(&self) -> PathBuf {
        self.root.join("study.yaml")
    }

    pub fn script(&self) -> PathBuf {
        self.root.join("part.sh")
    }

    pub fn parts(&self) -> PathBuf {
        self.root.join("parts")
    }

    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    pub fn read(&self) -> Result<Record, Failure> {
        let path = self.root.join(RECORD);
        let hint =
            "the directory was not written by this version of latlab, or was changed by hand";
        let text = fs::read(&path).hint(hint)?;
        let record: Record = serde_json::from_slice(&text).map_err(|error| {
            Failure::new(format!("cannot read {}: {error}", path.display()), hint)
        })?;
        match record.format == FORMAT {
            true => Ok(record),
            false => Err(Failure::new(
                format!(
                    "{} has the format {:?}, not {FORMAT:?}",
                    path.display(),
                    record.format
                ),
                hint,
            )),
        }
    }

    pub fn write(&self, record: &Record) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(record)? + "\n";
        write_atomically(self.root.join(RECORD), text.as_bytes())
            .hint("name a directory that can be written with --runs")
    }

    /// Held while parts are submitted or, over ssh, measured.
    pub fn lock(&self) -> Result<Lock, Failure> {
        let taken = Lock::take(&self.root.join("lock"), Duration::ZERO)?;
        taken.ok_or_else(|| {
            Failure::new(
                format!("another `latlab campaign` works on {self}"),
                format!("`latlab campaign status {self}` shows how far it is"),
            )
        })
    }
}

impl fmt::Display for CampaignDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.display().fmt(f)
    }
}

fn is_campaign(path: &Path) -> bool {
    path.join(RECORD).is_file()
}

/// The run directories in a campaign's directory, by name; none if it is no campaign's.
pub fn parts_of(path: &Path) -> std::io::Result<Option<Vec<PathBuf>>> {
    if !is_campaign(path) {
        return Ok(None);
    }
    let entries = fs::read_dir(path.join("parts"))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<std::io::Result<_>>()?;
    // A directory that ssh still copies has a name with a dot first.
    let is_hidden = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.as_encoded_bytes().starts_with(b".")
    };
    paths.retain(|path| !is_hidden(path));
    paths.sort();
    Ok(Some(paths))
}
