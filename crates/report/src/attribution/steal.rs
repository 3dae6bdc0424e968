//! Steal time: the hypervisor underneath had taken a CPU away.
//!
//! Every event and every tap record has its CPU's steal counter. The steal between two readings is exact in
//! length, not in place. It is placed at the end, because a CPU that comes back first handles the interrupts
//! that waited for it.

use std::collections::BTreeMap;

use latlab_samples::Passage;
use latlab_wire::trace::Event;

/// Steal in a silence that is longer than it by more than this has no known place.
const MAX_SILENCE_NS: u64 = 20_000_000;

/// Stretches of steal by CPU, sorted and disjoint.
pub type Stolen = BTreeMap<u16, Vec<(u64, u64)>>;

pub fn stolen(events: &[Event], packets: &[&Passage]) -> Stolen {
    // Packets have the low half only, so only that is compared.
    let mut readings: BTreeMap<u16, Vec<(u64, u32)>> = BTreeMap::new();
    for event in events {
        let reading = (event.time_ns, event.steal_ns as u32);
        readings.entry(event.cpu).or_default().push(reading);
    }
    for packet in packets {
        let into = readings.entry(packet.in_cpu).or_default();
        into.push((packet.in_ns, packet.in_steal_ns));
        if let Some(out) = packet.out_ns {
            let from = readings.entry(packet.out_cpu).or_default();
            from.push((out, packet.out_steal_ns));
        }
    }
    readings
        .into_iter()
        .map(|(cpu, mut readings)| {
            readings.sort_unstable();
            (cpu, stretches(&readings))
        })
        .collect()
}

/// Steal of a CPU-bound task's CPU: it lies in the task's gaps, in the longest first.
pub fn stolen_within(events: &[Event], cpu: u16, gaps: &[(u64, u64)]) -> Stolen {
    let of_cpu = events.iter().filter(|event| event.cpu == cpu);
    let readings: Vec<(u64, u64)> = of_cpu.map(|e| (e.time_ns, e.steal_ns)).collect();
    let mut all = Vec::new();
    for pair in readings.windows(2) {
        let ((before_ns, before), (after_ns, after)) = (pair[0], pair[1]);
        let mut taken = after.saturating_sub(before);
        if taken == 0 {
            continue;
        }
        let first = gaps.partition_point(|&(_, end)| end <= before_ns);
        let within = gaps[first..].iter().take_while(|gap| gap.0 < after_ns);
        let mut parts: Vec<(u64, u64)> = within
            .map(|&(begin, end)| (begin.max(before_ns), end.min(after_ns)))
            .collect();
        parts.sort_by_key(|&(begin, end)| std::cmp::Reverse(end - begin));
        for (begin, end) in parts {
            let part = taken.min(end - begin);
            if part == 0 {
                break;
            }
            all.push((end - part, end));
            taken -= part;
        }
    }
    all.sort_unstable();
    BTreeMap::from([(cpu, all)])
}

fn stretches(readings: &[(u64, u32)]) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    for pair in readings.windows(2) {
        let ((before_ns, before), (after_ns, after)) = (pair[0], pair[1]);
        let taken = u64::from(after.wrapping_sub(before));
        // Two readings of one instant may come in either order, which looks like a step back.
        let is_back = taken > u64::from(u32::MAX / 2);
        let left = (after_ns - before_ns).saturating_sub(taken);
        if taken == 0 || is_back || left > MAX_SILENCE_NS {
            continue;
        }
        all.push((after_ns.saturating_sub(taken).max(before_ns), after_ns));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_lies_at_the_end_and_is_no_longer_than_the_gap() {
        let readings = [(100, 0), (200, 30), (300, 30), (400, 500)];
        assert_eq!(stretches(&readings), [(170, 200), (300, 400)]);
    }

    #[test]
    fn the_counter_wraps_and_a_step_back_is_none() {
        assert_eq!(stretches(&[(0, u32::MAX - 4), (50, 5)]), [(40, 50)]);
        assert_eq!(stretches(&[(0, 7), (0, 5), (50, 7)]), [(48, 50)]);
    }

    #[test]
    fn steal_lies_where_the_task_did_not_run() {
        let event = |time_ns, steal_ns| Event {
            time_ns,
            steal_ns,
            cpu: 0,
            kind: latlab_wire::trace::EventKind::Nmi,
            detail: 0,
            a: 0,
            b: 0,
            text: [0; latlab_wire::trace::TEXT_BYTES],
        };
        let events = [event(0, 0), event(1_000, 130), event(2_000, 130)];
        let gaps = [(100, 120), (300, 400), (500, 530), (1_500, 1_600)];
        let stolen = stolen_within(&events, 0, &gaps);
        assert_eq!(stolen[&0], [(300, 400), (500, 530)]);
    }

    #[test]
    fn a_long_silence_tells_nothing() {
        assert_eq!(stretches(&[(0, 0), (MAX_SILENCE_NS + 901, 900)]), []);
        let most = (3 * MAX_SILENCE_NS, 3 * MAX_SILENCE_NS as u32 - 900);
        assert_eq!(
            stretches(&[(0, 0), most]),
            [(900, most.0)],
            "taken as a whole"
        );
    }
}
