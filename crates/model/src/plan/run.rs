//! From a study to the list of trials: which labs, which cells, in which order.
//!
//! The order is a randomised complete block design: every replicate visits every combination once,
//! in random order, and measures in random order there. Slow drift of the machine then falls on all
//! cells alike, and a lab is deployed once a visit instead of once a measurement.

use std::collections::BTreeMap;

use super::describe::describe;
use super::document::Plan;
use super::link::{LinkPlan, Medium};
use super::machines::{Machines, Places, PlannedLab};
use super::node::{NodeBody, NodePlan};
use super::place::Profiles;
use super::planner::plan_with;
use super::records::check_records;
use super::workload::check_workload;
use crate::diagnostic::{Diagnostics, Spanned, shown};
use crate::facts::Facts;
use crate::kinds::Runtime;
use crate::results::{CellPlan, Factor, HostBrief, Manifest, PlannedTrial, RunState, Topology};
use crate::spec::measurement::ETHERNET_BYTES;
use crate::spec::yaml::Yaml;
use crate::spec::{
    Act, Ends, FactorSpec, Gathered, Lab, Measurement, Noise, Probe, Protocol, Study,
};

#[derive(Debug, Clone, PartialEq)]
pub struct RunPlan {
    /// One lab a combination of levels.
    pub labs: Vec<Plan>,
    pub measurements: Vec<Measurement>,
    /// Cells, combination by combination, measurements in the study's order within.
    pub cells: Vec<CellPlan>,
    pub visits: Vec<Visit>,
    pub topologies: Vec<Topology>,
    /// The hosts of each lab's nodes.
    pub places: Vec<Places>,
    /// The machines of all labs in one.
    pub host: HostBrief,
    /// The study's.
    pub seed: u64,
}

/// One deployment of one lab and the trials made in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit {
    /// Index into [`RunPlan::labs`].
    pub lab: usize,
    /// From 1.
    pub replicate: u32,
    /// Trials in order: trial's number, cell's index, measurement's index.
    pub trials: Vec<(u32, usize, usize)>,
}

/// Which part of a run: from 1, of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartNumber {
    pub number: u32,
    pub of: u32,
}

/// Number of trials in some visits.
pub fn trials(visits: &[Visit]) -> usize {
    visits.iter().map(|visit| visit.trials.len()).sum()
}

impl RunPlan {
    /// The seed of the traffic of a measurement in a replicate: the same in all cells, so that they meet the same.
    #[must_use]
    pub fn seed_of(&self, replicate: u32, measurement: usize) -> u64 {
        let mut random = SplitMix64(self.seed);
        let mixed = u64::from(replicate) << 32 | measurement as u64;
        SplitMix64(random.next() ^ mixed).next()
    }

    pub fn order(&self) -> Vec<PlannedTrial> {
        self.order_of(&self.visits)
    }

    /// The trials of some of its visits.
    pub fn order_of(&self, visits: &[Visit]) -> Vec<PlannedTrial> {
        let trials = visits
            .iter()
            .flat_map(|v| v.trials.iter().map(move |t| (v, t)));
        trials
            .map(|(visit, (trial, cell, _))| PlannedTrial {
                trial: *trial,
                cell: self.cells[*cell].id.clone(),
                replicate: visit.replicate,
            })
            .collect()
    }

    pub fn trials(&self) -> usize {
        trials(&self.visits)
    }

    /// The manifest of the whole run as it begins, without the versions of tools. `started` is RFC 3339.
    pub fn manifest(&self, study: &Study, id: String, started: String) -> Manifest {
        Manifest {
            format: Manifest::FORMAT.into(),
            id,
            study: study.name.value.clone(),
            description: study.description.clone(),
            state: RunState::Running,
            started,
            finished: None,
            seed: study.seed,
            replicates: study.replicates,
            host: self.host.clone(),
            versions: BTreeMap::new(),
            factors: factors(study),
            measurements: study.measurements.iter().map(describe).collect(),
            baseline: study.baseline.clone(),
            against: study.against.clone(),
            paper: study.paper.map(|paper| paper.word().to_owned()),
            cells: self.cells.clone(),
            order: self.order(),
            part: None,
            topologies: self.topologies.clone(),
            checksums: BTreeMap::new(),
        }
    }

