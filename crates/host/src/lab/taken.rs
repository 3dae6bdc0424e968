//! Which CPUs and interfaces are given away: the allocator that all labs share is the set of their states.
//!
//! Planning asks first, so that it chooses others; claiming asks again under the lock of deployments,
//! because another lab may have come up between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use latlab_model::plan::Plan;
use latlab_model::units::CpuList;

use super::error::Error;
use super::state::read_state;
use crate::cache::LabUse;
use crate::dirs::Dirs;
use crate::facts::CpusInUse;
use crate::journal;
use crate::sys::proc;
use crate::tuning;

/// The CPUs that placement keeps off: those of labs, and those that a user's tuning keeps quiet.
pub fn cpus_in_use(dirs: &Dirs) -> CpusInUse {
    let given = given_cpus(dirs);
    let taken: BTreeSet<u32> = given.values().flat_map(CpuList::iter).collect();
    let partition = tuning::partition_cpus(&tuning::Root::default());
    let quiet = partition.iter().filter(|cpu| !taken.contains(cpu));
    CpusInUse {
        quiet: CpuList::new(quiet.collect()),
        taken: taken.into_iter().collect(),
    }
}

/// The CPUs given to the labs that are up or coming up, by lab. A machine without labs, and one whose states cannot be read, has given none: deploying
/// then says what is wrong.
pub fn given_cpus(dirs: &Dirs) -> BTreeMap<String, CpuList> {
    let mut given = BTreeMap::new();
    let each = each_other(dirs, "", &mut |lab, plan| {
        given.insert(lab.to_string(), plan.blueprint.given());
        Ok(())
    });
    each.map(|()| given).unwrap_or_default()
}

pub(super) fn check(dirs: &Dirs, plan: &Plan) -> Result<(), Error> {
    let wanted = plan.blueprint.given();
    let interfaces: BTreeSet<&str> = plan.lent_interfaces().collect();
    if wanted.is_empty() && interfaces.is_empty() {
        return Ok(());
    }
    each_other(dirs, &plan.lab, &mut |owner, theirs| {
        if let Some(taken) = theirs.lent_interfaces().find(|i| interfaces.contains(i)) {
            return Err(Error::InterfaceLent {
                interface: taken.into(),
                owner: owner.into(),
            });
        }
        let theirs = theirs.blueprint.given();
        match wanted.iter().find(|cpu| theirs.contains(*cpu)) {
            Some(cpu) => Err(Error::CpuTaken {
                cpu,
                owner: owner.into(),
            }),
            None => Ok(()),
        }
    })
}

/// The entries of the cache that labs of this boot use.
pub fn uses_of_cache(dirs: &Dirs) -> Result<Vec<LabUse>, Error> {
    let boot = proc::boot_id()?;
    let mut uses = Vec::new();
    for lab in journal::labs(dirs)? {
        let paths = match read_state(dirs, &lab) {
            Ok(Some(state)) if state.boot_id != boot => continue,
            Ok(Some(state)) => state.cached,
            // Without a state it has not begun, or cannot be told.
            Ok(None) => None,
            Err(Error::NoLab(_)) => continue,
            Err(error) => return Err(error),
        };
        let paths = paths.map(|all| all.into_iter().map(PathBuf::from).collect());
        uses.push(LabUse { lab, paths });
    }
    Ok(uses)
}

/// Calls `then` with the plan of every lab of this boot but `lab`.
fn each_other(
    dirs: &Dirs,
    lab: &str,
    then: &mut dyn FnMut(&str, &Plan) -> Result<(), Error>,
) -> Result<(), Error> {
    let boot = proc::boot_id()?;
    for owner in journal::labs(dirs)?.into_iter().filter(|o| o != lab) {
        // One that is gone meanwhile has no CPUs.
        let Ok(Some(state)) = read_state(dirs, &owner) else {
            continue;
        };
        if state.boot_id == boot {
            then(&owner, &state.plan)?;
        }
    }
    Ok(())
}
