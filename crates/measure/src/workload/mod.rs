//! A program in one or more nodes, and a figure from its output.
//!
//! Every node first makes ready: a server starts, a built-in program tells its version and warms up. Then the agent of
//! each node waits with the program, and all begin at one moment, which is named on each node's own clock. What is read
//! of the machine (memory, CPU time) is read while all wait and when all have ended; in between, this process sleeps, or
//! looks twice a second whether servers live.
//! Behind it, a built-in program shows evidence of what it did.

mod figure;
mod node;
pub mod programs;
mod site;

use std::time::{Duration, Instant};

use latlab_host::lab::{Lab, available_bytes};
use latlab_model::results::{Client, Figure, NodeMemory, NodeWorkload, WorkloadResult};
use latlab_model::spec::{Measurement, Workload};

use crate::clock::now_ns;
use crate::cpu_times::CpuTimes;
use crate::error::Error;
use crate::measured::{Kept, Measured, Written};
use node::{Ended, Job, Serving, Waiting};
use programs::{Evidence, Place, Work};
use site::Site;

/// From the order to the moment of beginning: the way to a node, twice over.
const LEAD: Duration = Duration::from_millis(100);
/// The same for each further node: orders are given one after the other.
const LEAD_PER_NODE: Duration = Duration::from_millis(10);
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

/// Prepares, runs and checks the program of every node.
fn run_clients(
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

/// CPU time of a node and of its client's, if that is another one.
type NodeCpu = (Option<u64>, Option<u64>);

fn cpu_of(lab: &Lab, sites: &[Site]) -> Vec<NodeCpu> {
    let of = |site: &Site| {
        let client = site.client.as_ref();
        (
            lab.node_cpu_ns(&site.place.node),
            client.and_then(|client| lab.node_cpu_ns(client)),
        )
    };
    sites.iter().map(of).collect()
}

/// The machine and the nodes as all programs wait.
struct Before {
    memory: Vec<NodeMemory>,
    available_lost_bytes: Option<i64>,
    cpu: Vec<NodeCpu>,
    machine_ns: Option<f64>,
}

impl Before {
    fn read(lab: &Lab, sites: &[Site]) -> Before {
        let lost = lab.available_before().zip(available_bytes());
        Before {
            available_lost_bytes: lost.map(|(before, now)| before as i64 - now as i64),
            memory: sites
                .iter()
                .map(|site| lab.node_memory(&site.place.node).unwrap_or_default())
                .collect(),
            // Reading memory takes time of this process, which is no program's.
            cpu: cpu_of(lab, sites),
            machine_ns: busy_ns(),
        }
    }

    /// The use of the machine until all had ended; the values of programs are not known yet.
    fn result(
        &self,
        sites: &[Site],
        ended: &[Ended],
        (machine_ns, cpu): (Option<f64>, Vec<NodeCpu>),
    ) -> WorkloadResult {
        let first = ended.iter().map(|one| one.began_ns).min().unwrap_or(0);
        let last = ended.iter().map(|one| one.began_ns).max().unwrap_or(0);
        let used = |after: Option<u64>, before: Option<u64>| {
            let both = after.zip(before);
            both.map(|(after, before)| after.saturating_sub(before))
        };
        let record = |(index, (site, one)): (usize, (&Site, &Ended))| {
            let (after, before) = (cpu[index], self.cpu[index]);
            NodeWorkload {
                node: site.place.node.clone(),
                began_ns: one.began_ns.saturating_sub(first),
                ended_ns: one.ended_ns.saturating_sub(first),
                cpu_ns: used(after.0, before.0),
                memory: self.memory[index],
                client: site.client.as_ref().map(|client| Client {
                    node: client.clone(),
                    cpu_ns: used(after.1, before.1),
                }),
                ..NodeWorkload::default()
            }
        };
        WorkloadResult {
            begin_spread_ns: last - first,
            machine_cpu_ns: machine_ns
                .zip(self.machine_ns)
                .map(|(after, before)| (after - before).max(0.0) as u64),
            available_lost_bytes: self.available_lost_bytes,
            nodes: sites.iter().zip(ended).enumerate().map(record).collect(),
            ..WorkloadResult::default()
        }
    }
}

fn busy_ns() -> Option<f64> {
    CpuTimes::read(None).map(|times| times.busy_ns)
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
