//! Unseen and unrecorded time never gets a wrong cause.

use latlab_model::results::{Hwlat, SilentStalls};
use latlab_wire::trace::{Event, EventKind, Switch, vector};

use super::scenes::{DEVICE, FROM, HOG, TO, capture, event, held_up, is_whole, switch};
use crate::attribution::{Cause, Explained, Gap, attribute, blame};

#[test]
fn long_work_that_nothing_interrupts_is_the_devices_own_or_a_stall() {
    let marker = event(1, 1, EventKind::FaultExit);
    let watched = |cpu, longest_ns| {
        let mut one = capture(held_up(FROM, TO), vec![marker]);
        one.stalls = vec![SilentStalls {
            cpu,
            watched_ns: 20_000_000,
            lengths_ns: vec![longest_ns],
        }];
        one
    };
    let either = Cause::OwnOrStall { own_percent: 1 };
    for (capture, cause, unexplained) in [
        (watched(1, 900_000), Cause::OwnCode, 0.0..0.01),
        (watched(1, 1_100_000), either, 0.0..0.01),
        (watched(0, 900_000), Cause::Unexplained, 0.8..1.0),
    ] {
        let all = attribute(&capture, 1000);
        let mut held = 0;
        for one in all.worst.iter().filter(|one| one.latency_ns() > 50_000) {
            is_whole(one);
            assert_eq!(one.first, cause, "{one:?}");
            let episode = one.episode.as_ref().unwrap();
            // The median is known to three digits.
            assert!(episode.active_ns.abs_diff(TO - FROM) < 10, "{episode:?}");
            held += 1;
        }
        assert!(held > 5);
        let blame = blame(&all, 0.9).unwrap();
        assert!(unexplained.contains(&blame.unexplained()), "{blame:?}");
    }
}

/// The system call in which the device spends the time is named, and not one that is too short for it.
#[test]
fn a_slow_system_call_is_named() {
    let call = |end_ns, length: u64, number: u64, task| {
        let mut one = event(end_ns, 1, EventKind::Call);
        (one.a, one.b) = (task, number << 48 | length);
        one
    };
    let named = |events: Vec<Event>| {
        let mut one = capture(held_up(FROM, TO), events);
        one.calls.insert(318, "getrandom".into());
        one.stalls = vec![SilentStalls {
            cpu: 1,
            watched_ns: 20_000_000,
            lengths_ns: vec![400_000],
        }];
        let all = attribute(&one, 1000);
        all.worst.iter().for_each(is_whole);
        all.worst[0].first.clone()
    };
    let slow = call(TO, TO - FROM, 318, DEVICE);
    let by_name = Cause::SystemCall("getrandom".into());
    assert_eq!(named(vec![slow]), by_name);
    let short = call(FROM + 50_000, 40_000, 44, DEVICE);
    assert_eq!(named(vec![short, slow]), by_name);
    assert_eq!(named(vec![short]), Cause::OwnCode);
    let unnamed = Cause::SystemCall("number 44".into());
    assert_eq!(named(vec![call(TO, TO - FROM, 44, DEVICE)]), unnamed);
    let of_another = call(TO, TO - FROM, 318, HOG);
    assert_eq!(named(vec![of_another]), Cause::OwnCode);
}

/// Another task has the CPU in the midst of a system call: the call's parts before and after it are one cause.
#[test]
fn a_system_call_is_one_cause_though_it_is_preempted() {
    let call = |end_ns, length: u64| {
        let mut one = event(end_ns, 1, EventKind::Call);
        (one.a, one.b) = (DEVICE, 318 << 48 | length);
        one
    };
    let (out, back) = (FROM + 300_000, FROM + 500_000);
    let first = call(out, 300_000);
    let others = [
        switch(1, 0, 0, DEVICE, "forwarder"),
        switch(out, DEVICE, 0, HOG, "hog"),
        switch(back, HOG, 0, DEVICE, "forwarder"),
        call(TO, TO - back),
    ];
    let explained = |first: Option<Event>| {
        let mut events = others.to_vec();
        events.extend(first);
        events.sort_by_key(|event| event.time_ns);
        let mut one = capture(held_up(FROM, TO), events);
        one.calls.insert(318, "getrandom".into());
        one.stalls = vec![SilentStalls {
            cpu: 1,
            watched_ns: 20_000_000,
            lengths_ns: vec![100_000],
        }];
        attribute(&one, 1000).worst[0].clone()
    };
    let by_name = Cause::SystemCall("getrandom".into());
    let (whole, without) = (explained(Some(first)), explained(None));
    for one in [&whole, &without] {
        is_whole(one);
        assert_eq!(one.first, by_name, "{one:?}");
    }
    let length = |one: &Explained| one.episode.as_ref().unwrap().active_ns;
    assert!(length(&whole).abs_diff(800_000) < 10_000, "{whole:?}");
    assert!(length(&without).abs_diff(500_000) < 10_000, "{without:?}");
}

