//! Page faults: time after their end, or without one, is not theirs.

use latlab_wire::trace::{Event, EventKind, vector};

use super::scenes::{DEVICE, FROM, TO, capture, event, held_up, is_whole, switch};
use crate::attribution::{Cause, attribute};

fn fault(time_ns: u64, cpu: u16, kind: EventKind) -> Event {
    let mut event = event(time_ns, cpu, kind);
    event.a = DEVICE;
    event
}

fn on_cpu(cpu: u16, event: Event) -> Event {
    Event { cpu, ..event }
}

/// Long work of the device after these events is not blamed on a fault.
fn assert_unexplained(events: Vec<Event>) {
    let all = attribute(&capture(held_up(FROM, TO), events), 1000);
    let mut held = 0;
    for one in all.worst.iter().filter(|one| one.latency_ns() > 50_000) {
        is_whole(one);
        assert_eq!(one.first, Cause::Unexplained, "{one:?}");
        held += 1;
    }
    assert!(held > 5, "{held}");
}

#[test]
fn a_fault_that_ended_on_another_cpu_is_over() {
    let begin = FROM - 400_000;
    assert_unexplained(vec![
        switch(1, 0, 0, DEVICE, "forwarder"),
        fault(begin, 1, EventKind::FaultEntry),
        switch(begin + 10_000, DEVICE, 2, 0, "swapper/1"),
        on_cpu(0, switch(begin + 40_000, 0, 0, DEVICE, "forwarder")),
        fault(begin + 41_000, 0, EventKind::FaultExit),
        on_cpu(0, switch(begin + 42_000, DEVICE, 0, 0, "swapper/0")),
        switch(begin + 45_000, 0, 0, DEVICE, "forwarder"),
    ]);
}

/// A fault at a bad address ends by a signal or an error, which no event tells.
#[test]
fn a_fault_without_an_end_explains_nothing() {
    assert_unexplained(vec![
        switch(1, 0, 0, DEVICE, "forwarder"),
        fault(FROM - 400_000, 1, EventKind::FaultEntry),
    ]);
}

/// A sampler reads the device's stack from its interrupt, beyond the stack's end.
#[test]
fn a_read_that_fails_in_an_interrupt_is_no_fault() {
    let at = FROM - 400_000;
    let of_timer = |time_ns, kind| {
        let mut event = event(time_ns, 1, kind);
        event.detail = vector::LOCAL_TIMER;
        event
    };
    assert_unexplained(vec![
        switch(1, 0, 0, DEVICE, "forwarder"),
        of_timer(at, EventKind::VectorEntry),
        fault(at + 1_000, 1, EventKind::FaultEntry),
        of_timer(at + 5_000, EventKind::VectorExit),
    ]);
    // In a fault that has an end, it changes nothing.
    let tick = FROM + 300_000;
    let events = vec![
        switch(1, 0, 0, DEVICE, "forwarder"),
        fault(FROM, 1, EventKind::FaultEntry),
        of_timer(tick, EventKind::VectorEntry),
        fault(tick + 1_000, 1, EventKind::FaultEntry),
        of_timer(tick + 5_000, EventKind::VectorExit),
        fault(TO, 1, EventKind::FaultExit),
    ];
    let all = attribute(&capture(held_up(FROM, TO), events), 1000);
    let held = all.worst.iter().filter(|one| one.latency_ns() > 50_000);
    let by_fault = held.filter(|one| one.first == Cause::PageFault).count();
    assert!(by_fault > 5, "{by_fault}");
}
