//! Taking a lab down from its journal, whatever state it is in.
//!
//! Every step is idempotent and runs whether or not the ones before it succeeded; what could not be
//! done is collected and said, and the journal stays until all of it is done.

use super::deployed::{CLAIM_TIMEOUT, Lab};
use super::error::Error;
use super::scripts;
use super::unmake::unmake;
use crate::dirs::Dirs;
use crate::journal::{Claim, Journal};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// One line for each teardown script that failed, and for each interface of the host that is gone. They do not keep
    /// a lab from going.
    pub warnings: Vec<String>,
}

/// Removes a lab by name; `None` when there is none. Errors: objects that could not be removed; another run tries
/// again.
pub fn destroy(dirs: &Dirs, name: &str) -> Result<Option<Removed>, Error> {
    let Some(claim) = Claim::existing(dirs, name, true, CLAIM_TIMEOUT)? else {
        return Ok(None);
    };
    claimed(dirs, name, claim).map(Some)
}

fn claimed(dirs: &Dirs, name: &str, claim: Claim) -> Result<Removed, Error> {
    let (claim, mut warnings) = torn_down(dirs, name, claim);
    warnings.extend(unmake(dirs, name)?);
    drop(claim);
    Ok(Removed { warnings })
}

/// Runs the teardown scripts of a lab that is up; one that is not has nothing to run them in.
fn torn_down(dirs: &Dirs, name: &str, claim: Claim) -> (Option<Claim>, Vec<String>) {
    let Ok(mut lab) = Lab::open(dirs, name) else {
        return (Some(claim), Vec::new());
    };
    lab.claim = Some(claim);
    let warnings = scripts::teardown(&lab);
    // With the rest of it go the connections to guests that are about to go too.
    (lab.claim.take(), warnings)
}

impl Lab {
    /// Removes it. A removal by another process meanwhile is success too.
    pub fn destroy(self) -> Result<(), Error> {
        let (dirs, name, id) = (
            self.dirs.clone(),
            self.state.lab.clone(),
            self.state.id.clone(),
        );
        drop(self);
        let claim = Claim::existing(&dirs, &name, true, CLAIM_TIMEOUT)?;
        match claim.filter(|_| Journal::id(&dirs, &name) == Some(id)) {
            Some(claim) => claimed(&dirs, &name, claim).map(drop),
            None => Ok(()),
        }
    }
}
