//! The machine's knobs while a lab is up: turned before its nodes start, given back when it goes.
//!
//! [`tuning`] has a journal of its own, in which the lab is an owner; the lab's journal only
//! says that there is something to give back.

use latlab_model::plan::{NodePlace, NodePlan, Plan};
use latlab_model::profile::Profile;

use super::deployed::Lab;
use super::error::Error;
use super::limits::{in_partition, quiet};
use crate::dirs::Dirs;
use crate::facts;
use crate::tuning::{self, Root};

/// Turns the knobs of the lab's profile, for the lab. What the machine lacks is left out; what the
/// kernel did not take is an error, because a measurement would not be what its lab says.
pub(super) fn apply(dirs: &Dirs, plan: &Plan) -> Result<(), Error> {
    let Some(wanted) = &plan.tuning else {
        return Ok(());
    };
    let failed = |reason: String, hint: String| Error::Tuning {
        profile: wanted.name.clone(),
        reason,
        hint,
    };
    let refused = |e: tuning::Error| failed(e.to_string(), e.hint());
    let mut profile = Profile::parse(&wanted.profile, &|_| None)
        .map_err(|e| failed(e.render("profile"), "deploy it again".into()))?;
    balance_pool(&mut profile, plan);
    let quiet = plan.blueprint.given();
    let chosen = (!quiet.is_empty()).then_some(&quiet);
    let cores = profile.cores_of(&facts::online_cpus(), chosen);
    let cores = cores.map_err(|(reason, hint)| failed(reason, hint))?;
    let root = Root::default();
    let changes = tuning::plan(&profile, &cores, &root).map_err(refused)?;
    let owner = tuning::lab_owner(&plan.lab);
    let applied = tuning::apply(&owner, &changes, dirs, &root, &mut |_, _, _| {});
    let applied = applied.map_err(refused)?;
    let mut knobs = applied.knobs.iter();
    let first = knobs.find_map(|k| Some((k.knob, k.refused.first()?)));
    match first {
        None => Ok(()),
        Some((knob, problem)) => Err(failed(
            format!("knob `{knob}`: {}: {}", problem.item, problem.reason),
            format!(
                "leave it out: `tuning: {} without {knob}`",
                base(&wanted.name)
            ),
        )),
    }
}

/// Nodes that share several CPUs want the scheduler to spread them: an `isolated` partition leaves
/// every thread where it was born, `root` balances within.
fn balance_pool(profile: &mut Profile, plan: &Plan) {
    let pool = plan.blueprint.pool.as_ref();
    let shared = pool.map_or(0, |pool| pool.cpus.len());
    if shared > 1 && profile.knobs.contains_key("cpuset") {
        // The catalogue has this word; a test of the profiles reads it.
        profile.want("cpuset", "root").ok();
    }
}

impl Lab {
    /// The number of items of the lab's tuning, on the host and inside its guests, that are not in force
    /// any more; `None` for a lab without tuning.
    pub fn tuning_drift(&self) -> Result<Option<usize>, Error> {
        let plan = self.plan();
        let Some(wanted) = &plan.tuning else {
            return Ok(None);
        };
        let owner = tuning::lab_owner(&plan.lab);
        let drift = tuning::verify(Some(&owner), &self.dirs, &Root::default());
        let drift = drift.map_err(|e| Error::Tuning {
            profile: wanted.name.clone(),
            reason: e.to_string(),
            hint: e.hint(),
        })?;
        // A thread of others that moved is no setting; where it runs, the watch of the trial names it.
        let drifted = drift.iter().filter(|drift| !drift.strayed).count();
        Ok(Some(drifted + self.drift_inside()?))
    }
}

/// Where a node's threads run. A guest's other threads cannot leave the partition, whatever the
/// blueprint says: a process is in one cgroup.
pub(super) fn place(plan: &Plan, node: &NodePlan) -> Option<NodePlace> {
    let mut place = plan.blueprint.node(&node.name)?.clone();
    if in_partition(plan, node) {
        if let Some(emulator) = &mut place.emulator {
            let within = quiet(plan, &emulator.cpus);
            emulator.cpus = if within.is_empty() {
                place.cores.cpus.clone()
            } else {
                within
            };
        }
    }
    Some(place)
}

/// The profile's name without what was left out of it.
fn base(name: &str) -> &str {
    name.split_whitespace().next().unwrap_or(name)
}
