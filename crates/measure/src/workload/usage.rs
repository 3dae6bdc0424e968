//! Memory and CPU time that the nodes and the machine use for programs.

use latlab_host::lab::{Lab, available_bytes};
use latlab_model::results::{Client, NodeMemory, NodeWorkload, WorkloadResult};

use super::node::Ended;
use super::site::Site;
use crate::cpu_times::CpuTimes;

/// CPU time of a node and of its client's, if that is another one.
type NodeCpu = (Option<u64>, Option<u64>);

pub(super) fn cpu_of(lab: &Lab, sites: &[Site]) -> Vec<NodeCpu> {
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
pub(super) struct Before {
    memory: Vec<NodeMemory>,
    available_lost_bytes: Option<i64>,
    cpu: Vec<NodeCpu>,
    machine_ns: Option<f64>,
}

impl Before {
    pub(super) fn read(lab: &Lab, sites: &[Site]) -> Before {
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
    pub(super) fn result(
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

pub(super) fn busy_ns() -> Option<f64> {
    CpuTimes::read(None).map(|times| times.busy_ns)
}