    /// The visits of a part of the run, or all of them. Parts follow each other in the order of the run and are of the
    /// same size to within one visit: where replicates can be divided so, a part has whole ones, and its cells can be
    /// compared with each other.
    pub fn visits_of(&self, part: Option<PartNumber>) -> &[Visit] {
        let Some(part) = part else {
            return &self.visits;
        };
        let end = |number: u32| {
            let visits = self.visits.len() as u64 * u64::from(number) / u64::from(part.of);
            visits as usize
        };
        &self.visits[end(part.number - 1)..end(part.number)]
    }
}

/// Plans a study on one machine: see [`plan_run_with`].
pub fn plan_run(
    study: &Study,
    lab: &Yaml,
    facts: &Facts,
    profiles: Profiles<'_>,
) -> Result<RunPlan, Diagnostics> {
    plan_run_with(study, lab, &mut |lab, _| {
        let plan = plan_with(lab, facts, profiles)?;
        Ok(PlannedLab::on_one(plan, facts))
    })
}

/// Plans the lab of one combination, which comes also as the tree that it was read from.
pub type PlanLab<'p> = &'p mut dyn FnMut(&Lab, &Yaml) -> Result<PlannedLab, Diagnostics>;

/// Plans a study, with `plan` for its labs: every combination is planned on its machines before the first is made. Errors: a combination that is no correct lab or does not fit the machines, or a measurement whose
/// ends no link joins.
pub fn plan_run_with(study: &Study, lab: &Yaml, plan: PlanLab<'_>) -> Result<RunPlan, Diagnostics> {
    let (mut labs, mut cells, mut topologies) = (Vec::new(), Vec::new(), Vec::new());
    let (mut places, mut hosts) = (Vec::new(), Vec::new());
    let mut mistakes = Gathered::new(study);
    for choice in study.choices(lab)? {
        let levels = study.levels_of(&choice);
        let planned = match plan_choice(study, lab, &choice, plan) {
            Ok(planned) => planned,
            Err(errors) => {
                mistakes.note(&errors, &choice);
                continue;
            }
        };
        let by_name: BTreeMap<_, _> = levels.iter().cloned().collect();
        for m in &study.measurements {
            cells.push(CellPlan {
                id: cell_id(m, &levels),
                measurement: m.name.value.clone(),
                levels: by_name.clone(),
                environment: planned.environment(),
                topology: labs.len(),
            });
        }
        topologies.push(planned.topology(by_name));
        hosts.push(planned.brief());
        places.push(planned.places);
        labs.push(planned.plan);
    }
    mistakes.into_result(labs.len())?;
    let visits = schedule(study, labs.len());
    let measurements = study.measurements.clone();
    Ok(RunPlan {
        labs,
        measurements,
        cells,
        visits,
        topologies,
        places,
        host: HostBrief::joined(&hosts.iter().collect::<Vec<_>>()),
        seed: study.seed,
    })
}

fn plan_choice(
    study: &Study,
    lab: &Yaml,
    choice: &[usize],
    plan: PlanLab<'_>,
) -> Result<PlannedLab, Diagnostics> {
    let tree = study.tree_of(lab, choice)?;
    let lab = study.lab_in(&tree)?;
    study.check_targets(&lab)?;
    let planned = plan(&lab, &tree)?;
    check_measurements(study, &planned)?;
    Ok(planned)
}

fn cell_id(m: &Measurement, levels: &[(String, String)]) -> String {
    let levels: String = levels.iter().map(|(f, l)| format!("/{f}={l}")).collect();
    format!("{}{levels}", *m.name)
}

fn check_measurements(study: &Study, planned: &PlannedLab) -> Result<(), Diagnostics> {
    let plan = &planned.plan;
    let mut errors = Diagnostics::default();
    for m in &study.measurements {
        match planned.places.of(m) {
            Machines::One(host) => {
                if let Some(facts) = planned.facts.get(host) {
                    check_on_machine(m, plan, facts, &mut errors);
                }
            }
            Machines::Several => check_between_hosts(m, &mut errors),
            Machines::NotChosen => {}
        }
        if let Some(ends) = &m.ends {
            check_way(m, ends, plan, &mut errors);
            check_records(m, ends, plan, &mut errors);
        }
    }
    errors.into_result(())
}

