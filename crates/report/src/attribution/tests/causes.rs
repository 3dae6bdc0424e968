//! Causes that tasks, states and queues show, and the tail that is explained by them.

use latlab_model::results::{ActionKind, Held};
use latlab_wire::trace::{Event, EventKind};

use super::scenes::{
    DEVICE, FROM, HOG, SENDER, TO, assert_named, capture, event, held_up, is_whole, passage,
    steady, switch, switch_with,
};
use crate::attribution::{Capture, Cause, Device, Survey, attribute, blame, conclude};

/// A frozen task looks asleep in the scheduler's events.
#[test]
fn a_node_that_stands_still_is_named_with_what_was_done_to_it() {
    let events = vec![
        switch(FROM, DEVICE, 1, 0, "swapper/1"),
        switch(TO, 0, 0, DEVICE, "forwarder"),
    ];
    let mut capture = capture(held_up(FROM, TO), events);
    let held = |node: &str| Held {
        node: node.into(),
        act: ActionKind::Migrate,
        from_ns: FROM,
        to_ns: TO,
    };
    let first = |capture: &Capture, node| {
        let mut survey = Survey::new(20);
        capture
            .passages
            .iter()
            .for_each(|packet| survey.add(packet));
        let mut pick = survey.pick();
        capture.passages.iter().for_each(|packet| pick.add(packet));
        let found = conclude(capture, &survey, &pick, Some(node));
        found.worst.iter().for_each(is_whole);
        (found.worst[0].first.clone(), found.worst[0].first_ns)
    };
    capture.held = vec![held("other")];
    assert_eq!(first(&capture, "device").0, Cause::Asleep(None));
    capture.held = vec![held("device")];
    let moved = Cause::Held(ActionKind::Migrate);
    let slowest = capture
        .passages
        .iter()
        .filter_map(|p| Some(p.out_ns? - p.in_ns))
        .max();
    let (cause, ns) = first(&capture, "device");
    assert_eq!(cause, moved);
    assert!(ns > slowest.unwrap() / 2, "{ns} of {slowest:?}");
}

#[test]
fn a_task_that_takes_the_cpu_is_named() {
    let device = || switch(1, 0, 0, DEVICE, "forwarder");
    let cause = |realtime| Cause::Waiting {
        task: "hog".into(),
        realtime,
    };
    let events = vec![
        device(),
        switch(FROM, DEVICE, 0, HOG, "hog"),
        switch(TO, HOG, 1, DEVICE, "forwarder"),
    ];
    assert_named(events, FROM, TO, &cause(false));
    let events = vec![
        device(),
        switch_with(FROM, DEVICE, 0, false, HOG, 49, "hog"),
        switch(TO, HOG, 1, DEVICE, "forwarder"),
    ];
    assert_named(events, FROM, TO, &cause(true));
}

#[test]
fn a_program_that_never_left_its_cpu_is_known_to_run_there() {
    let events = vec![
        switch(FROM, DEVICE, 0, HOG, "hog"),
        switch(TO, HOG, 1, DEVICE, "forwarder"),
    ];
    let all = attribute(&capture(held_up(FROM, TO), events), 1000);
    assert!(all.worst.iter().all(|one| {
        one.pieces
            .iter()
            .all(|piece| piece.cause != Cause::NotRecorded)
    }));
}

#[test]
fn stopping_and_throttling_differ_from_waiting() {
    let events = vec![
        switch(FROM, DEVICE, 4, 0, "swapper/1"),
        switch(TO, 0, 0, DEVICE, "forwarder"),
    ];
    assert_named(events, FROM, TO, &Cause::Stopped);
    let events = vec![
        switch_with(FROM, DEVICE, 0, true, HOG, 120, "hog"),
        switch(TO, HOG, 1, DEVICE, "forwarder"),
    ];
    assert_named(events, FROM, TO, &Cause::Throttled);
    // An older kernel does not report throttling, but a free CPU shows it.
    let events = vec![
        switch(FROM, DEVICE, 0, 0, "swapper/1"),
        switch(TO, 0, 0, DEVICE, "forwarder"),
    ];
    assert_named(events, FROM, TO, &Cause::Throttled);
}

