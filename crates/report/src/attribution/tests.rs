//! Attribution on made-up machines whose truth is known exactly.

use latlab_model::results::Hwlat;
use latlab_samples::Passage;
use latlab_wire::trace::{Event, EventKind, Switch, TEXT_BYTES, vector};

use super::*;

const DEVICE: u32 = 100;
const SENDER: u32 = 50;
const HOG: u32 = 200;

/// Packets that come on processor 0 every 100 µs and are carried on by a program on processor 1 that
/// takes 5 µs for each.
fn steady(count: u32) -> Vec<Passage> {
    (0..count)
        .map(|n| passage(n, u64::from(n) * 100_000 + 1_000_000, 5_000))
        .collect()
}

fn passage(sequence: u32, in_ns: u64, latency_ns: u64) -> Passage {
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

fn event(time_ns: u64, cpu: u16, kind: EventKind) -> Event {
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

fn switch(time_ns: u64, previous: u32, state: u16, next: u32, name: &str) -> Event {
    switch_with(time_ns, previous, state, false, next, 120, name)
}

fn switch_with(
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
    };
    event.a = previous;
    (event.b, event.detail) = switch.packed();
    event.set_text(name);
    event
}

fn capture(passages: Vec<Passage>, events: Vec<Event>) -> Capture {
    Capture {
        passages,
        events,
        watched: vec![(0, 0), (1, 0)],
        holes: Vec::new(),
        steal_known: true,
        hwlat: Vec::new(),
        unknown: Vec::new(),
    }
}

/// The packet that came first within an interruption, and one that came later.
fn held_up(from: u64, to: u64) -> Vec<Passage> {
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

fn is_whole(explained: &Explained) {
    let mut at = explained.passage.in_ns;
    for piece in &explained.pieces {
        assert_eq!(piece.start_ns, at, "{explained:?}");
        assert!(piece.end_ns > piece.start_ns);
        at = piece.end_ns;
    }
    assert_eq!(Some(at), explained.passage.out_ns, "{explained:?}");
}

/// Everything of the packets held up between the two instants must have this first cause, with the
/// interruption's full length.
fn assert_named(events: Vec<Event>, from: u64, to: u64, cause: &Cause) {
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

const FROM: u64 = 5_000_000;
const TO: u64 = 6_000_000;

#[test]
fn a_task_that_takes_the_processor_is_named() {
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
fn a_program_that_never_left_its_processor_is_known_to_run_there() {
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
    // An older kernel does not say so, but a free processor does.
    let events = vec![
        switch(FROM, DEVICE, 0, 0, "swapper/1"),
        switch(TO, 0, 0, DEVICE, "forwarder"),
    ];
    assert_named(events, FROM, TO, &Cause::Throttled);
}

#[test]
fn interrupts_are_named_by_what_they_are() {
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

/// A timer's interrupt that was due before it came: what work took longer meanwhile was its way in.
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
    // So long no interrupt is on its way: somebody kept it off.
    let (tick, unexplained) = named(900_000);
    assert!(tick < 26_000 && unexplained > 9_000, "{tick} {unexplained}");
}

/// A timer's interrupt every 5 µs, each so long.
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
    // 2 µs of each 5 are seen; the device's work is long done otherwise.
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

/// A worker that has the processor in the middle of a storm of interrupts is interrupted by it too.
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

/// The device itself had its processor in between.
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
fn what_a_program_sends_is_its_own_work() {
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

/// While interrupts follow each other closely, what the device sent is carried on when one of them ends:
/// the time is still the device's own, and the interrupts' where they made it long.
#[test]
fn what_a_program_sent_is_its_own_work_after_an_interrupt_too() {
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
fn stolen_time_is_found_between_two_readings() {
    let mut passages = held_up(FROM, TO);
    for packet in &mut passages {
        let out = packet.out_ns.unwrap();
        packet.out_steal_ns = if out > FROM { (TO - FROM) as u32 } else { 0 };
    }
    // What was stolen lies at the end of the silence, here until the packet was out.
    let marker = event(1, 1, EventKind::FaultExit);
    let all = attribute(&capture(passages, vec![marker]), 1000);
    let held = all.worst.iter().filter(|one| one.latency_ns() > 50_000);
    for one in held {
        is_whole(one);
        assert_eq!(one.first, Cause::Steal, "{one:?}");
    }
}

#[test]
fn long_work_that_nothing_interrupts_is_unexplained() {
    let marker = event(1, 1, EventKind::FaultExit);
    let all = attribute(&capture(held_up(FROM, TO), vec![marker]), 1000);
    let mut held = 0;
    for one in all.worst.iter().filter(|one| one.latency_ns() > 50_000) {
        is_whole(one);
        assert_eq!(one.first, Cause::Unexplained, "{one:?}");
        held += 1;
    }
    assert!(held > 5);
    let blame = blame(&all, 0.9).unwrap();
    assert!(blame.unexplained() > 0.8, "{blame:?}");
}

/// What interrupts this processor at just that time, seen before and after, has it; at another time, or on
/// another processor, it has not.
#[test]
fn long_work_at_the_time_of_what_is_underneath_is_that() {
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
        // What work usually takes is not counted to it.
        let off = (episode.start_ns.abs_diff(FROM), episode.end_ns.abs_diff(TO));
        assert!(off.0 < 20_000 && off.1 < 20_000, "{episode:?}");
        held += 1;
    }
    assert!(held > 5);
    assert!(blame(&all, 0.9).unwrap().unexplained() < 0.02);
    for (cpu, phase) in [(0, 0), (1, 5_000_000)] {
        let all = underneath(cpu, phase);
        let is_it = |one: &Explained| one.by_cause().contains_key(&cause);
        assert!(!all.worst.iter().any(is_it), "processor {cpu}, {phase}");
    }
}

#[test]
fn what_was_not_recorded_gets_no_cause() {
    let device = switch(1, 0, 0, DEVICE, "forwarder");
    // Nothing of the device's processor.
    let mut nothing = capture(held_up(FROM, TO), vec![device]);
    nothing.watched = vec![(0, 0)];
    // Or only what came after the ring was full.
    let mut late = nothing.clone();
    late.watched = vec![(0, 0), (1, TO + 1)];
    let mut empty = capture(held_up(FROM, TO), Vec::new());
    empty.watched.clear();
    // Or its windows were not kept, or what happened was lost and only its end was seen.
    let back = switch(TO, HOG, 0, DEVICE, "forwarder");
    let hog = switch(FROM, DEVICE, 0, HOG, "hog");
    let hole = |cpu, from_ns, to_ns, is_lost| Hole {
        cpu,
        from_ns,
        to_ns,
        is_lost,
    };
    let mut not_kept = capture(held_up(FROM, TO), vec![device, hog, back]);
    not_kept.holes = vec![hole(0, FROM - 1_000, TO + 1_000, false)];
    let mut lost = capture(held_up(FROM, TO), vec![device, back]);
    lost.holes = vec![hole(1, FROM - 10, FROM + 10, true)];
    for capture in [nothing, late, empty, not_kept, lost] {
        let all = attribute(&capture, 1000);
        for one in all.worst.iter().filter(|one| one.latency_ns() > 50_000) {
            is_whole(one);
            assert_eq!(one.first, Cause::NotRecorded, "{one:?}");
        }
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
fn an_idle_processor_that_comes_back_is_idle_exit() {
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
        "before any event of that processor"
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

/// A kernel that lacks some of the trace points: what they would have told stays unexplained, and is not
/// given to anything else.
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
            // Something was recorded, or nothing would be looked for at all.
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
