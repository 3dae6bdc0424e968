//! Every lab and study that is shipped is planned, labs on a fixed machine against golden plans: a
//! plan changes on purpose or not at all. `UPDATE_EXPECT=1` rewrites them.

mod common;

use std::collections::BTreeSet;

use common::{Checked, check, facts, folder};
use latlab_model::plan::{Medium, Plan, RunPlan};
use latlab_model::profile::Profile;
use latlab_model::spec::{NodeKind, Probe};

#[test]
fn every_example_lab_is_planned_as_before() {
    let facts = facts("large");
    let mut wrong = Vec::new();
    let labs = common::yaml_files(&folder("labs"));
    assert!(labs.len() >= 8, "only {} labs", labs.len());
    for file in labs {
        let name = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let plan = match check(&file, &facts) {
            Ok(Checked::Lab(plan)) => plan,
            Ok(Checked::Study(_)) => panic!("{name} is a study"),
            Err(errors) => {
                wrong.push(errors);
                continue;
            }
        };
        assert_eq!(plan.lab, name, "a lab is named as its file");
        let text = serde_json::to_string_pretty(&plan).expect("a plan is JSON") + "\n";
        assert_eq!(serde_json::from_str::<Plan>(&text).expect("a plan"), *plan);
        let golden = common::tests("golden").join(format!("{name}.plan.json"));
        wrong.extend(common::against_golden(&golden, &text).err());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn study(name: &str, machine: &str) -> RunPlan {
    let file = folder("studies").join(name).with_extension("yaml");
    match check(&file, &facts(machine)) {
        Ok(Checked::Study(plan)) => *plan,
        Ok(Checked::Lab(_)) => panic!("{name} is a lab"),
        Err(errors) => panic!("{errors}"),
    }
}

#[test]
fn every_example_study_can_be_planned() {
    for file in common::yaml_files(&folder("studies")) {
        let name = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let plan = study(&name, "large");
        assert!(plan.trials() >= 10, "{name} has {} trials", plan.trials());
    }
}

/// Promises of the first-light study, from its numbers.
#[test]
fn first_light_compares_three_environments_over_three_links_in_minutes() {
    let plan = study("first-light", "large");
    let combinations: BTreeSet<(NodeKind, String)> = plan
        .labs
        .iter()
        .map(|l| {
            (
                l.node("server").expect("a server").kind(),
                l.links[0].medium.kind().to_string(),
            )
        })
        .collect();
    assert_eq!(combinations.len(), 9);
    assert_eq!(plan.trials(), 9 * 2 * 3);
    // Seconds for deploying and destroying a lab, by its server's kind, on two emulating cores.
    let overhead = |l: &Plan| match l.node("server").expect("a server").kind() {
        NodeKind::Vm => 6.0,
        _ => 1.5,
    };
    let deploying: f64 = plan
        .visits
        .iter()
        .map(|v| overhead(&plan.labs[v.lab]))
        .sum();
    let once: f64 = plan
        .measurements
        .iter()
        .map(|m| (m.duration.0 + m.warmup.0) as f64 / 1e9 + 0.5)
        .sum();
    let total = deploying + once * plan.visits.len() as f64;
    assert!(total < 180.0, "{total} s");
    let packets = plan.measurements.iter().find(|m| m.probe == Probe::Packets);
    let packets = packets.expect("packets are measured");
    assert!(packets.rate <= 2000, "an emulated machine must keep up");
}

#[test]
fn the_study_of_tuning_has_every_knob_alone_and_left_out() {
    let plan = study("tuning", "large");
    let tunings: BTreeSet<&str> = plan
        .labs
        .iter()
        .filter_map(|lab| Some(lab.tuning.as_ref()?.name.as_str()))
        .collect();
    let isolated = Profile::builtin("isolated").expect("a profile");
    assert!(tunings.contains("isolated"));
    let placed = |lab: &&Plan| lab.tuning.is_none() && !lab.blueprint.given().is_empty();
    assert_eq!(plan.labs.iter().filter(placed).count(), 1);
    for knob in isolated.knobs.keys() {
        for how in ["only", "without"] {
            let wanted = format!("isolated {how} {knob}");
            assert!(tunings.contains(wanted.as_str()), "{wanted}");
        }
    }
}

/// The network of Docker's users: the client outside, the server inside, reached as published.
#[test]
fn first_light_goes_through_the_router_of_a_nat() {
    let plan = study("first-light", "large");
    for lab in &plan.labs {
        let Medium::Nat(nat) = &lab.links[0].medium else {
            continue;
        };
        let reach = lab.reach("client", "server", false).expect("a path");
        let server = &lab.node("server").expect("a server").interfaces[0];
        assert_eq!(reach.address, nat.published[0][0].addr());
        assert!(server.addresses.iter().all(|a| a.addr() != reach.address));
        assert!(nat.outside[0].trunc().contains(&reach.source));
        return;
    }
    panic!("no lab has a nat");
}
