//! Reboots of a study's hosts between its replicates.
//!
//! A replicate leaves caches, fragmented memory and moved threads behind, which the next one is not to find.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::plan::StudyPlan;
use crate::failure::Failure;
use crate::hosts::record::{Host, Record};
use crate::hosts::remote::each;
use crate::reboot::{Boot, reboot};

/// Time of a server's firmware and its system.
const LIMIT: Duration = Duration::from_secs(900);

/// The hosts that reboot, by the destination of ssh: one machine does it once.
fn hosts(plan: &StudyPlan) -> BTreeMap<String, Host> {
    let records = plan.labs.iter().map(|one| Record::of(&one.lab));
    let hosts = records.flat_map(|record| record.hosts);
    let others = hosts.filter_map(|host| Some((host.ssh.clone()?, host)));
    others.collect()
}

/// Refuses a study with a host that cannot be told to reboot, before it begins.
pub fn can(plan: &StudyPlan) -> Result<(), Failure> {
    let hosts = hosts(plan);
    if hosts.is_empty() {
        return Err(of_this_machine());
    }
    let own = Boot::own();
    for (destination, host) in &hosts {
        if own.is_some() && Boot::at(destination) == own {
            let message = format!("host `{}` is the machine on which latlab runs", host.name);
            return Err(Failure::new(
                message,
                "reboot it by hand, or leave `reboot` out",
            ));
        }
    }
    Ok(())
}

/// The failure of a study whose labs are on this machine alone.
pub fn of_this_machine() -> Failure {
    Failure::new(
        "the study reboots its hosts, and its labs are on this machine alone",
        "name hosts with `ssh:` in the lab, or leave `reboot` out",
    )
}

/// Reboots them all at once, and waits until latlab answers on each. Errors: those that are not back.
pub fn all(plan: &StudyPlan, stop: &AtomicBool) -> Result<(), String> {
    let results = each(hosts(plan), |(destination, host)| {
        let is_there = || host.ask(&["--version"]).is_good();
        reboot(&destination, LIMIT, stop, is_there)
            .map_err(|reason| format!("host `{}`: {reason}", host.name))
    });
    let reasons: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    match reasons.is_empty() {
        true => Ok(()),
        false => Err(reasons.join("; ")),
    }
}
