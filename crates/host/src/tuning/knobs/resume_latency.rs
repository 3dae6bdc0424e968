//! `resume-latency`: the longest time to wake up that the isolated processors (all, where none are
//! isolated) tolerate: PM QoS of single processors, which leaves the others their rest.

use super::prelude::*;

const FILES: &str = "/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us";

/// See the module.
pub const KNOB: Knob = Knob {
    name: "resume-latency",
    about: "Longest wake-up that isolated processors tolerate",
    evidence: "Documentation/admin-guide/pm/cpuidle.rst, Power Management Quality of Service for CPUs",
    risk: "0us: the processor spins instead of resting: power, heat, and less for a sibling thread",
    items: |m| {
        file::each(
            m.root,
            FILES,
            Form::Text,
            "this kernel is built without power management",
        )
    },
    value: Value::Each(each),
    moves: false,
};

fn each(machine: &Machine<'_>, wanted: &Wanted) -> Result<Wishes, Why> {
    (KNOB.items)(machine)?;
    // The kernel's 0 means that anything is tolerated, its `n/a` that nothing is.
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
        .map(|path| (Item::file(path, Form::Text), text.clone()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_off_are_the_kernels_words_for_them() {
        let file = |cpu: u32| FILES.replace("cpu*/", &format!("cpu{cpu}/"));
        let tree = Tree::new(&[(&file(0), "0\n"), (&file(2), "0\n")]);
        tree.turns("resume-latency", "0us", &file(2), "0", "n/a");
        tree.turns("resume-latency", "off", &file(2), "0", "0");
        tree.turns("resume-latency", "20us", &file(2), "0", "20");
        Tree::lacks("resume-latency", "0us", "power management");
    }
}
