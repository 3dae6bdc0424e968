//! The profile that the machine's knobs are turned by while a lab is up. The machine has one set of
//! knobs, so a lab has one profile that turns any; nodes may go without.

use super::asks::Profiles;
use crate::diagnostic::{Diagnostics, Spanned, shown};
use crate::plan::document::TuningPlan;
use crate::profile::Profile;
use crate::spec::Lab;

/// The lab's profile, if one that turns knobs is named. Unknown names were noted before.
pub fn tuning(lab: &Lab, profiles: Profiles<'_>, errors: &mut Diagnostics) -> Option<TuningPlan> {
    let of_nodes = lab.nodes.iter().filter_map(|node| lab.tuning_of(node));
    let mut chosen: Option<(&Spanned<String>, Profile)> = None;
    for name in lab.tuning.iter().chain(of_nodes) {
        if chosen
            .as_ref()
            .is_some_and(|(first, _)| first.value == name.value)
        {
            continue;
        }
        let Some(profile) = Profile::named(name, profiles).filter(|p| !p.knobs.is_empty()) else {
            continue;
        };
        if let Some((first, _)) = &chosen {
            let message = format!(
                "`tuning` is `{}` here and `{}` on line {}: the machine has one set of knobs",
                shown(name),
                shown(first),
                first.at.line
            );
            let hint = "use one profile in a lab; nodes that go without say `tuning: default`";
            errors.add(name.at, message, hint);
            return None;
        }
        chosen = Some((name, profile));
    }
    chosen.map(|(name, profile)| TuningPlan {
        name: name.value.clone(),
        partition: profile.knobs.contains_key("cpuset"),
        profile: profile.document(),
    })
}
