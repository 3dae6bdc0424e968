//! Interrupts: which one, and for how long.

use latlab_wire::trace::{Event, EventKind, vector};

use super::scenes::{
    DEVICE, FROM, HOG, TO, assert_named, capture, event, held_up, is_whole, steady, switch,
};
use crate::attribution::{Cause, attribute};

#[test]
fn interrupts_are_named_by_kind() {
    let of = |kind: EventKind, a, detail, text: &str, at| {
        let mut event = event(at, 1, kind);
        (event.a, event.detail) = (a, detail);
        event.set_text(text);
        event
    };
    let irq = vec![
        of(EventKind::IrqEntry, 9, 0, "virtio0", FROM),
        of(EventKind::IrqExit, 9, 0, "", TO),
    ];
    assert_named(irq, FROM, TO, &Cause::HardIrq("virtio0".into()));
    let timer = |function: &str| {
        vec![
            of(EventKind::VectorEntry, 0, vector::LOCAL_TIMER, "", FROM),
            of(EventKind::HrtimerEntry, 0, 0, function, FROM + 10),
            of(EventKind::VectorExit, 0, vector::LOCAL_TIMER, "", TO),
        ]
    };
    assert_named(timer("tick_nohz_handle"), FROM, TO, &Cause::Tick);
    let cause = Cause::Timer("timerfd_tmrproc".into());
    assert_named(timer("timerfd_tmrproc"), FROM, TO, &cause);
    let soft = vec![
        of(EventKind::VectorEntry, 0, vector::RESCHEDULE, "", FROM - 10),
        of(EventKind::VectorExit, 0, vector::RESCHEDULE, "", FROM - 5),
        of(EventKind::SoftirqEntry, 3, 0, "", FROM),
        of(EventKind::NapiPoll, 64, 0, "", TO - 5),
        of(EventKind::SoftirqExit, 3, 0, "", TO),
    ];
    assert_named(soft, FROM, TO, &Cause::SoftIrq(3));
    let fault = vec![
        of(EventKind::FaultEntry, DEVICE, 0, "", FROM),
        of(EventKind::FaultExit, DEVICE, 0, "", TO),
    ];
    assert_named(fault, FROM, TO, &Cause::PageFault);
}

/// A timer interrupt that came late: work took longer meanwhile because of its entry.
#[test]
fn an_interrupts_way_in_is_its_own() {
    const WAY: u64 = 30_000;
    let named = |late: u32| {
        let mut entry = event(FROM + WAY, 1, EventKind::VectorEntry);
        (entry.detail, entry.a) = (vector::LOCAL_TIMER, late);
        let mut exit = event(FROM + WAY + 20_000, 1, EventKind::VectorExit);
        exit.detail = vector::LOCAL_TIMER;
        let packets = held_up(FROM, exit.time_ns);
        let all = attribute(&capture(packets, vec![entry, exit]), 1000);
        let costs = all.worst[0].by_cause();
        let of = |cause: &Cause| costs.get(cause).copied().unwrap_or(0);
        (of(&Cause::Tick), of(&Cause::Unexplained))
    };
    let (tick, unexplained) = named(WAY as u32 - 1_000);
    assert!(tick > 30_000 && unexplained < 2_000, "{tick} {unexplained}");
    let (tick, unexplained) = named(0);
    assert!(tick < 26_000 && unexplained > 9_000, "{tick} {unexplained}");
    // An interrupt's entry never takes that long: interrupts were kept off.
    let (tick, unexplained) = named(900_000);
    assert!(tick < 26_000 && unexplained > 9_000, "{tick} {unexplained}");
}

/// A timer interrupt of this length every 5 µs.
fn storm(length: u64) -> Vec<Event> {
    let one = |at| {
        let mut entry = event(at, 1, EventKind::VectorEntry);
        entry.detail = vector::LOCAL_TIMER;
        let mut timer = event(at + 100, 1, EventKind::HrtimerEntry);
        timer.set_text("timerfd_tmrproc");
        let mut exit = event(at + length, 1, EventKind::VectorExit);
        exit.detail = vector::LOCAL_TIMER;
        [entry, timer, exit]
    };
    (FROM..TO).step_by(5_000).flat_map(one).collect()
}

#[test]
fn many_short_interrupts_own_their_way_in_and_out() {
    // 2 µs of each 5 are seen; the device's work is done otherwise.
    let events = storm(2_000);
    let all = attribute(&capture(held_up(FROM, TO), events), 1000);
    let mut held = 0;
    for one in all.worst.iter().filter(|one| one.latency_ns() > 50_000) {
        is_whole(one);
        assert_eq!(one.first, Cause::Timer("timerfd_tmrproc".into()), "{one:?}");
        held += 1;
    }
    assert!(held > 5);
}