/// The last node of the way reaches the receiver; the others see to it that packets go on. All links carry its frames.
fn check_way(m: &Measurement, ends: &Ends, plan: &Plan, errors: &mut Diagnostics) {
    let way = ends.way(&m.through);
    let (before, [sender, receiver]) = (
        &way[..way.len() - 1],
        [way[way.len() - 2], way[way.len() - 1]],
    );
    let Some(reach) = plan.reach(sender, receiver, m.ip == 6) else {
        let message = format!(
            "measurement `{}`: no link takes IPv{} from {sender} to {receiver}",
            *m.name, m.ip
        );
        let hint = match m.ip {
            6 => "join the two nodes by a link with an mtu of 1280 or more, or name other ends",
            _ => "join the two nodes by a link, or name other ends",
        };
        errors.add(ends.to.at, message, hint);
        return;
    };
    let last = &plan.links[reach.link];
    check_timestamps(m, last, errors);
    let earlier = before
        .windows(2)
        .filter_map(|pair| plan.between(pair[0], pair[1]));
    let links = earlier.map(|(link, ..)| link).chain([last]);
    let is_too_small = |link: &&LinkPlan| m.size > link.mtu + ETHERNET_BYTES;
    let sends_frames = matches!(m.probe, Probe::Packets | Probe::Forward);
    for link in links.filter(is_too_small).filter(|_| sends_frames) {
        let message = format!(
            "measurement `{}`: frames of {} bytes do not fit link `{}` with its mtu of {}",
            *m.name, m.size, link.name, link.mtu
        );
        let hint = format!(
            "`size` up to {}; fragments are not timed",
            link.mtu + ETHERNET_BYTES
        );
        errors.add(m.name.at, message, hint);
    }
}

/// Requirements to the machine that has all nodes of a measurement.
fn check_on_machine(m: &Measurement, plan: &Plan, facts: &Facts, errors: &mut Diagnostics) {
    if matches!(m.noise, Noise::StressNg(_)) && facts.lacks_tool("stress-ng") {
        let message = format!(
            "measurement `{}` wants noise by stress-ng, which is not installed",
            *m.name
        );
        errors.add(
            m.name.at,
            message,
            "apt-get install stress-ng, or `noise: spin`",
        );
    }
    if let Some(workload) = &m.workload {
        check_workload(m, workload, plan, facts, errors);
    }
    let Some(ends) = &m.ends else { return };
    check_actions(m, ends, plan, errors);
    if m.probe == Probe::Forward {
        check_forward(m, ends, plan, facts, errors);
    }
}

/// Refuses hardware timestamps on a link whose cards are not set up for them.
fn check_timestamps(m: &Measurement, link: &LinkPlan, errors: &mut Diagnostics) {
    if m.timestamps.is_hardware() && !link.medium.timestamps().is_hardware() {
        let message = format!(
            "measurement `{}` has hardware timestamps, and the cards of link `{}` take none",
            *m.name, link.name
        );
        let hint = "give the link, which must be of type phys, `timestamps: hardware`";
        errors.add(m.name.at, message, hint);
    }
}

/// Refuses what needs all nodes of a measurement on one machine.
fn check_between_hosts(m: &Measurement, errors: &mut Diagnostics) {
    let one_way = "`probe: rr` times by the sender's clock alone, also at a `rate`";
    let together = "give its nodes the same `host`";
    let (why, hint) = match m.probe {
        Probe::Packets if m.timestamps.is_hardware() => return,
        Probe::Packets => ("times packets one way, by two machines' clocks", one_way),
        Probe::Forward => (
            "needs its taps on one machine, by whose clock they time",
            together,
        ),
        Probe::Workload => ("counts the CPU time and memory of one machine", together),
        Probe::Rr | Probe::Stream if m.noise != Noise::None => {
            ("has noise, which one machine makes", together)
        }
        Probe::Rr | Probe::Stream if !m.actions.is_empty() => {
            ("has actions, which one machine does", together)
        }
        Probe::Rr | Probe::Stream => return,
    };
    let message = format!(
        "measurement `{}` {why}, and its nodes are on several",
        *m.name
    );
    errors.add(m.name.at, message, hint);
}

