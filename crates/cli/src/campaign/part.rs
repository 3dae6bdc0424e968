//! One part, on the machine that measures it.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use latlab_host::dirs::Dirs;
use latlab_host::lab;
use latlab_host::sys::file::{Lock, write_atomically};
use latlab_model::plan::PartNumber;
use serde::{Deserialize, Serialize};

use crate::args;
use crate::campaign::progress;
use crate::campaign::record::{CampaignDir, Record};
use crate::failure::{Failure, Hint, Outcome, explain, need_root};
use crate::run;

/// A part whose connection was lost needs some seconds to remove its lab.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The part that is measured on this machine, or was when latlab was killed.
#[derive(Debug, Serialize, Deserialize)]
struct Begun {
    /// The file that its labs are deployed from.
    study: PathBuf,
    labs: Vec<String>,
}

pub fn measure(campaign: &CampaignDir, number: u32) -> Outcome {
    need_root("campaign part", "it deploys labs")?;
    let record = campaign.read()?;
    if !(1..=record.parts).contains(&number) {
        return Err(Failure::new(
            format!("{campaign} has no part {number}"),
            format!("its parts are 1 to {}", record.parts),
        ));
    }
    // Slurm starts a task again when its node was lost, also if that had just ended.
    if progress::of_directories(campaign)?
        .measured
        .contains_key(&number)
    {
        eprintln!("part {number} is measured already");
        return Ok(ExitCode::SUCCESS);
    }
    let dirs = Dirs::from_env();
    let _lock = lock(&dirs)?;
    remove_leftovers(&dirs)?;
    // Not ours to remove after a kill; the run refuses it.
    let deployed = lab::list(&dirs).map_err(explain)?;
    let are_free = !record.labs.iter().any(|lab| deployed.contains(lab));
    if are_free {
        let begun = Begun {
            study: campaign.study().canonicalize()?,
            labs: record.labs.clone(),
        };
        write_atomically(&dirs.campaign_part(), &serde_json::to_vec(&begun)?, 0o600)?;
    }
    let outcome = run::run(&options(campaign, &record, number));
    if are_free {
        fs::remove_file(dirs.campaign_part())?;
    }
    outcome
}

fn options(campaign: &CampaignDir, record: &Record, number: u32) -> args::Run {
    args::Run {
        study: campaign.study().to_string_lossy().into_owned(),
        runs: campaign.parts(),
        options: record.options.clone(),
        part: Some(PartNumber {
            number,
            of: record.parts,
        }),
        ..args::Run::default()
    }
}

/// One part at a time: two on one machine would measure each other.
fn lock(dirs: &Dirs) -> Result<Lock, Failure> {
    let path = dirs.campaign_lock();
    let hint = "name a directory that root can write with LATLAB_STATE_DIR";
    fs::create_dir_all(path.parent().unwrap_or(&path)).hint(hint)?;
    let taken = Lock::take(&path, TIMEOUT).hint(hint)?;
    taken.ok_or_else(|| {
        Failure::new(
            "another part is measured on this machine",
            "each part needs a machine of its own while it runs: Slurm's --exclusive",
        )
    })
}

/// Removes the labs of a part that was killed on this machine, with the settings that they changed. Labs of the same names
/// that others deployed since then stay.
fn remove_leftovers(dirs: &Dirs) -> Result<(), Failure> {
    let path = dirs.campaign_part();
    let text = match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        read => read.hint("it names the labs of a part that was killed here")?,
    };
    let begun: Begun = serde_json::from_slice(&text).map_err(|error| {
        Failure::new(
            format!("cannot read {}: {error}", path.display()),
            "destroy the labs that a part left (`latlab inspect`), and remove the file",
        )
    })?;
    for name in begun.labs {
        if !lab::is_of_file(dirs, &name, &begun.study).map_err(explain)? {
            continue;
        }
        if let Some(removed) = lab::destroy(dirs, &name).map_err(explain)? {
            eprintln!("removed lab `{name}` of a part that was killed here");
            for warning in removed.warnings {
                eprintln!("latlab: {warning}");
            }
        }
    }
    fs::remove_file(&path)?;
    Ok(())
}
