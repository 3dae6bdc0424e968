//! Blueprints of several labs on machines that we do not own, against golden ones: a choice changes
//! on purpose or not at all. `UPDATE_EXPECT=1` rewrites them; a lab that does not fit a machine has its
//! refusal there instead.
//!
//! The machines' CPUs, memory nodes and caches are as their makers publish them and Linux numbers
//! them: two sockets of a Xeon E5-2665 (8 cores with two threads and 20 MiB of L3 each), an EPYC 7551P
//! (four dies of two complexes of four cores), an EPYC 9754 with four memory nodes a socket (128 cores,
//! complexes of eight), a Core i9-13900K (8 fast cores with two threads, 16 others in clusters of four).

mod common;

use latlab_model::plan::{Blueprint, blueprint};
use latlab_model::profile::Profile;
use latlab_model::spec::Lab;

const MACHINES: [&str; 5] = [
    "small",
    "xeon-e5-2665",
    "epyc-7551p",
    "epyc-9754",
    "core-i9-13900k",
];

#[test]
fn every_lab_is_placed_as_before_on_every_machine() {
    let labs = common::yaml_files(&common::tests("places"));
    assert!(labs.len() >= 6, "only {} labs", labs.len());
    let mut wrong = Vec::new();
    for file in labs {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let lab =
            Lab::parse(&common::read(&file)).unwrap_or_else(|e| panic!("{}", e.render(&name)));
        for machine in MACHINES {
            let facts = common::facts(machine);
            let text = match blueprint(&lab, &facts, &Profile::builtin) {
                Ok(blueprint) => {
                    let text = serde_json::to_string_pretty(&blueprint).expect("JSON") + "\n";
                    let again: Blueprint = serde_json::from_str(&text).expect("a blueprint");
                    assert_eq!(again, blueprint);
                    text
                }
                Err(errors) => errors.render(&format!("{name}.yaml")),
            };
            let golden = common::tests("golden/places").join(format!("{name}.{machine}"));
            wrong.extend(common::against_golden(&golden, &text).err());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
