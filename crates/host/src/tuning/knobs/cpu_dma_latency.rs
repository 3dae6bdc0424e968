//! `cpu-dma-latency`: the longest time to wake up that anything on the machine tolerates: PM QoS of all
//! processors. The wish lasts as long as the device is open, so a process keeps it open
//! ([`crate::tuning::items::holder`]); it is journaled as ours and ended by revert.

use super::prelude::*;

const DEVICE: &str = "/dev/cpu_dma_latency";

/// See the module.
pub const KNOB: Knob = Knob {
    name: "cpu-dma-latency",
    about: "Longest wake-up that the machine tolerates of any processor",
    evidence: "Documentation/power/pm_qos_interface.rst, From user space; Documentation/admin-guide/pm/cpuidle.rst",
    risk: "0us: no processor rests: power and heat of the whole machine",
    items: |m| match m.root.has(DEVICE) {
        true => Ok(vec![Item::Holder {
            device: DEVICE.into(),
        }]),
        false => Err(format!(
            "no {DEVICE}: this kernel is built without idle states"
        )),
    },
    value: Value::Same(microseconds),
    moves: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_wanted() {
        let tree = Tree::new(&[(DEVICE, "")]);
        tree.turns("cpu-dma-latency", "20us", DEVICE, "absent", "20");
        Tree::lacks("cpu-dma-latency", "0us", DEVICE);
    }
}
