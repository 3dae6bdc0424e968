//! The follower beside a synthetic kernel that writes rings and taps.

use std::sync::Arc;

use latlab_wire::trace::{EventKind, Switch, TEXT_BYTES, TapRecord, WHOLE_SOFTIRQ};

use super::*;
use crate::recorder::rings::HEAD_BYTES;
use crate::sys::Shared;
use crate::taps::follow::tests::Written;

const CPUS: usize = 2;
const SIZE: u64 = 1 << 11;
const PACKETS: usize = 20;
const DEVICE: u32 = 77;

/// Numbers that only look random (Marsaglia's xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
}

/// A machine with a device between two taps, and all its events.
struct Machine {
    rings: Rings,
    taps: [Written; 2],
    all: [Vec<Event>; CPUS],
    /// Latency and begin of every packet that came out.
    packets: Vec<(u64, u64)>,
    /// When the packets that are under way will come out.
    leaving: Vec<(u64, u32, u64)>,
    now_ns: u64,
    sequence: u32,
    dice: Dice,
    depth: [Vec<EventKind>; CPUS],
}

impl Machine {
    fn new(seed: u64) -> Machine {
        let bytes = CPUS * SIZE as usize * EVENT_BYTES;
        Machine {
            rings: Rings {
                cpus: vec![0, 1],
                size: SIZE,
                events: Arc::new(Shared::private(bytes)),
                state: Arc::new(Shared::private(CPUS * HEAD_BYTES)),
            },
            taps: [Written::new(1 << 17), Written::new(1 << 17)],
            all: Default::default(),
            packets: Vec::new(),
            leaving: Vec::new(),
            now_ns: 1_000_000,
            sequence: 0,
            dice: Dice(seed * 2 + 1),
            depth: Default::default(),
        }
    }

    fn follower(&self) -> Follower {
        let wanted = Wanted {
            packets: PACKETS,
            skip_ns: 0,
        };
        let taps = [self.taps[0].live.clone(), self.taps[1].live.clone()];
        Follower::new(self.rings.clone(), &taps, wanted)
    }

    /// Something happens, a few microseconds after the last.
    fn step(&mut self) {
        self.now_ns += 1 + self.dice.below(6_000);
        let now = self.now_ns;
        self.leaving.sort_unstable();
        while self.leaving.first().is_some_and(|leaving| leaving.0 <= now) {
            let (out_ns, sequence, in_ns) = self.leaving.remove(0);
            self.packets.push((out_ns - in_ns, in_ns));
            self.taps[1].write(packet(sequence, 1, out_ns));
        }
        if self.dice.below(3) == 0 {
            let rare = self.dice.below(40) == 0;
            let most = if rare { 1_200_000 } else { 30_000 };
            let latency_ns = 1 + self.dice.below(most);
            self.taps[0].write(packet(self.sequence, 0, now));
            // One in a while is lost.
            if self.dice.below(500) > 0 {
                self.leaving.push((now + latency_ns, self.sequence, now));
            }
            self.sequence += 1;
        }
        let cpu = self.dice.below(CPUS as u64) as usize;
        self.happen(cpu);
    }

    fn happen(&mut self, cpu: usize) {
        let ends = self.depth[cpu].last().copied();
        let kind = match (self.dice.below(8), ends) {
            (0 | 1, _) => EventKind::Switch,
            (2, _) => EventKind::Wakeup,
            (3, _) => EventKind::IrqEntry,
            (4, None) => EventKind::SoftirqEntry,
            (5, None) => EventKind::FaultEntry,
            (_, Some(EventKind::IrqEntry)) => EventKind::IrqExit,
            (_, Some(EventKind::FaultEntry)) => EventKind::FaultExit,
            (_, Some(_)) => EventKind::SoftirqExit,
            _ => EventKind::NapiPoll,
        };
        match kind {
            EventKind::Switch => self.depth[cpu].clear(),
            EventKind::IrqEntry | EventKind::SoftirqEntry | EventKind::FaultEntry => {
                self.depth[cpu].push(kind);
            }
            EventKind::IrqExit | EventKind::SoftirqExit | EventKind::FaultExit => {
                self.depth[cpu].pop();
            }
            _ => {}
        }
        let mut event = Event {
            time_ns: self.now_ns,
            steal_ns: 0,
            cpu: cpu as u16,
            kind,
            detail: 0,
            a: 3,
            b: 0,
            text: [0; TEXT_BYTES],
        };
        let task = |dice: &mut Dice| [DEVICE, 5, 6, 0][dice.below(4) as usize];
        if kind == EventKind::Switch {
            let switch = Switch {
                previous: task(&mut self.dice),
                state: 0,
                throttled: false,
                preempted: false,
                next: task(&mut self.dice),
                priority: 120,
                call: None,
            };
            event.a = switch.previous;
            (event.b, event.detail) = switch.packed();
        } else if matches!(
            kind,
            EventKind::Wakeup | EventKind::FaultEntry | EventKind::FaultExit
        ) {
            event.a = task(&mut self.dice);
        }
        let is_whole = kind == EventKind::NapiPoll && self.dice.below(2) == 0;
        self.write(event, is_whole);
    }