/// A worker that has the CPU in the middle of an interrupt storm is interrupted by it too.
#[test]
fn a_storm_upon_another_task_is_the_same_storm() {
    let mut events = vec![switch(1, 0, 0, DEVICE, "forwarder")];
    events.extend(storm(4_000));
    events.push(switch(FROM + 304_500, DEVICE, 0, HOG, "kworker/1:2"));
    events.push(switch(FROM + 654_500, HOG, 1, DEVICE, "forwarder"));
    events.sort_by_key(|event| event.time_ns);
    let all = attribute(&capture(held_up(FROM, TO), events), 1000);
    let mut held = 0;
    for one in all.worst.iter().filter(|one| one.latency_ns() > 50_000) {
        is_whole(one);
        assert_eq!(one.first, Cause::Timer("timerfd_tmrproc".into()), "{one:?}");
        let episode = one.episode.as_ref().unwrap();
        assert_eq!(episode.start_ns, FROM);
        assert!(episode.end_ns.abs_diff(TO) <= 5_000, "{episode:?}");
        held += 1;
    }
    assert!(held > 5);
}

#[test]
fn an_interruption_that_is_interrupted_is_one() {
    let events = vec![
        switch(1, 0, 0, DEVICE, "forwarder"),
        switch(FROM, DEVICE, 0, HOG, "hog"),
        switch(FROM + 400_000, HOG, 0, 300, "worker"),
        switch(FROM + 600_000, 300, 1, HOG, "hog"),
        switch(TO, HOG, 1, DEVICE, "forwarder"),
    ];
    let all = attribute(&capture(held_up(FROM, TO), events), 1);
    let episode = all.worst[0].episode.as_ref().unwrap();
    assert_eq!((episode.start_ns, episode.end_ns), (FROM, TO));
    assert_eq!(episode.active_ns, 800_000, "its own time only");
}

/// The device had its CPU in between.
#[test]
fn interruptions_with_the_device_at_work_in_between_are_two() {
    let events = vec![
        switch(1, 0, 0, DEVICE, "forwarder"),
        switch(FROM, DEVICE, 0, HOG, "hog"),
        switch(FROM + 300_000, HOG, 1, DEVICE, "forwarder"),
        switch(FROM + 450_000, DEVICE, 0, HOG, "hog"),
        switch(TO, HOG, 1, DEVICE, "forwarder"),
    ];
    let all = attribute(&capture(held_up(FROM, TO), events), 1);
    let episode = all.worst[0].episode.as_ref().unwrap();
    assert_eq!(
        (episode.start_ns, episode.active_ns),
        (FROM + 450_000, 550_000)
    );
}

#[test]
fn a_transmit_is_the_programs_own_work() {
    let mut events = Vec::new();
    for packet in steady(200) {
        let mut entry = event(packet.in_ns + 4_000, 1, EventKind::SoftirqEntry);
        entry.a = 3;
        let mut poll = event(packet.in_ns + 5_500, 1, EventKind::NapiPoll);
        poll.a = 1;
        let mut exit = event(packet.in_ns + 6_000, 1, EventKind::SoftirqExit);
        exit.a = 3;
        events.extend([entry, poll, exit]);
    }
    let all = attribute(&capture(steady(200), events), 1000);
    for one in &all.worst {
        is_whole(one);
        assert_eq!(one.first, Cause::Running);
        assert_eq!(one.pieces.len(), 1);
    }
}

/// In an interrupt storm the device's transmits are forwarded at the end of an interrupt. Their time is the
/// device's, and the interrupts' where these made it long.
#[test]
fn a_transmit_after_an_interrupt_is_the_programs_own_work() {
    let soft = |polled: u32| {
        let mut events = Vec::new();
        for packet in steady(200) {
            let at = packet.in_ns + 3_000;
            let mut entry = event(at, 1, EventKind::VectorEntry);
            entry.detail = vector::RESCHEDULE;
            let mut exit = event(at + 500, 1, EventKind::VectorExit);
            exit.detail = vector::RESCHEDULE;
            let mut begin = event(at + 600, 1, EventKind::SoftirqEntry);
            begin.a = 3;
            let mut poll = event(at + 2_400, 1, EventKind::NapiPoll);
            poll.a = polled;
            let mut end = event(at + 2_500, 1, EventKind::SoftirqExit);
            end.a = 3;
            events.extend([entry, exit, begin, poll, end]);
        }
        let all = attribute(&capture(steady(200), events), 1000);
        all.worst.iter().for_each(is_whole);
        all.worst[0].by_cause()
    };
    assert_eq!(soft(1).get(&Cause::SoftIrq(3)), None, "its own packet");
    assert_eq!(
        soft(4).get(&Cause::SoftIrq(3)),
        Some(&1_400),
        "of others too"
    );
}

#[test]
fn an_nmi_is_named_for_the_time_of_its_handler() {
    let mut nmi = event(TO, 1, EventKind::Nmi);
    nmi.b = TO - FROM;
    let marker = event(1, 1, EventKind::FaultExit);
    let all = attribute(&capture(held_up(FROM, TO), vec![marker, nmi]), 1000);
    let slowest = &all.worst[0];
    is_whole(slowest);
    assert_eq!(slowest.first, Cause::Nmi, "{slowest:?}");
}
