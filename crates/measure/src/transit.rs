//! The longest time that links hold a packet on its way, and its answer on the way back: the delays of their ends, and
//! what may wait there for a rate. A packet is lost only after that.

use std::time::Duration;

use latlab_host::links;
use latlab_model::plan::{LinkPlan, Plan};
use latlab_model::spec::Waypoint;

/// Both directions of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Transit {
    pub there: Duration,
    pub back: Duration,
    /// There and back of a packet as large as the links take, where no queue holds it.
    pub unqueued: Duration,
}

impl Transit {
    /// The transit by neighbours in their order, the last two of which are joined by link `last`.
    pub fn of(plan: &Plan, path: &[Waypoint<'_>], last: usize) -> Transit {
        let mut transit = Transit::default();
        let hops = path.len().saturating_sub(1);
        for (hop, nodes) in path.windows(2).enumerate() {
            let link = match hop + 1 == hops {
                true => plan.links.get(last),
                false => plan.between(nodes[0], nodes[1]).map(|(link, ..)| link),
            };
            let Some(link) = link else {
                continue;
            };
            let [there, back] = [nodes[0], nodes[1]].map(|way| held(plan, link, way.node));
            transit.there += there.0 + there.1;
            transit.back += back.0 + back.1;
            transit.unqueued += there.0 + back.0;
        }
        transit
    }

    pub fn round_trip(&self) -> Duration {
        self.there + self.back
    }
}

/// The longest time of what a node sends by a link without a queue, and the longest wait in the queue.
fn held(plan: &Plan, link: &LinkPlan, node: &str) -> (Duration, Duration) {
    let ends = link.endpoints.iter();
    let own = ends.filter(|end| plan.nodes[end.node].name == node);
    let times = own.map(|end| {
        let impairment = &end.impairment;
        let delays = [impairment.delay, impairment.jitter].into_iter().flatten();
        let delay = Duration::from_nanos(delays.map(|delay| delay.0).sum());
        let passage = impairment
            .rate
            .map_or(0.0, |rate| f64::from(link.mtu) * 8.0 / rate.0.max(1) as f64);
        let alone = delay + Duration::from_secs_f64(passage);
        (alone, links::longest_wait(impairment, link.mtu))
    });
    times.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use latlab_model::facts::Facts;
    use latlab_model::plan::plan;
    use latlab_model::spec::Lab;

    use super::*;

    fn planned(links: &str) -> Plan {
        let text = format!(
            "name: t\ntopology:\n  nodes:\n    a: {{kind: native}}\n    b: {{kind: native}}\n    c: {{kind: native}}\n  links:\n{links}"
        );
        let lab = Lab::parse(&text).unwrap_or_else(|e| panic!("{}", e.render("lab")));
        let facts = include_str!("../../model/tests/facts/large.json");
        let facts: Facts = serde_json::from_str(facts).unwrap();
        plan(&lab, &facts).unwrap_or_else(|e| panic!("{}", e.render("lab")))
    }

    fn transit(plan: &Plan, path: &[&str], last: usize) -> Transit {
        let path: Vec<_> = path.iter().map(|node| Waypoint::from(*node)).collect();
        Transit::of(plan, &path, last)
    }

    #[test]
    fn ends_hold_what_they_send() {
        let plan = planned(
            "    - {delay: 7s, endpoints: ['a:eth0', 'b:eth0']}
    - endpoints: [{node: a, interface: eth1, delay: 400ms, jitter: 50ms}, {node: b, interface: eth1, rate: 1Mbit}]
",
        );
        let held = transit(&plan, &["a", "b"], 1);
        let millis = |time: Duration| time.as_millis();
        assert_eq!(millis(held.there), 450);
        assert_eq!(millis(held.back), 12 + 777, "64 frames at a megabit");
        assert_eq!(millis(held.unqueued), 450 + 12);
        let back = transit(&plan, &["b", "a"], 1);
        assert_eq!((back.there, back.back), (held.back, held.there));
    }

    #[test]
    fn a_path_holds_as_long_as_its_links_together() {
        let plan = planned(
            "    - {delay: 1s, endpoints: ['a:eth0', 'b:eth0']}
    - {delay: 2s, endpoints: ['b:eth1', 'c:eth0']}
    - endpoints: ['b:eth2', 'c:eth1']
",
        );
        let seconds = |last| transit(&plan, &["a", "b", "c"], last).there.as_secs();
        assert_eq!((seconds(1), seconds(2)), (3, 1));
        let nothing = transit(&plan, &["b", "c"], 2);
        assert_eq!(nothing, Transit::default());
    }
}