    fn write(&mut self, event: Event, is_whole: bool) {
        let (cpu, mut bytes) = (usize::from(event.cpu), [0; EVENT_BYTES]);
        bytes[..8].copy_from_slice(&event.time_ns.to_ne_bytes());
        bytes[16..18].copy_from_slice(&event.cpu.to_ne_bytes());
        bytes[18] = if is_whole {
            WHOLE_SOFTIRQ
        } else {
            event.kind as u8
        };
        bytes[19] = event.detail;
        bytes[20..24].copy_from_slice(&event.a.to_ne_bytes());
        bytes[24..32].copy_from_slice(&event.b.to_ne_bytes());
        let written = self.rings.written(cpu);
        let at = cpu * SIZE as usize + (written % SIZE) as usize;
        let head = cpu * HEAD_BYTES;
        self.rings.state.write(head, &(written + 1).to_ne_bytes());
        self.rings.events.write(at * EVENT_BYTES, &bytes);
        self.all[cpu].extend(Event::from_ring(&bytes).into_iter().flatten());
    }

    fn slowest(&self) -> Vec<Window> {
        let mut all = self.packets.clone();
        all.sort_unstable();
        let slowest = all.iter().rev().take(PACKETS);
        slowest
            .map(|&(latency, in_ns)| around(in_ns, latency))
            .collect()
    }

    /// The events that one pass over everything keeps.
    fn kept(&self, windows: &[Window]) -> Vec<Event> {
        let of = |events: &Vec<Event>| {
            let mut filter = WindowFilter::new(&[DEVICE].into());
            filter.look_for(&joined(windows.iter().copied()));
            events.iter().for_each(|event| filter.take(*event));
            filter.finish().events
        };
        self.all.iter().flat_map(of).collect()
    }
}

fn packet(sequence: u32, cpu: u16, time_ns: u64) -> TapRecord {
    TapRecord {
        time_ns,
        sequence,
        flow: 1,
        cpu,
        check: sequence ^ 9,
        task: DEVICE,
        ..TapRecord::default()
    }
}

#[test]
fn reading_in_turns_keeps_the_same_as_one_pass() {
    for seed in 1..20 {
        let mut machine = Machine::new(seed);
        let mut follower = machine.follower();
        for _ in 0..40 * SIZE {
            machine.step();
            if machine.dice.below(50) == 0 {
                // Sometimes it is done, sometimes it is not.
                let most = machine.dice.below(40);
                let mut turns = 0;
                while turns < most && follower.turn(machine.now_ns) {
                    turns += 1;
                }
            }
        }
        assert!(machine.rings.written(0) > 10 * SIZE);
        let windows = machine.slowest();
        let kept: usize = follower
            .readers
            .iter()
            .map(|reader| reader.filter.len())
            .sum();
        assert!(kept < 20 * SIZE as usize, "{kept}");
        let recorded = follower.finish(&windows, &[DEVICE].into());
        for watched in &recorded.gaps.cpus {
            let expected = Watched {
                cpu: watched.cpu,
                ..Watched::default()
            };
            assert_eq!(*watched, expected, "seed {seed}");
        }
        assert_eq!(recorded.events, machine.kept(&windows), "seed {seed}");
    }
}

