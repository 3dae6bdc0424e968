//! Which processors are given away: the allocator that all labs share is the set of their states.
//!
//! Planning asks first, so that it chooses others; claiming asks again under the lock of deployments,
//! because another lab may have come up between.

use latlab_model::plan::Plan;

use super::{Error, boot_id, read_state};
use crate::dirs::Dirs;
use crate::journal;

/// The processors given to the labs that are up or coming up, ascending. A machine without labs, and
/// one whose states cannot be read, has given none: deploying then says what is wrong.
pub fn taken_cpus(dirs: &Dirs) -> Vec<u32> {
    let mut taken = Vec::new();
    let each = each_other(dirs, "", &mut |_, plan| {
        taken.extend(plan.blueprint.given().iter());
        Ok(())
    });
    if each.is_err() {
        return Vec::new();
    }
    taken.sort_unstable();
    taken.dedup();
    taken
}

/// Refuses a plan that gives a processor which another lab was given.
pub(super) fn check(dirs: &Dirs, plan: &Plan) -> Result<(), Error> {
    let wanted = plan.blueprint.given();
    if wanted.is_empty() {
        return Ok(());
    }
    each_other(dirs, &plan.lab, &mut |owner, theirs| {
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

/// Calls `then` with the plan of every lab of this boot but `lab`.
fn each_other(
    dirs: &Dirs,
    lab: &str,
    then: &mut dyn FnMut(&str, &Plan) -> Result<(), Error>,
) -> Result<(), Error> {
    let boot = boot_id()?;
    for owner in journal::labs(dirs)?.into_iter().filter(|o| o != lab) {
        // One that is gone meanwhile has no processors.
        let Ok(Some(state)) = read_state(dirs, &owner) else {
            continue;
        };
        if state.boot_id == boot {
            then(&owner, &state.plan)?;
        }
    }
    Ok(())
}