/// The nodes of actions are there, can do what is asked of them, and no clock that is needed stops with them.
fn check_actions(m: &Measurement, ends: &Ends, plan: &Plan, errors: &mut Diagnostics) {
    for action in &m.actions {
        let (name, at) = (&action.node.value, action.node.at);
        let verb = action.verb();
        let is_pause = matches!(action.act, Act::Pause { .. });
        let mut refuse = |why: &str, hint: &str| {
            let message = format!("measurement `{}` {verb} `{name}`, {why}", *m.name);
            errors.add(at, message, hint);
        };
        let Some(node) = plan.node(name) else {
            refuse("which the lab does not have", "name a node of the lab");
            continue;
        };
        if node.kind().is_host() {
            refuse("which is the host itself", "name another node");
        } else if *name == ends.from.node {
            refuse(
                "which times the packets",
                "name the node at the other end, or one between",
            );
        } else if m.probe == Probe::Packets && *name == ends.to.node && node.kind().is_guest() {
            refuse(
                "a VM whose clock stops with it and times the arrivals",
                "use `probe: rr`, whose times are the sender's alone",
            );
        } else if !is_pause && !node.kind().properties().has_process {
            refuse(
                "whose processes are among the host's",
                "only containers and VMs can be saved and moved",
            );
        } else if !is_pause && !node.storage.is_empty() {
            refuse(
                "whose storage stays on the host",
                "a node with `storage` can be neither saved nor moved",
            );
        } else if !is_pause && node.dpdk.is_some() {
            refuse(
                "whose huge pages are the host's",
                "a node with `dpdk` can be neither saved nor moved",
            );
        } else if !is_pause && plan.has_streams(node) {
            refuse(
                "whose TCP connections may be streams",
                "connections of a node that was saved or moved stay plain: remove `streams` from its links",
            );
        } else if let (false, Some(runtime)) = (is_pause, watched(node)) {
            refuse(
                &format!("a container of {runtime}, which stays beside it"),
                "only containers of crun and runc can be saved and moved",
            );
        } else if !goes_on(m, ends, node, &action.act) {
            refuse(
                "where a program of the probe would not go on",
                "use `probe: rr` with `protocol: icmp`, which the node's kernel answers",
            );
        }
        if let Act::Migrate { to } = &action.act {
            check_move(m, name, to, plan, errors);
        }
    }
}

/// The runtime of a container that cannot be saved for its sake.
fn watched(node: &NodePlan) -> Option<Runtime> {
    match &node.body {
        NodeBody::Container(container) => {
            Some(container.runtime).filter(|runtime| !runtime.leaves())
        }
        _ => None,
    }
}

/// Whether the probe's program in a node, if there is one, goes on after the act. CRIU takes along what a container's
/// first process started, and latlab's channel into a guest does not go back in time with it.
fn goes_on(m: &Measurement, ends: &Ends, node: &NodePlan, act: &Act) -> bool {
    let is_device = m.through.iter().any(|name| name.value == node.name);
    let runs_program = match m.probe {
        Probe::Rr => node.name == ends.to.node && m.protocol != Protocol::Icmp,
        _ => node.name == ends.to.node || (is_device && m.device.is_own_program()),
    };
    match act {
        Act::Pause { .. } => true,
        Act::Restore => !runs_program,
        Act::Migrate { .. } | Act::Snapshot => node.kind().is_guest() || !runs_program,
    }
}