#[test]
fn a_reader_that_comes_too_late_reports_the_loss() {
    let mut machine = Machine::new(3);
    let mut follower = machine.follower();
    let steps = |machine: &mut Machine, follower: &mut Follower, is_read: bool| {
        for _ in 0..8 * SIZE {
            machine.step();
            while is_read && follower.turn(machine.now_ns) {}
        }
    };
    steps(&mut machine, &mut follower, true);
    let read: Vec<u64> = follower.readers.iter().map(|reader| reader.next).collect();
    let known: Vec<u64> = follower
        .readers
        .iter()
        .map(|reader| reader.filter.known_ns())
        .collect();
    let missed_from = machine.now_ns;
    steps(&mut machine, &mut follower, false);
    let missed_to = machine.now_ns;
    steps(&mut machine, &mut follower, true);
    let windows = machine.slowest();
    let recorded = follower.finish(&windows, &[DEVICE].into());
    let mut blind: Vec<Window> = Vec::new();
    for (watched, (&read, &known)) in recorded.gaps.cpus.iter().zip(read.iter().zip(&known)) {
        let cpu = usize::from(watched.cpu);
        let &[(from, to)] = &watched.lost[..] else {
            panic!("{watched:?}");
        };
        assert_eq!((watched.complete_from_ns, from), (0, known));
        assert!(to > missed_from && to < missed_to, "{watched:?}");
        // Unread events are missing between the two; a record of several events counts once.
        let between = |event: &&Event| event.time_ns > from && event.time_ns < to;
        let missing = machine.all[cpu].iter().filter(between).count() as u64;
        assert!(watched.overwritten > 6 * SIZE / 2 && watched.overwritten <= missing);
        assert!(read > 0);
        blind.extend(&watched.lost);
        blind.extend(&watched.not_kept);
    }
    // All that is not told as missing is there.
    let known = without(&joined(windows), &joined(blind));
    let inside = |event: &Event| {
        known
            .iter()
            .any(|w| event.time_ns > w.0 && event.time_ns < w.1)
    };
    let there: Vec<Event> = recorded
        .events
        .iter()
        .copied()
        .filter(|e| inside(e))
        .collect();
    let right: Vec<Event> = machine
        .all
        .iter()
        .flatten()
        .copied()
        .filter(|e| inside(e))
        .collect();
    assert!(!right.is_empty());
    assert_eq!(there, right);
    let lost = |event: &&Event| {
        let of_cpu = &recorded.gaps.cpus[usize::from(event.cpu)].lost;
        of_cpu
            .iter()
            .any(|l| event.time_ns > l.0 && event.time_ns < l.1)
    };
    assert_eq!(recorded.events.iter().filter(lost).count(), 0);
}

#[test]
fn without_a_reader_the_newest_stay() {
    let mut machine = Machine::new(5);
    let follower = machine.follower();
    (0..6 * SIZE).for_each(|_| machine.step());
    let windows = machine.slowest();
    let recorded = follower.finish(&windows, &[DEVICE].into());
    for watched in &recorded.gaps.cpus {
        let written = machine.rings.written(usize::from(watched.cpu).min(1));
        assert_eq!(watched.overwritten, written - SIZE);
        assert!(watched.complete_from_ns > 0);
        assert!(
            watched.lost.is_empty() && watched.not_kept.is_empty(),
            "{watched:?} {windows:?}"
        );
    }
}

/// Windows beyond the limit: the slowest keep theirs.
#[test]
fn kept_events_are_bounded() {
    let mut machine = Machine::new(11);
    let mut follower = machine.follower();
    follower.most_kept = 300;
    for _ in 0..30 * SIZE {
        machine.step();
        while follower.turn(machine.now_ns) {
            let longest = follower
                .readers
                .iter()
                .map(|reader| reader.filter.len())
                .max();
            assert!(longest <= Some(300 + 3 * BATCH) || follower.wanted.packets == 1);
        }
    }
    assert!(follower.wanted.packets < PACKETS);
    let windows = machine.slowest();
    let recorded = follower.finish(&windows, &[DEVICE].into());
    let watched = &recorded.gaps.cpus[0];
    assert!(!watched.not_kept.is_empty(), "and so it is said");
    let slowest = joined([windows[0]]);
    assert_eq!(without(&slowest, &watched.not_kept), slowest);
}
