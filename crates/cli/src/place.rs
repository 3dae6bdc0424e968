//! `latlab place`: the CPUs and memory of each part of a lab, with reasons. Needs no root and changes nothing; also
//! for a machine that is only described.

use latlab_model::plan::{Blueprint, Share};

use crate::args::Place;
use crate::failure::Outcome;
use crate::files::{self, Machine, Source};
use crate::format::Format;
use crate::table;

pub fn run(args: &Place) -> Outcome {
    let source = Source::read(&args.lab)?;
    source.must_be_study(false)?;
    let blueprint = files::place_lab(&source, Machine::of(args.facts.as_deref()))?;
    let text = match args.format {
        Format::Json => serde_json::to_string_pretty(&blueprint)? + "\n",
        Format::Csv => table::csv(&HEADER, &rows(&blueprint)),
        Format::Table => table::render(&HEADER, &rows(&blueprint)),
    };
    crate::print::document(&text)
}

const HEADER: [&str; 4] = ["WHAT", "CPUS", "MEMORY", "WHY"];

fn rows(blueprint: &Blueprint) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = |what: &str, cpus: &str, memory: &str, why: &str| {
        rows.push([what, cpus, memory, why].map(str::to_string).to_vec());
    };
    let hosts = [
        ("housekeeping", Some(&blueprint.housekeeping)),
        ("pool", blueprint.pool.as_ref()),
        ("idle", blueprint.idle.as_ref()),
        ("interrupts", Some(&blueprint.interrupts)),
        ("kernel threads", Some(&blueprint.kernel_threads)),
    ];
    for (what, given) in hosts {
        if let Some(given) = given {
            row(what, &given.cpus.to_string(), "-", &given.why);
        }
    }
    for nic in &blueprint.nics {
        let what = format!("interrupts of {}", nic.name);
        row(
            &what,
            &nic.interrupts.cpus.to_string(),
            "-",
            &nic.interrupts.why,
        );
    }
    for node in &blueprint.nodes {
        let share = match node.share {
            Share::Own => "",
            Share::Pool => " (pool)",
            Share::Host => " (host)",
            Share::Named => " (shared)",
        };
        let memory = node.memory.as_ref();
        let nodes = memory.map_or_else(|| "-".into(), |m| format!("node {}", m.nodes));
        let what = format!("{}{share}", node.name);
        row(&what, &node.cores.cpus.to_string(), &nodes, &node.cores.why);
        if let Some(memory) = memory {
            row(&format!("{} memory", node.name), "-", &nodes, &memory.why);
        }
        for (number, cpu) in node.vcpus.iter().enumerate() {
            let what = format!("{} vCPU {number}", node.name);
            row(&what, &cpu.to_string(), "-", "one of the node's");
        }
        if let Some(emulator) = &node.emulator {
            let what = format!("{} emulator", node.name);
            row(&what, &emulator.cpus.to_string(), "-", &emulator.why);
        }
    }
    rows
}