#[test]
fn stolen_time_is_found_between_two_readings() {
    let mut passages = held_up(FROM, TO);
    for packet in &mut passages {
        let out = packet.out_ns.unwrap();
        packet.out_steal_ns = if out > FROM { (TO - FROM) as u32 } else { 0 };
    }
    // Steal lies at the end of the silence, here until the packet was out.
    let marker = event(1, 1, EventKind::FaultExit);
    let all = attribute(&capture(passages, vec![marker]), 1000);
    let held = all.worst.iter().filter(|one| one.latency_ns() > 50_000);
    for one in held {
        is_whole(one);
        assert_eq!(one.first, Cause::Steal, "{one:?}");
    }
}

#[test]
fn a_burst_without_interruption_is_a_queue_and_nothing_else() {
    let mut passages = steady(200);
    let mut free = 9_000_000;
    for n in 0..50 {
        passages.push(passage(200 + n, 9_000_001 + u64::from(n), 0));
    }
    passages.sort_by_key(|p| p.in_ns);
    for packet in passages.iter_mut().filter(|p| p.in_ns >= 9_000_000) {
        let out = packet.in_ns.max(free) + 5_000;
        packet.out_ns = Some(out);
        free = out;
    }
    let marker = event(1, 1, EventKind::FaultExit);
    let all = attribute(&capture(passages, vec![marker]), 1000);
    assert_eq!(all.worst[0].first, Cause::Queueing);
    assert_eq!(all.worst[0].behind, None);
    all.worst.iter().for_each(is_whole);
}

#[test]
fn an_idle_cpu_that_comes_back_is_idle_exit() {
    let mut wakeup = event(FROM, 0, EventKind::Wakeup);
    (wakeup.a, wakeup.b) = (DEVICE, 1);
    let mut softirq = [
        event(FROM - 500, 0, EventKind::SoftirqEntry),
        event(FROM + 50, 0, EventKind::SoftirqExit),
    ];
    softirq.iter_mut().for_each(|e| e.a = 3);
    let events = vec![
        switch(FROM - 50_000, DEVICE, 1, 0, "swapper/1"),
        softirq[0],
        wakeup,
        softirq[1],
        switch(FROM + 40_000, 0, 0, DEVICE, "forwarder"),
    ];
    let mut passages = steady(10);
    passages.push(passage(10, FROM - 1_000, 45_000));
    let all = attribute(&capture(passages, events), 1);
    is_whole(&all.worst[0]);
    assert_eq!(all.worst[0].first, Cause::IdleExit, "{:?}", all.worst[0]);
    assert_eq!(
        all.worst[0].pieces[0].cause,
        Cause::NotRecorded,
        "before any event of that CPU"
    );
    assert_eq!(all.worst[0].pieces[1].cause, Cause::Delivery);
}

#[test]
fn the_kernel_itself_is_a_device_without_a_task() {
    let mut passages = steady(100);
    let mut events = Vec::new();
    for packet in &mut passages {
        (packet.out_cpu, packet.out_task) = (0, SENDER);
        let mut entry = event(packet.in_ns, 0, EventKind::SoftirqEntry);
        entry.a = 3;
        let mut exit = event(packet.out_ns.unwrap() + 10, 0, EventKind::SoftirqExit);
        exit.a = 3;
        events.extend([entry, exit]);
    }
    let last = passages[99];
    passages[99].out_ns = Some(last.in_ns + 80_000);
    let mut irq = event(last.in_ns + 100, 0, EventKind::IrqEntry);
    irq.set_text("nvme");
    let end = event(last.in_ns + 79_000, 0, EventKind::IrqExit);
    let exit = events.pop().unwrap();
    events.extend([
        irq,
        end,
        Event {
            time_ns: last.in_ns + 80_010,
            ..exit
        },
    ]);
    let all = attribute(&capture(passages, events), 10);
    assert_eq!(all.device, Device::Kernel);
    is_whole(&all.worst[0]);
    assert_eq!(all.worst[0].first, Cause::HardIrq("nvme".into()));
}

#[test]
fn too_few_packets_beyond_a_percentile_give_no_blame() {
    let marker = event(1, 1, EventKind::FaultExit);
    let all = attribute(&capture(steady(200), vec![marker]), 1000);
    assert!(blame(&all, 0.99).is_none());
    assert!(blame(&all, 0.9).is_some());
    assert_eq!(blame(&all, 0.0).unwrap().explained, 200);
}