/// There are two hosts between which a node can move.
fn check_move(
    m: &Measurement,
    name: &str,
    to: &Spanned<String>,
    plan: &Plan,
    errors: &mut Diagnostics,
) {
    let mut refuse = |why: &str, hint: &str| {
        let to_name = shown(&to.value);
        let message = format!(
            "measurement `{}` moves `{name}` to `{to_name}`, {why}",
            *m.name
        );
        errors.add(to.at, message, hint);
    };
    let place = |name: &str| plan.nodes.iter().position(|node| node.name == name);
    let (Some(node), Some(target)) = (place(name), place(&to.value)) else {
        return refuse("which the lab does not have", "name a node of the lab");
    };
    let joins = |link: &LinkPlan| {
        let is_on = |node| link.endpoints.iter().any(|end| end.node == node);
        let has_hosts = matches!(&link.medium, Medium::Overlay(o) if o.has_hosts());
        has_hosts && is_on(node) && is_on(target)
    };
    if node == target || !plan.links.iter().any(joins) {
        refuse(
            "and no link has hosts to move between",
            "`type: overlay` with a `carrier` gives each node of the link a host",
        );
    }
}

/// Requirements of a measurement by taps: a node to tap at both ends, a link from each node of the way to
/// the next, and a kernel that runs programs.
fn check_forward(
    m: &Measurement,
    ends: &Ends,
    plan: &Plan,
    facts: &Facts,
    errors: &mut Diagnostics,
) {
    let what = format!("measurement `{}`", *m.name);
    if let Some(reason) = facts.lacks(Facts::BPF) {
        let message = format!(
            "{what} needs taps, and BPF does not work here: {}",
            reason.reason
        );
        let hint = "`probe: packets` times at the endpoints, without taps";
        errors.add(m.name.at, message, hint);
    }
    let way = ends.way(&m.through);
    for (index, name) in way.iter().map(|at| at.node).enumerate() {
        let is_device = index > 0 && index + 1 < way.len();
        let Some(node) = plan.node(name) else {
            let message = format!("{what} goes through `{name}`, which the lab does not have");
            errors.add(m.name.at, message, "name nodes of the lab");
            return;
        };
        // Frames into a first device are tapped at the sender; only later ones have a tap of their own.
        if node.kind().is_guest() && !(is_device && index == 1) {
            let message = format!("{what} needs a tap inside `{name}`, which is a VM");
            let hint = "let packets begin and end in native nodes or containers; a VM can be the first \
                        node of `through`";
            errors.add(m.name.at, message, hint);
        }
    }
    for pair in way.windows(2).take(m.through.len()) {
        if plan.joined(pair[0], pair[1]).is_none() {
            let message = format!("{what}: no link joins {} and {}", pair[0], pair[1]);
            let hint = match pair[0].interface {
                Some(_) => "name the interface that leads to the first node of `through`, or none",
                None => "`through` lists the nodes in the order of the way",
            };
            errors.add(m.name.at, message, hint);
        }
    }
}

fn schedule(study: &Study, labs: usize) -> Vec<Visit> {
    let mut random = SplitMix64(study.seed);
    let per_lab = study.measurements.len();
    let mut number = 0;
    let mut visits = Vec::new();
    for replicate in 1..=study.replicates {
        let mut order: Vec<usize> = (0..labs).collect();
        random.shuffle(&mut order);
        for lab in order {
            let mut within: Vec<usize> = (0..per_lab).collect();
            random.shuffle(&mut within);
            let trials = within.into_iter().map(|m| {
                number += 1;
                (number, lab * per_lab + m, m)
            });
            visits.push(Visit {
                lab,
                replicate,
                trials: trials.collect(),
            });
        }
    }
    visits
}

pub fn factors(study: &Study) -> Vec<Factor> {
    let one = |f: &FactorSpec| Factor {
        name: f.name.value.clone(),
        path: f
            .paths
            .iter()
            .map(|p| p.value.as_str())
            .collect::<Vec<_>>()
            .join(", "),
        levels: f.levels.iter().map(|l| l.label.clone()).collect(),
    };
    study.factors.iter().map(one).collect()
}

