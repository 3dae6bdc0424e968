//! `resume-latency`: the longest wake-up that the isolated CPUs (all, if none are isolated) tolerate: per-CPU PM
//! QoS, which lets the other CPUs sleep.

use super::prelude::*;

const FILES: &str = "/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us";

pub const KNOB: Knob = Knob {
    name: "resume-latency",
    about: "Longest wake-up that isolated CPUs tolerate",
    evidence: "Documentation/admin-guide/pm/cpuidle.rst, Power Management Quality of Service for CPUs",
    risk: "0us: the CPU spins instead of resting: power, heat, and less for a sibling thread",
    items: Items::Files(
        FILES,
        Form::Text,
        "this kernel is built without power management",
    ),
    mapping: Mapping::Each(each),
};

fn each(machine: &Machine<'_>, wanted: &Wanted) -> Result<Targets, KnobError> {
    KNOB.items.find(machine)?;
    // The kernel's 0 means no limit, its `n/a` no latency at all.
    let text = match (wanted, microseconds(machine, wanted)?) {
        (Wanted::Switch(_), _) => "0".to_string(),
        (_, zero) if zero == "0" => "n/a".to_string(),
        (_, microseconds) => microseconds,
    };
    let quiet = quiet(machine);
    let cpus = quiet.iter().flat_map(|cpu| {
        machine
            .root
            .glob(&FILES.replace("cpu*/", &format!("cpu{cpu}/")))
    });
    Ok(cpus
        .map(|path| (Item::file(path, Form::Text), text.clone().into()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn zero_and_off_map_to_the_kernels_words() {
        let file = |cpu: u32| FILES.replace("cpu*/", &format!("cpu{cpu}/"));
        let tree = Tree::new(&[(&file(0), "0\n"), (&file(2), "0\n")]);
        tree.turns("resume-latency", "0us", &file(2), "0", "n/a");
        tree.turns("resume-latency", "off", &file(2), "0", "0");
        tree.turns("resume-latency", "20us", &file(2), "0", "20");
        Tree::lacks("resume-latency", "0us", "power management");
    }
}