/// A device that blocks is asleep in its system call.
#[test]
fn the_call_in_which_the_device_sleeps_is_named() {
    let asleep = |call, known: bool| {
        let mut off = switch(FROM, DEVICE, 1, 0, "swapper/1");
        let switch_off = Switch {
            call,
            ..off.switch()
        };
        (off.b, off.detail) = switch_off.packed();
        let mut wakeup = event(TO, 1, EventKind::Wakeup);
        (wakeup.a, wakeup.b) = (DEVICE, 1);
        let back = switch(TO + 1, 0, 0, DEVICE, "forwarder");
        let mut one = capture(held_up(FROM, TO), vec![off, wakeup, back]);
        one.calls.extend(known.then(|| (202, "futex".to_string())));
        attribute(&one, 1000).worst[0].first.clone()
    };
    let cause = |name: &str| Cause::Asleep(Some(name.into()));
    assert_eq!(asleep(Some(202), true), cause("futex"));
    assert_eq!(asleep(Some(202), false), cause("number 202"));
    assert_eq!(asleep(None, true), Cause::Asleep(None));
}

/// A tick in the middle does not hide that the rest is one computation.
#[test]
fn own_time_around_an_interrupt_is_the_devices_too() {
    let at = FROM + 700_000;
    let mut tick = [
        event(at, 1, EventKind::VectorEntry),
        event(at + 4_000, 1, EventKind::VectorExit),
    ];
    tick.iter_mut()
        .for_each(|one| one.detail = vector::LOCAL_TIMER);
    let mut one = capture(held_up(FROM, TO), tick.to_vec());
    one.stalls = vec![SilentStalls {
        cpu: 1,
        watched_ns: 20_000_000,
        lengths_ns: vec![400_000],
    }];
    let all = attribute(&one, 1000);
    for one in all.worst.iter().filter(|one| one.latency_ns() > 50_000) {
        is_whole(one);
        assert_eq!(one.first, Cause::OwnCode, "{one:?}");
        let off = one.episode.as_ref().unwrap().active_ns.abs_diff(TO - FROM);
        assert!(off < 10_000, "{one:?}");
    }
}

/// A periodic interruption seen before and after is blamed for work in its phase on its CPU, and for no
/// other.
#[test]
fn long_work_in_phase_with_a_periodic_stall_is_blamed_on_it() {
    let marker = event(1, 1, EventKind::FaultExit);
    let underneath = |cpu, phase: u64| {
        let mut one = capture(held_up(FROM, TO), vec![marker]);
        one.hwlat = vec![Hwlat {
            cpu,
            period_ns: 10_000_000,
            begins_ns: vec![FROM + phase, FROM + phase + 300_000_000],
            longest_ns: (TO - FROM) * 2 / 3,
        }];
        attribute(&one, 1000)
    };
    let cause = Cause::Hwlat { period_us: 10_000 };
    let all = underneath(1, 0);
    let mut held = 0;
    for one in all.worst.iter().filter(|one| one.latency_ns() > 50_000) {
        is_whole(one);
        assert_eq!(one.first, cause, "{one:?}");
        let episode = one.episode.as_ref().unwrap();
        // The usual part of the work is not blamed on it.
        let off = (episode.start_ns.abs_diff(FROM), episode.end_ns.abs_diff(TO));
        assert!(off.0 < 20_000 && off.1 < 20_000, "{episode:?}");
        held += 1;
    }
    assert!(held > 5);
    assert!(blame(&all, 0.9).unwrap().unexplained() < 0.02);
    for (cpu, phase) in [(0, 0), (1, 5_000_000)] {
        let all = underneath(cpu, phase);
        let is_it = |one: &Explained| one.by_cause().contains_key(&cause);
        assert!(!all.worst.iter().any(is_it), "CPU {cpu}, {phase}");
    }
}