/// SplitMix64 (Steele, Lea, Flood 2014): ten lines that will give the same order from the same seed
/// for ever, which a dependency does not promise.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Fisher and Yates.
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            // The bias of the remainder is below 2^-50 for any study that fits in memory.
            items.swap(i, (self.next() % (i as u64 + 1)) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::LabSource;
    use crate::units::CpuList;

    const STUDY: &str = "
name: s
seed: 7
lab: {name: pair, topology: {nodes: {a: {kind: native}, b: {kind: native}}, links: [{endpoints: ['a:eth0', 'b:eth0']}]}}
factors: {topology.links.0.type: [veth, bridge]}
measurements: [{probe: rr, from: a, to: b}, {probe: packets, from: a, to: b}]
replicates: 3
";

    fn run(text: &str) -> Result<RunPlan, Diagnostics> {
        let study = Study::parse(text).unwrap();
        let LabSource::Inline(lab) = &study.lab else {
            panic!()
        };
        plan_run(
            &study,
            lab,
            &Facts {
                cpus: CpuList::new(vec![0, 1]),
                ..Facts::default()
            },
            &crate::profile::Profile::builtin,
        )
    }

    #[test]
    fn every_replicate_visits_every_cell_once_in_an_order_that_the_seed_fixes() {
        let plan = run(STUDY).unwrap();
        assert_eq!(plan.trials(), 2 * 2 * 3);
        for replicate in 1..=3 {
            let mut cells: Vec<usize> = plan
                .visits
                .iter()
                .filter(|v| v.replicate == replicate)
                .flat_map(|v| v.trials.iter().map(|t| t.1))
                .collect();
            cells.sort_unstable();
            assert_eq!(cells, [0, 1, 2, 3]);
        }
        assert_eq!(run(STUDY).unwrap(), plan);
        let orders: std::collections::HashSet<_> = (0..20)
            .map(|seed| {
                let text = STUDY.replace("seed: 7", &format!("seed: {seed}"));
                format!("{:?}", run(&text).unwrap().visits)
            })
            .collect();
        assert!(orders.len() > 10, "the seed has an effect");
    }

    #[test]
    fn each_replicate_of_a_measurement_has_traffic_of_its_own() {
        let of = |seed: &str| {
            let plan = run(&STUDY.replace("seed: 7", seed)).unwrap();
            let of = |replicate| [plan.seed_of(replicate, 0), plan.seed_of(replicate, 1)];
            [1, 2, 3].map(of).concat()
        };
        assert_eq!(of("seed: 7"), of("seed: 7"));
        let all = [of("seed: 7"), of("seed: 8")].concat();
        let different: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), 12);
    }

    #[test]
    fn ends_that_no_link_joins_are_refused() {
        let refused = |text: &str, words: &str| {
            let errors = run(text).unwrap_err().render("s");
            assert!(errors.contains(words), "{errors}");
        };
        let unknown = STUDY.replace("from: a, to: b}]", "from: a, to: 'b:eth7'}]");
        refused(&unknown, "names interface `eth7` of node `b`");
        let apart = STUDY
            .replace(
                "b: {kind: native}}",
                "b: {kind: native}, c: {kind: native}}",
            )
            .replace("from: a, to: b}]", "from: a, to: c}]");
        refused(&apart, "no link takes IPv4 from `a` to `c`");
    }

    #[test]
    fn frames_must_fit_every_link_of_the_way() {
        let study = |mtu: u32, size: u32| {
            let text = format!(
                "name: s
lab:
  name: way
  topology:
    nodes: {{a: {{kind: native}}, r: {{kind: native}}, b: {{kind: native}}}}
    links: [{{endpoints: ['a:eth0', 'r:eth0'], mtu: {mtu}}}, {{endpoints: ['r:eth1', 'b:eth0']}}]
measurements: [{{probe: forward, from: a, to: b, through: r, size: {size}}}]
"
            );
            run(&text)
        };
        assert!(study(1000, 1018).is_ok());
        let errors = study(1000, 1019).unwrap_err().render("s");
        assert!(errors.contains("do not fit link"), "{errors}");
        assert!(errors.contains("mtu of 1000"), "{errors}");
    }

    #[test]
    fn a_mistake_of_some_combinations_says_which() {
        let text = STUDY.replace("[veth, bridge]", "[veth, bridge, tunnel]");
        let errors = run(&text).unwrap_err().render("s");
        assert!(
            errors.contains("not `tunnel` (with type=tunnel)\n"),
            "{errors}"
        );
        assert_eq!(errors.lines().count(), 2, "{errors}");
    }
}
