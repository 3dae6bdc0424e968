//! The origin of a run's results: the versions of tools, and which part of the plan was measured where.

use std::collections::BTreeMap;

use latlab_model::facts::Facts;
use latlab_model::plan::{PartNumber, RunPlan};
use latlab_model::results::Part;

pub(super) fn part_of(plan: &RunPlan, part: PartNumber) -> Part {
    let trials = || {
        let visits = plan.visits_of(Some(part)).iter();
        visits.flat_map(|visit| visit.trials.iter().map(|trial| trial.0))
    };
    Part {
        number: part.number,
        of: part.of,
        machine: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        first: trials().min().unwrap_or_default(),
        last: trials().max().unwrap_or_default(),
    }
}

pub(super) fn versions(facts: &Facts) -> BTreeMap<String, String> {
    let mut versions = facts.tools.clone();
    versions.insert("latlab".into(), env!("CARGO_PKG_VERSION").into());
    versions
}
