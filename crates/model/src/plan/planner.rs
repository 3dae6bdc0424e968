//! From a lab to its plan.

use super::blueprint::Blueprint;
use super::document::Plan;
use super::link::LinkPlan;
use super::node::{NodePlan, check_port_addresses};
use super::place::{self, Profiles};
use super::{address, check, resolve, wires};
use crate::diagnostic::Diagnostics;
use crate::facts::Facts;
use crate::profile::Profile;
use crate::spec::Lab;

/// Plans `lab` on a machine, with the built-in tuning profiles. Errors: everything that is wrong, each with its place
/// in the lab's text.
pub fn plan(lab: &Lab, facts: &Facts) -> Result<Plan, Diagnostics> {
    plan_with(lab, facts, &Profile::builtin)
}

/// Where everything of `lab` would run; what else the machine may lack is not asked. Errors: cores that cannot be
/// given, with the nearest that could.
pub fn blueprint(
    lab: &Lab,
    facts: &Facts,
    profiles: Profiles<'_>,
) -> Result<Blueprint, Diagnostics> {
    let mut errors = Diagnostics::default();
    let lab = &*wires::resolved(lab, facts, &mut errors);
    let blueprint = place::place(lab, facts, profiles, &mut errors);
    errors.into_result(blueprint)
}

/// Nodes and links of `lab` with all their addresses, which are the same on every machine; nothing is placed. Errors:
/// addresses that clash or are used up.
pub fn addressed(lab: &Lab) -> Result<(Vec<NodePlan>, Vec<LinkPlan>), Diagnostics> {
    let mut errors = Diagnostics::default();
    check_port_addresses(lab, &mut errors);
    let facts = Facts::default();
    let mut nodes = place::node_plans(lab, &Blueprint::default(), &facts, &Profile::builtin);
    let links = address::assign(lab, &mut nodes, &mut errors);
    errors.into_result((nodes, links))
}

/// Plans `lab` on a machine, with these tuning profiles.
pub fn plan_with(lab: &Lab, facts: &Facts, profiles: Profiles<'_>) -> Result<Plan, Diagnostics> {
    let mut errors = Diagnostics::default();
    check_port_addresses(lab, &mut errors);
    filled(lab, facts, profiles, errors)
}

/// Plans a lab, or a host's part of one, whose ends have the addresses of the whole. `errors` are those of before.
pub(super) fn filled(
    lab: &Lab,
    facts: &Facts,
    profiles: Profiles<'_>,
    mut errors: Diagnostics,
) -> Result<Plan, Diagnostics> {
    let lab = &*wires::resolved(lab, facts, &mut errors);
    check::check(lab, facts, profiles, &mut errors);
    let blueprint = place::place(lab, facts, profiles, &mut errors);
    let mut nodes = place::node_plans(lab, &blueprint, facts, profiles);
    let links = address::assign(lab, &mut nodes, &mut errors);
    let plan = Plan {
        format: Plan::FORMAT.into(),
        lab: lab.name.value.clone(),
        tuning: place::tuning(lab, profiles, &mut errors),
        blueprint,
        names: resolve::names(&nodes, &links),
        nodes,
        links,
    };
    errors.into_result(plan)
}

#[cfg(test)]
mod tests {
    use super::super::{InterfacePlan, Medium, NodeBody};
    use super::*;
    use crate::spec::Waypoint;
    use crate::units::CpuList;

    /// A machine with `cpus` CPUs where everything works.
    fn machine(cpus: u32) -> Facts {
        let tools = ["crun", "runc", "qemu-system-x86_64", "nft"];
        Facts {
            cpus: CpuList::new((0..cpus).collect()),
            tools: tools.iter().map(|t| (t.to_string(), "1".into())).collect(),
            ..Facts::default()
        }
    }

    fn at<'a>(node: &'a str, interface: &'a str) -> Waypoint<'a> {
        Waypoint {
            node,
            interface: Some(interface),
        }
    }

    fn planned(topology: &str) -> Result<Plan, Diagnostics> {
        let lab = Lab::parse(&format!("name: t\ntopology:\n{topology}")).expect("a readable lab");
        plan(&lab, &machine(4))
    }

