//! Programs of all nodes, which begin at one moment.

use std::time::{Duration, Instant};

use latlab_host::lab::Lab;
use latlab_model::results::WorkloadResult;

use super::node::{self, Ended, Job, Serving, Waiting};
use super::programs::{Evidence, Place, Work};
use super::site::Site;
use super::usage::{Before, busy_ns, cpu_of};
use crate::clock::now_ns;
use crate::error::Error;
use crate::measured::{Kept, Written};

/// From the order to the moment of beginning: the way to a node, twice over.
const LEAD: Duration = Duration::from_millis(100);
/// The same for each further node: orders are given one after the other.
const LEAD_PER_NODE: Duration = Duration::from_millis(10);

/// Prepares, runs and checks the program of every node.
pub(super) fn run_clients(
    lab: &Lab,
    work: &dyn Work,
    sites: &[Site],
    timeout: Duration,
    servers: &mut [Serving],
    kept: &mut Kept,
) -> Result<WorkloadResult, Error> {
    let jobs = |what: &str, of: &dyn Fn(&Place) -> Vec<String>| -> Vec<Job> {
        let shown = format!("{} ({what})", work.name());
        let job = |site: &Site| site.client_job(of(&site.place)).shown_as(&shown);
        sites.iter().map(job).collect()
    };
    let preparations = jobs("preparation", &|at| work.preparation(at));
    let prepared = node::run_all(lab, &preparations, servers, kept)?;
    let mut commands: Vec<Job> = Vec::new();
    for ((site, said), job) in sites.iter().zip(&prepared).zip(&preparations) {
        let argv = work.command(&site.place, said);
        commands
            .push(site.client_job(argv.map_err(|what| job.error(&what, said.as_bytes(), b""))?));
    }
    let waiting = node::wait_in_all(lab, &commands)?;
    let before = Before::read(lab, sites);
    let (ended, clock_error_ns) = run(lab, waiting, timeout, servers, kept)?;
    let after = (busy_ns(), cpu_of(lab, sites));
    let checks = jobs("check", &|at| work.check(at));
    let checked = node::run_all(lab, &checks, servers, &mut Kept::default())?;
    let evidence = prepared.into_iter().zip(checked);
    let evidence = evidence.map(|(prepared, checked)| Evidence { prepared, checked });
    let evidence: Vec<Evidence> = evidence.collect();
    let mut result = before.result(sites, &ended, after);
    result.clock_error_ns = clock_error_ns;
    result.figures = work.figures();
    let first = ended.first().zip(evidence.first());
    result.version = first.and_then(|(ended, said)| work.version(&said.prepared, &ended.text()));
    for ((record, one), said) in result.nodes.iter_mut().zip(&ended).zip(&evidence) {
        record.values = values_of(work, one, said)?;
    }
    Ok(result)
}

/// The values of one node, all of them numbers.
fn values_of(work: &dyn Work, ended: &Ended, evidence: &Evidence) -> Result<Vec<f64>, Error> {
    let values = work.read(ended, evidence);
    let values = values.map_err(|what| ended.error(&what))?;
    match values.iter().find(|value| !value.is_finite()) {
        None => Ok(values),
        Some(value) => Err(ended.error(&format!("says {value}"))),
    }
}

/// Lets all begin, and waits for the end of all. Also the bound of the error of their clocks. The first that fails stops
/// the others, and what all wrote is kept.
fn run(
    lab: &Lab,
    waiting: Vec<Waiting>,
    timeout: Duration,
    servers: &mut [Serving],
    kept: &mut Kept,
) -> Result<(Vec<Ended>, u64), Error> {
    let mut all = Vec::new();
    let mut error_ns = 0;
    for one in waiting {
        let offset = one.clock(lab)?;
        error_ns = offset.map_or(0, |offset| offset.error_ns).max(error_ns);
        all.push((one, offset.map_or(0, |offset| offset.offset_ns)));
    }
    let lead = LEAD + LEAD_PER_NODE * all.len() as u32;
    let at_ns = now_ns() + lead.as_nanos() as u64;
    for (one, offset_ns) in &mut all {
        one.begin(at_ns.saturating_add_signed(*offset_ns))?;
    }
    let mut deadline = Instant::now() + lead + timeout;
    let mut result = Ok(());
    let mut ended = Vec::new();
    for (one, offset_ns) in all {
        let (mut one, how) = one.finish(deadline, timeout, servers);
        kept.programs.push(Written {
            node: one.node.clone(),
            output: one.output.clone(),
            errors: one.errors.clone(),
        });
        if how.is_err() && result.is_ok() {
            deadline = Instant::now();
            result = how;
        }
        one.began_ns = one.began_ns.saturating_add_signed(-offset_ns);
        one.ended_ns = one.ended_ns.saturating_add_signed(-offset_ns);
        ended.push(one);
    }
    result.map(|()| (ended, error_ns))
}
