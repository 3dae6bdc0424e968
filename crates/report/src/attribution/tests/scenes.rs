//! Scenes of a device: its packets, the events around it, and what an attribution of them must hold.

use std::collections::BTreeMap;

use latlab_samples::Passage;
use latlab_wire::trace::{Event, EventKind, Switch, TEXT_BYTES};

use crate::attribution::{Capture, Cause, Explained, attribute};

pub(super) const DEVICE: u32 = 100;
pub(super) const SENDER: u32 = 50;
pub(super) const HOG: u32 = 200;

pub(super) const FROM: u64 = 5_000_000;
pub(super) const TO: u64 = 6_000_000;

/// Packets that arrive on CPU 0 every 100 µs, forwarded by a program on CPU 1 that takes 5 µs for each.
pub(super) fn steady(count: u32) -> Vec<Passage> {
    (0..count)
        .map(|n| passage(n, u64::from(n) * 100_000 + 1_000_000, 5_000))
        .collect()
}

pub(super) fn passage(sequence: u32, in_ns: u64, latency_ns: u64) -> Passage {
    Passage {
        sequence,
        in_ns,
        out_ns: Some(in_ns + latency_ns),
        in_cpu: 0,
        out_cpu: 1,
        in_task: SENDER,
        out_task: DEVICE,
        ..Passage::default()
    }
}

pub(in crate::attribution) fn event(time_ns: u64, cpu: u16, kind: EventKind) -> Event {
    Event {
        time_ns,
        steal_ns: 0,
        cpu,
        kind,
        detail: 0,
        a: 0,
        b: 0,
        text: [0; TEXT_BYTES],
    }
}

pub(super) fn switch(time_ns: u64, previous: u32, state: u16, next: u32, name: &str) -> Event {
    switch_with(time_ns, previous, state, false, next, 120, name)
}

pub(super) fn switch_with(
    time_ns: u64,
    previous: u32,
    state: u16,
    throttled: bool,
    next: u32,
    priority: u16,
    name: &str,
) -> Event {
    let mut event = event(time_ns, 1, EventKind::Switch);
    let switch = Switch {
        previous,
        state,
        throttled,
        preempted: false,
        next,
        priority,
        call: None,
    };
    event.a = previous;
    (event.b, event.detail) = switch.packed();
    event.set_text(name);
    event
}

pub(super) fn capture(passages: Vec<Passage>, events: Vec<Event>) -> Capture {
    Capture {
        passages,
        events,
        watched: vec![(0, 0), (1, 0)],
        gaps: Vec::new(),
        held: Vec::new(),
        steal_known: true,
        hwlat: Vec::new(),
        stalls: Vec::new(),
        calls: BTreeMap::new(),
        unknown: Vec::new(),
    }
}

/// The packet that came first within an interruption, and one that came later.
pub(super) fn held_up(from: u64, to: u64) -> Vec<Passage> {
    let mut all = steady(200);
    let mut free = 0;
    for packet in &mut all {
        let begin = packet.in_ns.max(free);
        let mut out = begin + 5_000;
        if begin < to && out > from {
            out = to + (out - begin.max(from).min(out));
        }
        packet.out_ns = Some(out);
        free = out;
    }
    all
}

pub(super) fn is_whole(explained: &Explained) {
    let mut at = explained.passage.in_ns;
    for piece in &explained.pieces {
        assert_eq!(piece.start_ns, at, "{explained:?}");
        assert!(piece.end_ns > piece.start_ns);
        at = piece.end_ns;
    }
    assert_eq!(Some(at), explained.passage.out_ns, "{explained:?}");
}

/// All packets delayed between the two instants must have this first cause, with the interruption's full
/// length.
pub(super) fn assert_named(events: Vec<Event>, from: u64, to: u64, cause: &Cause) {
    let all = attribute(&capture(held_up(from, to), events), 1000);
    assert_eq!(all.worst.len(), 200);
    let mut held = 0;
    for one in &all.worst {
        is_whole(one);
        if one.latency_ns() > 50_000 {
            held += 1;
            assert_eq!(one.first, *cause, "{one:?}");
            let episode = one.episode.as_ref().unwrap();
            assert_eq!((episode.start_ns, episode.end_ns), (from, to), "{one:?}");
        }
    }
    assert!(held > 5, "{held}");
}
