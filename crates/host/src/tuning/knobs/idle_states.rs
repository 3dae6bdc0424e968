//! `idle-states`: the longest exit latency of an idle state that the isolated CPUs (all, if none are isolated) may
//! use; deeper states are disabled on them.

use super::prelude::*;

const DISABLE: &str = "/sys/devices/system/cpu/cpu*/cpuidle/state*/disable";

pub const KNOB: Knob = Knob {
    name: "idle-states",
    about: "Longest wake-up of the idle states that isolated CPUs may use",
    evidence: "Documentation/admin-guide/pm/cpuidle.rst, Representation in sysfs; Welch 2015, Table 3.1 (CPU_IDLE off); Daichendt 2022, 5.13 (intel_idle.max_cstate=0)",
    risk: "more power and heat; a sibling thread gets less of the core",
    items: Items::Files(
        DISABLE,
        Form::Text,
        "the CPUs of this machine have no idle states to choose (as in most guests)",
    ),
    mapping: Mapping::Each(each),
};

fn each(machine: &Machine<'_>, wanted: &Wanted) -> Result<Targets, KnobError> {
    let limit: u64 = microseconds(machine, wanted)?.parse().unwrap_or(0);
    KNOB.items.find(machine)?;
    let mut targets = Targets::new();
    for cpu in quiet(machine).iter() {
        let pattern = DISABLE.replace("cpu*/", &format!("cpu{cpu}/"));
        for path in machine.root.glob(&pattern) {
            let latency = machine.root.read(path.with_file_name("latency"));
            let latency = latency.ok().and_then(|t| t.trim().parse::<u64>().ok());
            let deep = latency.is_some_and(|us| us > limit);
            targets.push((
                Item::file(path, Form::Text),
                u8::from(deep).to_string().into(),
            ));
        }
    }
    if targets.is_empty() {
        let reason = "these CPUs have no idle states".into();
        return Err(KnobError::Absent(reason));
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn deep_states_of_isolated_cpus_are_disabled() {
        let state = |cpu: u32, state: u32, file: &str| {
            format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/{file}")
        };
        let mut files = Vec::new();
        for cpu in [0, 3] {
            for (number, latency) in [(0, "0\n"), (1, "2\n"), (2, "100\n")] {
                files.push((state(cpu, number, "disable"), "0\n"));
                files.push((state(cpu, number, "latency"), latency));
            }
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), *t)).collect();
        let tree = Tree::new(&files);
        let values = |wanted: &str| -> Vec<String> {
            tree.plan("idle-states", wanted)
                .into_iter()
                .map(|(_, _, to)| to)
                .collect()
        };
        assert_eq!(values("2us"), ["0", "0", "1"]);
        assert_eq!(values("0us"), ["0", "1", "1"]);
        assert!(
            tree.plan("idle-states", "0us")
                .iter()
                .all(|(path, ..)| path.contains("cpu3"))
        );
        Tree::lacks("idle-states", "0us", "idle states");
    }
}
