//! The CPU of each endpoint; see [`Pin`] for why it is not left to the scheduler.
//!
//! Inside a guest the number is of a vCPU. Its threads on the host are placed by the lab's plan, or by the scheduler.

use latlab_model::spec::Pin;

use crate::context::Context;
use crate::nodes::Nodes;

/// CPUs of the two ends; `None` where the scheduler chooses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pins {
    pub sender: Option<u32>,
    pub receiver: Option<u32>,
}

impl Pins {
    pub fn of<N: Nodes>(context: &Context<'_, N>) -> Pins {
        Pins::between(context, context.sender(), context.receiver())
    }

    /// Both endpoints are in the sender's node, as for the floor.
    pub fn of_floor<N: Nodes>(context: &Context<'_, N>) -> Pins {
        Pins::between(context, context.sender(), context.sender())
    }

    /// `receiver` is the device under test. It chooses before the sender, so that it runs on the same CPU
    /// whether or not it has a dedicated one.
    pub fn of_device<N: Nodes>(context: &Context<'_, N>, device: &str) -> Pins {
        let swapped = Pins::between(context, device, context.sender());
        Pins {
            sender: swapped.receiver,
            receiver: swapped.sender,
        }
    }

    fn between<N: Nodes>(context: &Context<'_, N>, from: &str, to: &str) -> Pins {
        let (from, to) = (
            NodeCpus::of(context.lab, from),
            NodeCpus::of(context.lab, to),
        );
        choose(context.measurement.pin, &from, &to)
    }
}

pub(crate) fn argument(cpu: Option<u32>) -> Vec<String> {
    cpu.map_or(Vec::new(), |cpu| vec!["--cpu".into(), cpu.to_string()])
}

struct NodeCpus {
    /// The guest or the other machine whose CPUs these are; empty for CPUs of this host.
    machine: String,
    cpus: Vec<u32>,
}

impl NodeCpus {
    fn of<N: Nodes>(lab: &N, name: &str) -> NodeCpus {
        let node = lab.plan().node(name);
        let is_guest = node.is_some_and(|n| n.kind().is_guest());
        let (machine, usable) = lab.machine(name);
        let cpus = match node {
            Some(node) if is_guest => match lab.plan().quiet_inside(node) {
                Some(quiet) => quiet.iter().collect(),
                None => (0..node.vcpus()).collect(),
            },
            Some(node) => match &node.cpuset {
                Some(set) => set.iter().collect(),
                None => usable,
            },
            None => Vec::new(),
        };
        NodeCpus {
            // No host has a blank in its name.
            machine: match is_guest {
                true => format!("guest {name}"),
                false => machine,
            },
            cpus,
        }
    }
}

/// Takes the highest numbers first: the host's interrupts and kernel threads run on the lowest.
fn choose(pin: Pin, from: &NodeCpus, to: &NodeCpus) -> Pins {
    if pin == Pin::Free {
        return Pins::default();
    }
    let last = |cpus_of: &NodeCpus| cpus_of.cpus.iter().copied().max();
    if from.machine != to.machine {
        // On two machines, apart and together mean nothing.
        return Pins {
            sender: last(from),
            receiver: last(to),
        };
    }
    let common = || from.cpus.iter().filter(|c| to.cpus.contains(c)).max();
    let sender = match pin {
        Pin::Together => common().copied().or_else(|| last(from)),
        _ => last(from),
    };
    let other = || to.cpus.iter().copied().filter(|c| Some(*c) != sender).max();
    let receiver = match pin {
        Pin::Together => sender.filter(|c| to.cpus.contains(c)).or_else(|| last(to)),
        _ => other().or_else(|| last(to)),
    };
    Pins { sender, receiver }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus_of(machine: &str, cpus: &[u32]) -> NodeCpus {
        NodeCpus {
            machine: machine.into(),
            cpus: cpus.to_vec(),
        }
    }

    fn chosen(pin: Pin, from: &NodeCpus, to: &NodeCpus) -> (Option<u32>, Option<u32>) {
        let pins = choose(pin, from, to);
        (pins.sender, pins.receiver)
    }

    #[test]
    fn endpoints_are_apart_where_there_are_two_cpus() {
        let (all, one) = (cpus_of("", &[0, 1, 2, 3]), cpus_of("", &[0]));
        assert_eq!(chosen(Pin::Apart, &all, &all), (Some(3), Some(2)));
        assert_eq!(chosen(Pin::Apart, &one, &one), (Some(0), Some(0)));
        assert_eq!(chosen(Pin::Apart, &all, &one), (Some(3), Some(0)));
        assert_eq!(chosen(Pin::Apart, &one, &all), (Some(0), Some(3)));
        let (first, second) = (cpus_of("", &[0]), cpus_of("", &[1]));
        assert_eq!(chosen(Pin::Apart, &second, &first), (Some(1), Some(0)));
    }

    #[test]
    fn endpoints_are_together_where_possible() {
        let (all, low) = (cpus_of("", &[0, 1, 2, 3]), cpus_of("", &[0, 1]));
        assert_eq!(chosen(Pin::Together, &all, &low), (Some(1), Some(1)));
        let high = cpus_of("", &[2, 3]);
        assert_eq!(chosen(Pin::Together, &low, &high), (Some(1), Some(3)));
        assert_eq!(chosen(Pin::Free, &all, &low), (None, None));
    }

    #[test]
    fn vcpus_are_not_shared_with_the_host() {
        let (host, guest) = (cpus_of("", &[0, 1]), cpus_of("vm", &[0, 1]));
        assert_eq!(chosen(Pin::Apart, &host, &guest), (Some(1), Some(1)));
        assert_eq!(chosen(Pin::Apart, &guest, &guest), (Some(1), Some(0)));
    }
}
