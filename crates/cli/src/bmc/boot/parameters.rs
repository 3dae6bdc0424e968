//! The kernel parameters that the arguments ask for: written out, or those of a profile.

use latlab_model::boot;

use crate::args::HostBoot;
use crate::failure::Failure;
use crate::files::Machine;
use crate::{profiles, tune};

/// The parameters that are asked for, as words.
pub(super) fn parameters(args: &HostBoot) -> Result<Vec<String>, Failure> {
    let wrong = |(message, hint): (String, String)| Failure::new(message, hint);
    if let Some(text) = &args.cmdline {
        return boot::words(text).map_err(wrong);
    }
    let Some(name) = &args.profile else {
        return Ok(Vec::new());
    };
    let profile = profiles::load(name)?;
    let machine = Machine::of(args.facts.as_deref());
    let cores = tune::cores_of(&profile, args.cpus.as_deref(), machine)?;
    let parameters = boot::parameters(&profile, &cores).map_err(wrong)?;
    Ok(parameters.into_iter().map(|p| p.text).collect())
}
