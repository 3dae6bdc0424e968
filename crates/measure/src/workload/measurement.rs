//! One measurement of a workload, with its directories and servers.

use std::time::Duration;

use latlab_host::lab::Lab;
use latlab_model::results::{Figure, WorkloadResult};
use latlab_model::spec::{Measurement, Workload};

use super::clients::run_clients;
use super::node::{self, Serving};
use super::programs::{self, Work};
use super::site::{self, Site};
use crate::error::Error;
use crate::measured::{Kept, Measured};

/// A client tells of a server's end sooner than the server's agent.
const SERVER_TIMEOUT: Duration = Duration::from_secs(1);

/// The meaning of the values that a trial of this measurement has in each of `nodes` nodes; none without a program.
pub fn figures(measurement: &Measurement, nodes: usize) -> Vec<Figure> {
    let workload = measurement.workload.as_ref();
    workload.map_or_else(Vec::new, |workload| {
        programs::of(workload, measurement, nodes).figures()
    })
}

/// Measures once. Fails when the program or the server of any node fails, does not end in time, says no figure, or did
/// something else than it was asked for.
pub fn measure(
    lab: &Lab,
    measurement: &Measurement,
    workload: &Workload,
) -> Result<Measured, Error> {
    let names: Vec<&str> = lab.plan().nodes.iter().map(|n| n.name.as_str()).collect();
    let nodes = workload.nodes(&names);
    let work = programs::of(workload, measurement, nodes.len());
    let mut kept = Kept::default();
    let all = site::all(lab, measurement, workload, &nodes, &work.files())?;
    // The first node of a job begins it.
    let sites = match workload.is_joint() {
        true => &all[..1],
        false => &all[..],
    };
    let made = site::make_directories(lab, &all, &work.files(), &mut kept);
    let result = made.and_then(|files_on| {
        let timeout = Duration::from_nanos(workload.timeout.0);
        let mut result = serve_and_run(lab, work.as_ref(), &all, sites, timeout, &mut kept)?;
        for (node, kind) in result.nodes.iter_mut().zip(files_on) {
            node.files_on = kind;
        }
        result.job_nodes = workload.is_joint().then_some(nodes.len() as u32);
        Ok(result)
    });
    let removed = site::remove_directories(lab, &all, &mut Kept::default());
    match result.and_then(|result| removed.map(|()| result)) {
        Ok(result) => Ok(Measured {
            workload: Some(result),
            kept,
            ..Measured::default()
        }),
        Err(source) => Err(Error::Workload {
            source: Box::new(source),
            kept,
        }),
    }
}

/// Runs clients in `sites`, beside the servers of `all`. A server that ended by itself is the reason for whatever its
/// client says.
fn serve_and_run(
    lab: &Lab,
    work: &dyn Work,
    all: &[Site],
    sites: &[Site],
    timeout: Duration,
    kept: &mut Kept,
) -> Result<WorkloadResult, Error> {
    let mut servers: Vec<Serving> = Vec::new();
    let mut result = Ok(());
    for site in all {
        let Some(server) = work.server(&site.place) else {
            continue;
        };
        let job = site.job(server.argv).shown_as(server.name);
        match node::serve(lab, &job, &site.client_job(server.ready), kept) {
            Ok(serving) => servers.push(serving),
            Err(error) => result = result.and(Err(error)),
        }
    }
    let mut result =
        result.and_then(|()| run_clients(lab, work, sites, timeout, &mut servers, kept));
    for mut server in servers {
        let timeout = result.as_ref().map_or(SERVER_TIMEOUT, |_| Duration::ZERO);
        let lives = server.check(timeout, kept);
        server.stop(kept);
        if let Err(error) = lives {
            result = Err(error);
        }
    }
    result
}
