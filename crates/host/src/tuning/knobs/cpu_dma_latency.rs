//! `cpu-dma-latency`: the longest wake-up that the machine tolerates: PM QoS of all CPUs. The request lasts as long
//! as the device is open, so a process keeps it open (`items/holder.rs`); revert ends that process.

use super::prelude::*;

const DEVICE: &str = "/dev/cpu_dma_latency";

pub const KNOB: Knob = Knob {
    name: "cpu-dma-latency",
    about: "Longest wake-up that the machine tolerates of any CPU",
    evidence: "Documentation/power/pm_qos_interface.rst, From user space; Documentation/admin-guide/pm/cpuidle.rst",
    risk: "0us: no CPU rests: power and heat of the whole machine",
    items: Items::Found(|m| {
        if !m.root.has(DEVICE) {
            return Err(format!(
                "no {DEVICE}: this kernel is built without idle states"
            ));
        }
        let device = DEVICE.into();
        Ok(vec![Item::Holder { device }])
    }),
    mapping: Mapping::Same(microseconds),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::knobs::testing::Tree;

    #[test]
    fn a_holder_is_planned() {
        let tree = Tree::new(&[(DEVICE, "")]);
        tree.turns("cpu-dma-latency", "20us", DEVICE, "absent", "20");
        Tree::lacks("cpu-dma-latency", "0us", DEVICE);
    }
}