#[test]
fn unrecorded_time_gets_no_cause() {
    let device = switch(1, 0, 0, DEVICE, "forwarder");
    // No event of the device's CPU.
    let mut nothing = capture(held_up(FROM, TO), vec![device]);
    nothing.watched = vec![(0, 0)];
    // Only events after the ring was full.
    let mut late = nothing.clone();
    late.watched = vec![(0, 0), (1, TO + 1)];
    let mut empty = capture(held_up(FROM, TO), Vec::new());
    empty.watched.clear();
    // Windows that were not kept, or lost events of which only the last was seen.
    let back = switch(TO, HOG, 0, DEVICE, "forwarder");
    let hog = switch(FROM, DEVICE, 0, HOG, "hog");
    let gap = |cpu, from_ns, to_ns, is_lost| Gap {
        cpu,
        from_ns,
        to_ns,
        is_lost,
    };
    let mut not_kept = capture(held_up(FROM, TO), vec![device, hog, back]);
    not_kept.gaps = vec![gap(0, FROM - 1_000, TO + 1_000, false)];
    let mut lost = capture(held_up(FROM, TO), vec![device, back]);
    lost.gaps = vec![gap(1, FROM - 10, FROM + 10, true)];
    for capture in [nothing, late, empty, not_kept, lost] {
        let all = attribute(&capture, 1000);
        for one in all.worst.iter().filter(|one| one.latency_ns() > 50_000) {
            is_whole(one);
            assert_eq!(one.first, Cause::NotRecorded, "{one:?}");
        }
    }
}

/// On a kernel without some of the tracepoints their time stays unexplained, and gets no other cause.
#[test]
fn a_missing_trace_point_gives_no_wrong_cause() {
    use EventKind::*;
    const GROUPS: [&[EventKind]; 6] = [
        &[Switch, Wakeup],
        &[IrqEntry, IrqExit],
        &[SoftirqEntry, SoftirqExit],
        &[VectorEntry, VectorExit, HrtimerEntry, HrtimerExit],
        &[FaultEntry, FaultExit],
        &[NapiPoll],
    ];
    let of = |kind: EventKind, a, detail, text: &str, at| {
        let mut event = event(at, 1, kind);
        (event.a, event.detail) = (a, detail);
        event.set_text(text);
        event
    };
    let hog = Cause::Waiting {
        task: "hog".into(),
        realtime: false,
    };
    let scenes = [
        (
            hog,
            vec![
                switch(FROM, DEVICE, 0, HOG, "hog"),
                switch(TO, HOG, 1, DEVICE, "forwarder"),
            ],
        ),
        (
            Cause::Stopped,
            vec![
                switch(FROM, DEVICE, 4, 0, "swapper/1"),
                switch(TO, 0, 0, DEVICE, "forwarder"),
            ],
        ),
        (
            Cause::HardIrq("virtio0".into()),
            vec![
                of(IrqEntry, 9, 0, "virtio0", FROM),
                of(IrqExit, 9, 0, "", TO),
            ],
        ),
        (
            Cause::Timer("timerfd_tmrproc".into()),
            vec![
                of(VectorEntry, 0, vector::LOCAL_TIMER, "", FROM),
                of(HrtimerEntry, 0, 0, "timerfd_tmrproc", FROM + 10),
                of(VectorExit, 0, vector::LOCAL_TIMER, "", TO),
            ],
        ),
        (
            Cause::SoftIrq(3),
            vec![
                of(VectorEntry, 0, vector::RESCHEDULE, "", FROM - 10),
                of(VectorExit, 0, vector::RESCHEDULE, "", FROM - 5),
                of(SoftirqEntry, 3, 0, "", FROM),
                of(NapiPoll, 64, 0, "", TO - 5),
                of(SoftirqExit, 3, 0, "", TO),
            ],
        ),
        (
            Cause::PageFault,
            vec![
                of(FaultEntry, DEVICE, 0, "", FROM),
                of(FaultExit, DEVICE, 0, "", TO),
            ],
        ),
    ];
    for (cause, events) in &scenes {
        for missing in GROUPS {
            let left = events.iter().filter(|event| !missing.contains(&event.kind));
            // One event, or the record would be empty.
            let mut left: Vec<Event> = left.copied().collect();
            left.insert(0, event(1, 1, FaultExit));
            let all = attribute(&capture(held_up(FROM, TO), left), 1000);
            for one in all.worst.iter().filter(|one| one.latency_ns() > 50_000) {
                is_whole(one);
                let honest = [cause, &Cause::Unexplained, &Cause::NotRecorded];
                assert!(honest.contains(&&one.first), "without {missing:?}: {one:?}");
            }
        }
    }
}
