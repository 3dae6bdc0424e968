//! A program in one or more nodes, and a figure from its output.
//!
//! Every node first makes ready: a built-in program tells its version and warms up. Then the agent of each node waits
//! with the program, and all begin at one moment, which is named on each node's own clock. What is read of the
//! machine (memory, CPU time) is read while all wait and when all have ended; in between, this process sleeps.

mod figure;
mod node;
pub mod programs;

use std::time::{Duration, Instant};

use latlab_host::lab::{Lab, available_bytes};
use latlab_model::results::{NodeMemory, NodeWorkload, WorkloadResult};
use latlab_model::spec::{Measurement, Workload};

use crate::clock::now_ns;
use crate::cpu_times::CpuTimes;
use crate::error::Error;
use crate::measured::{Measured, Written};
use node::{Ended, Waiting};
use programs::Work;

/// From the order to the moment of beginning: the way to a node, twice over.
const LEAD: Duration = Duration::from_millis(100);
/// The same for each further node: orders are given one after the other.
const LEAD_PER_NODE: Duration = Duration::from_millis(10);

/// Measures once. Fails when the program of any node fails, does not end in time, or says no figure.
pub fn measure(
    lab: &Lab,
    measurement: &Measurement,
    workload: &Workload,
) -> Result<Measured, Error> {
    let names: Vec<&str> = lab.plan().nodes.iter().map(|n| n.name.as_str()).collect();
    let nodes = workload.nodes(&names);
    let work = programs::of(workload, measurement);
    let made_ready = node::run_all(lab, &nodes, &work.preparation())?;
    let waiting = node::wait_in_all(lab, &nodes, &work.command())?;
    let before = Before::read(lab, &nodes);
    let (ended, clock_error_ns) = run(lab, waiting, Duration::from_nanos(workload.timeout.0))?;
    let machine_after = busy_ns();
    let cpu_after: Vec<Option<u64>> = nodes.iter().map(|node| lab.node_cpu_ns(node)).collect();

    let first = ended.iter().map(|one| one.began_ns).min().unwrap_or(0);
    let last = ended.iter().map(|one| one.began_ns).max().unwrap_or(0);
    let mut result = WorkloadResult {
        figures: work.figures(),
        version: made_ready.first().and_then(|said| work.version(said)),
        begin_spread_ns: last - first,
        clock_error_ns,
        machine_cpu_ns: machine_after
            .zip(before.machine_ns)
            .map(|(after, before)| (after - before).max(0.0) as u64),
        available_lost_bytes: before.available_lost_bytes,
        nodes: Vec::new(),
    };
    let mut outputs = Vec::new();
    for (index, one) in ended.into_iter().enumerate() {
        let values = values_of(work.as_ref(), &one)?;
        let used = cpu_after[index].zip(before.cpu_ns[index]);
        result.nodes.push(NodeWorkload {
            node: one.node.clone(),
            values,
            began_ns: one.began_ns - first,
            ended_ns: one.ended_ns.saturating_sub(first),
            cpu_ns: used.map(|(after, before)| after.saturating_sub(before)),
            memory: before.memory[index],
            ..NodeWorkload::default()
        });
        outputs.push(Written {
            node: one.node,
            output: one.output,
            errors: one.errors,
        });
    }
    Ok(Measured {
        workload: Some(result),
        outputs,
        ..Measured::default()
    })
}

/// The values of one node, all of them numbers.
fn values_of(work: &dyn Work, ended: &Ended) -> Result<Vec<f64>, Error> {
    let values = work.read(ended).map_err(|what| ended.error(&what))?;
    match values.iter().find(|value| !value.is_finite()) {
        None => Ok(values),
        Some(value) => Err(ended.error(&format!("says {value}"))),
    }
}

/// The machine and the nodes as all programs wait.
struct Before {
    memory: Vec<NodeMemory>,
    available_lost_bytes: Option<i64>,
    cpu_ns: Vec<Option<u64>>,
    machine_ns: Option<f64>,
}

impl Before {
    fn read(lab: &Lab, nodes: &[&str]) -> Before {
        let lost = lab.available_before().zip(available_bytes());
        Before {
            available_lost_bytes: lost.map(|(before, now)| before as i64 - now as i64),
            memory: nodes
                .iter()
                .map(|node| lab.node_memory(node).unwrap_or_default())
                .collect(),
            // Reading memory takes time of this process, which is no program's.
            cpu_ns: nodes.iter().map(|node| lab.node_cpu_ns(node)).collect(),
            machine_ns: busy_ns(),
        }
    }
}

fn busy_ns() -> Option<f64> {
    CpuTimes::read(None).map(|times| times.busy_ns)
}

/// Lets all begin, and waits for the end of all. Also the bound of the error of their clocks.
fn run(lab: &Lab, waiting: Vec<Waiting>, timeout: Duration) -> Result<(Vec<Ended>, u64), Error> {
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
    let deadline = Instant::now() + lead + timeout;
    let ended = all.into_iter().map(|(one, offset_ns)| {
        let mut ended = one.finish(deadline, timeout)?;
        ended.began_ns = ended.began_ns.saturating_add_signed(-offset_ns);
        ended.ended_ns = ended.ended_ns.saturating_add_signed(-offset_ns);
        Ok(ended)
    });
    Ok((ended.collect::<Result<Vec<Ended>, Error>>()?, error_ns))
}
