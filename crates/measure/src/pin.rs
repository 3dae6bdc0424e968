//! Which processor each end point runs on; see [`Pin`] for why that is not left to the scheduler.
//!
//! Inside a guest the number is of a virtual processor. Its threads on the host are placed by the
//! lab's plan, or by the scheduler.

use latlab_host::lab::Lab;
use latlab_model::spec::{NodeKind, Pin};
use rustix::thread::sched_getaffinity;

use crate::trial::Context;

/// Processors of the two ends; `None` where the scheduler chooses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pins {
    /// Of the end that sends first.
    pub sender: Option<u32>,
    /// Of the other.
    pub receiver: Option<u32>,
}

impl Pins {
    /// For the ends of a measurement.
    pub fn of(context: &Context<'_>) -> Pins {
        Pins::between(context, context.sender(), context.receiver())
    }

    /// For both ends in the sender's node, as the floor is measured.
    pub fn of_floor(context: &Context<'_>) -> Pins {
        Pins::between(context, context.sender(), context.sender())
    }

    /// For a device under test and the end that sends through it. The device chooses first, so that it is
    /// on the same processor whether or not it has one of its own.
    pub fn of_device(context: &Context<'_>, device: &str) -> Pins {
        let swapped = Pins::between(context, device, context.sender());
        Pins {
            sender: swapped.receiver,
            receiver: swapped.sender,
        }
    }

    fn between(context: &Context<'_>, from: &str, to: &str) -> Pins {
        let (from, to) = (Seat::of(context.lab, from), Seat::of(context.lab, to));
        choose(context.measurement.pin, &from, &to)
    }
}

/// `--cpu N`, or nothing.
pub(crate) fn argument(cpu: Option<u32>) -> Vec<String> {
    cpu.map_or(Vec::new(), |cpu| vec!["--cpu".into(), cpu.to_string()])
}

/// Where a node's programs may run.
struct Seat {
    /// The guest whose processors these are; the host's otherwise.
    guest: Option<String>,
    cpus: Vec<u32>,
}

impl Seat {
    fn of(lab: &Lab, name: &str) -> Seat {
        let node = lab.plan().nodes.iter().find(|n| n.name == name);
        let is_guest = node.is_some_and(|n| n.kind == NodeKind::Vm);
        let cpus = match node {
            Some(node) if is_guest => match lab.plan().quiet_inside(node) {
                Some(quiet) => quiet.iter().collect(),
                None => (0..node.vcpus()).collect(),
            },
            Some(node) => match &node.cpuset {
                Some(set) => set.iter().collect(),
                None => own_cpus(),
            },
            None => Vec::new(),
        };
        Seat {
            guest: is_guest.then(|| name.to_string()),
            cpus,
        }
    }
}

/// Processors of latlab itself, which a node that is not confined inherits.
fn own_cpus() -> Vec<u32> {
    sched_getaffinity(None).map_or(Vec::new(), |set| {
        (0..1024).filter(|c| set.is_set(*c as usize)).collect()
    })
}

/// The highest numbers first: the host's own interrupts and kernel threads live on the lowest.
fn choose(pin: Pin, from: &Seat, to: &Seat) -> Pins {
    if pin == Pin::Free {
        return Pins::default();
    }
    let last = |seat: &Seat| seat.cpus.iter().copied().max();
    if from.guest != to.guest {
        // Processors of two machines: neither apart nor together means anything.
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

    fn seat(guest: Option<&str>, cpus: &[u32]) -> Seat {
        Seat {
            guest: guest.map(str::to_string),
            cpus: cpus.to_vec(),
        }
    }

    fn chosen(pin: Pin, from: &Seat, to: &Seat) -> (Option<u32>, Option<u32>) {
        let pins = choose(pin, from, to);
        (pins.sender, pins.receiver)
    }

    #[test]
    fn ends_are_apart_where_there_are_two_processors() {
        let (all, one) = (seat(None, &[0, 1, 2, 3]), seat(None, &[0]));
        assert_eq!(chosen(Pin::Apart, &all, &all), (Some(3), Some(2)));
        assert_eq!(chosen(Pin::Apart, &one, &one), (Some(0), Some(0)));
        assert_eq!(chosen(Pin::Apart, &all, &one), (Some(3), Some(0)));
        assert_eq!(chosen(Pin::Apart, &one, &all), (Some(0), Some(3)));
        let (first, second) = (seat(None, &[0]), seat(None, &[1]));
        assert_eq!(chosen(Pin::Apart, &second, &first), (Some(1), Some(0)));
    }

    #[test]
    fn ends_are_together_where_they_may_be() {
        let (all, low) = (seat(None, &[0, 1, 2, 3]), seat(None, &[0, 1]));
        assert_eq!(chosen(Pin::Together, &all, &low), (Some(1), Some(1)));
        let high = seat(None, &[2, 3]);
        assert_eq!(chosen(Pin::Together, &low, &high), (Some(1), Some(3)));
        assert_eq!(chosen(Pin::Free, &all, &low), (None, None));
    }

    #[test]
    fn processors_of_a_guest_are_its_own() {
        let (host, guest) = (seat(None, &[0, 1]), seat(Some("vm"), &[0, 1]));
        assert_eq!(chosen(Pin::Apart, &host, &guest), (Some(1), Some(1)));
        assert_eq!(chosen(Pin::Apart, &guest, &guest), (Some(1), Some(0)));
    }
}
