//! `governor`: the algorithm that chooses a CPU's frequency. Choosing takes time, and so does changing.

use super::prelude::*;

const GOVERNORS: &str = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor";
const WITHOUT: &str =
    "this kernel does not choose the frequency (no cpufreq driver, as in most guests)";

pub const KNOB: Knob = Knob {
    name: "governor",
    about: "The governor that chooses the CPUs' frequency",
    evidence: "Documentation/admin-guide/pm/cpufreq.rst; Welch 2015, Table 3.1 (CPU_FREQ off); Daichendt 2022, 5.13 (intel_pstate=disable)",
    risk: "performance: more power and heat, which may lower the turbo of other cores",
    items: Items::Files(GOVERNORS, Form::Text, WITHOUT),
    mapping: Mapping::Each(each),
};

fn each(machine: &Machine<'_>, wanted: &Wanted) -> Result<Targets, KnobError> {
    let word = word(machine, wanted)?;
    let items = KNOB.items.find(machine)?;
    for item in &items {
        let Item::File { path, .. } = item else {
            continue;
        };
        let known = machine
            .root
            .read(path.with_file_name("scaling_available_governors"));
        let known = known.unwrap_or_default();
        if !known.is_empty() && !known.split_whitespace().any(|w| w == word) {
            let known = known.trim();
            return Err(KnobError::Absent(format!(
                "the driver has no `{word}`, only {known}"
            )));
        }
    }
    Ok(items
        .into_iter()
        .map(|i| (i, word.clone().into()))
        .collect())
}

#[cfg(test)]
mod tests {
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn every_policy_is_set_if_its_driver_has_the_governor() {
        let policy = "/sys/devices/system/cpu/cpufreq/policy0/";
        let file = format!("{policy}scaling_governor");
        let known = format!("{policy}scaling_available_governors");
        let tree = Tree::new(&[(&file, "powersave\n"), (&known, "performance powersave\n")]);
        tree.turns("governor", "performance", &file, "powersave", "performance");
        let absent = tree.change("governor", "schedutil").absent.unwrap();
        assert!(
            absent.contains("no `schedutil`, only performance powersave"),
            "{absent}"
        );
        Tree::lacks("governor", "performance", "cpufreq");
    }
}