    #[test]
    fn no_link_gets_a_subnet_that_the_lab_gives_to_another() {
        let plan = planned(
            "  nodes: {a: {kind: native}, r: {kind: native}, s: {kind: native}, b: {kind: native}}
  links:
    - endpoints: ['a:eth0', 'r:eth0']
    - endpoints: ['r:eth1', 's:eth0']
    - endpoints: [{node: s, interface: eth1, ipv4: 198.18.0.1/24}, 'b:eth0']
    - {endpoints: ['a:eth1', 'b:eth1'], subnets: [198.18.1.0/25, 'fd4c:61:62:1::/64']}",
        )
        .unwrap();
        let all = plan.nodes.iter().flat_map(|node| &node.interfaces);
        let mut subnets: Vec<_> = all
            .flat_map(|i| i.addresses.iter().map(|a| (a.trunc(), i.link)))
            .collect();
        subnets.sort_unstable();
        subnets.dedup();
        let of = |link: usize| {
            let ours = subnets.iter().filter(|(_, of)| *of == link);
            ours.map(|(net, _)| net.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of(0), ["198.18.2.0/24", "fd4c:61:62::/64"]);
        assert_eq!(of(1), ["198.18.3.0/24", "fd4c:61:62:2::/64"]);
        assert_eq!(of(2)[0], "198.18.0.0/24");
        assert_eq!(of(3)[0], "198.18.1.0/25");
    }

    #[test]
    fn every_end_gets_addresses_of_both_families() {
        let plan = planned(
            "  nodes: {a: {kind: native}, b: {kind: native}}
  links:
    - endpoints: ['a:eth0', 'b:eth0']
    - {type: bridge, endpoints: ['a:eth1', 'b:eth1'], mtu: 1000}",
        )
        .unwrap();
        let show = |i: &InterfacePlan| {
            i.addresses
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            show(&plan.nodes[0].interfaces[0]),
            ["198.18.0.1/24", "fd4c:61:62::1/64"]
        );
        assert_eq!(
            show(&plan.nodes[1].interfaces[0]),
            ["198.18.0.2/24", "fd4c:61:62::2/64"]
        );
        // IPv6 does not run below 1280 bytes.
        assert_eq!(show(&plan.nodes[1].interfaces[1]), ["198.18.1.2/24"]);
        let reach = plan.reach("a", "b", false).unwrap();
        assert_eq!(
            (reach.address.to_string(), reach.link),
            ("198.18.0.2".into(), 0)
        );
        assert_eq!(plan.reach("a", at("b", "eth1"), false).unwrap().link, 1);
        assert_eq!(plan.reach("a", at("b", "eth1"), true), None);
        // The sender's interface decides likewise, and both must be of one link.
        let reach = plan.reach(at("a", "eth1"), "b", false).unwrap();
        assert_eq!(
            (reach.source.to_string(), reach.link),
            ("198.18.1.1".into(), 1)
        );
        let crossed = plan.reach(at("a", "eth1"), at("b", "eth0"), false);
        assert_eq!(crossed, None);
        assert_eq!(plan.joined(at("a", "eth1"), "b"), Some(("eth1", "eth1")));
        assert_eq!(plan.joined(at("a", "eth1"), at("b", "eth0")), None);
    }

    #[test]
    fn behind_a_nat_the_outside_sees_published_addresses() {
        let plan = planned(
            "  nodes: {a: {kind: native}, b: {kind: native}, c: {kind: native}}
  links: [{type: nat, endpoints: ['a:eth0', 'b:eth0', 'c:eth0']}]",
        )
        .unwrap();
        let Medium::Nat(nat) = &plan.links[0].medium else {
            panic!()
        };
        assert_eq!(nat.published.len(), 2);
        let inner = plan.reach("b", "a", false).unwrap();
        assert_eq!(
            inner.address,
            plan.nodes[0].interfaces[0].addresses[0].addr()
        );
        let outer = plan.reach("a", "c", false).unwrap();
        assert_eq!(outer.address, nat.published[1][0].addr());
        assert!(
            nat.outside[0].contains(&outer.address),
            "published on the outer subnet"
        );
        let side = plan.reach("b", "c", false).unwrap();
        assert_eq!(
            side.address,
            plan.nodes[2].interfaces[0].addresses[0].addr()
        );
        assert_eq!(plan.nodes[1].interfaces[0].routes.len(), 2);
    }

    #[test]
    fn a_guest_is_told_of_its_cpus_unless_that_is_hidden() {
        let told = |hardware: &str| {
            let fields = format!("kind: vm, cpus: 2, isolate: true{hardware}");
            let plan = planned(&format!("  nodes: {{a: {{{fields}}}}}")).unwrap();
            let NodeBody::Vm(vm) = &plan.nodes[0].body else {
                panic!()
            };
            vm.topology
        };
        assert_eq!(told("").unwrap().cores, 2);
        assert_eq!(told(", hardware: {topology: hidden}"), None);
    }

    #[test]
    fn given_addresses_are_kept_and_avoided() {
        let plan = planned(
            "  nodes: {a: {kind: native}, b: {kind: native}}
  links:
    - endpoints: [{node: a, interface: eth0, ipv4: 10.9.0.1/29, mac: '02:00:00:00:00:01'}, 'b:eth0']",
        )
        .unwrap();
        assert_eq!(
            plan.nodes[0].interfaces[0].mac.to_string(),
            "02:00:00:00:00:01"
        );
        assert_eq!(
            plan.nodes[1].interfaces[0].addresses[0].to_string(),
            "10.9.0.2/29"
        );
    }

    #[test]
    fn a_thousand_nodes_fit_one_bridge() {
        let nodes: String = (0..1000)
            .map(|i| format!("    n{i}: {{kind: native}}\n"))
            .collect();
        let ends: String = (0..1000).map(|i| format!("'n{i}:eth0',")).collect();
        let plan = planned(&format!(
            "  nodes:\n{nodes}  links: [{{type: bridge, endpoints: [{ends}]}}]"
        ));
        let plan = plan.unwrap();
        let last = plan.nodes[999].interfaces[0].addresses[0];
        assert_eq!(last.to_string(), "198.18.3.232/22");
        // All see them alike, so the names are as many as the nodes and not as their pairs.
        assert!(plan.names.seen_by.is_empty());
        assert_eq!(plan.names.nodes.len(), 1000);
    }

    #[test]
    fn exclusive_cores_end_where_the_machine_does() {
        let lab =
            |cpus: u32| format!("  nodes: {{a: {{kind: native, cpus: {cpus}, isolate: true}}}}");
        let plan = planned(&lab(3)).unwrap();
        assert_eq!(plan.nodes[0].cpuset.as_ref().unwrap().to_string(), "1-3");
        let errors = planned(&lab(4)).unwrap_err().render("t");
        assert!(
            errors.contains("wants 4 exclusive CPU(s); 3 of this machine's 4"),
            "{errors}"
        );
    }

    #[test]
    fn no_other_node_runs_on_exclusive_cores() {
        let plan = planned(
            "  nodes:
    a: {kind: native, isolate: true}
    b: {kind: native, cpuset: 1-2}
    c: {kind: native}",
        )
        .unwrap();
        let sets: Vec<String> = plan
            .nodes
            .iter()
            .map(|n| n.cpuset.as_ref().unwrap().to_string())
            .collect();
        assert_eq!(sets, ["3", "1-2", "0-2"]);
        let clash = "  nodes:
    a: {kind: native, isolate: true, cpuset: \"1\"}
    b: {kind: native, cpuset: 1-2}";
        let errors = planned(clash).unwrap_err().render("t");
        assert!(
            errors.contains("t:5:31: CPU 1 of node `b` belongs to node `a` alone"),
            "{errors}"
        );
    }

    #[test]
    fn a_plan_survives_being_saved() {
        let plan = planned(
            "  nodes: {a: {kind: vm}, b: {kind: container, cpus: 1, memory: 64MiB}}
  links: [{type: vxlan, endpoints: ['a:eth0', 'b:eth0'], rate: 1Gbit}]",
        )
        .unwrap();
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }
}
