//! From what two taps saw to each packet's way between them.

use std::collections::HashMap;

use latlab_samples::Passage;
use latlab_wire::trace::TapRecord;

use super::Seen;

/// A time that does not fit 32 bits of nanoseconds: datasets of this field contain latencies that are
/// this much too long, because somebody's time stamp wrapped. Ours have 64 bits and cannot.
pub const WRAP_NS: u64 = 1 << 32;

/// What became of the packets between two taps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fates {
    /// Seen by the first tap.
    pub entered: u64,
    /// Of them, seen by the second.
    pub left: u64,
    /// Of them, not seen by the second.
    pub lost: u64,
    /// Seen again by either tap.
    pub duplicated: u64,
    /// Left after a later one of their flow.
    pub reordered: u64,
    /// Seen by the second tap and never by the first.
    pub unmatched: u64,
    /// Changed on the way.
    pub corrupted: u64,
    /// Between the taps for 2^32 ns or more, or for less than nothing: no latency at all.
    pub impossible: u64,
    /// Seen by a tap that had no room left.
    pub no_room: u64,
}

/// Matches what the taps before and behind a device saw. `hop` goes into every passage.
#[must_use]
pub fn matched(hop: u16, before: &Seen, behind: &Seen) -> (Vec<Passage>, Fates) {
    let mut fates = Fates {
        no_room: before.no_room + behind.no_room,
        ..Fates::default()
    };
    let mut entered: HashMap<(u16, u32), usize> = HashMap::with_capacity(before.records.len());
    let mut passages: Vec<Passage> = Vec::with_capacity(before.records.len());
    let mut checks: Vec<u32> = Vec::with_capacity(before.records.len());
    for record in &before.records {
        if entered.contains_key(&id(record)) {
            fates.duplicated += 1;
            continue;
        }
        entered.insert(id(record), passages.len());
        checks.push(record.check);
        passages.push(Passage {
            hop,
            flow: record.flow,
            sequence: record.sequence,
            in_ns: record.time_ns,
            out_ns: None,
            in_cpu: record.cpu,
            out_cpu: record.cpu,
            in_task: record.task,
            out_task: 0,
            in_steal_ns: record.steal_ns,
            out_steal_ns: 0,
            bytes: record.bytes,
        });
    }
    let mut last: HashMap<u16, u32> = HashMap::new();
    for record in &behind.records {
        let Some(&at) = entered.get(&id(record)) else {
            fates.unmatched += 1;
            continue;
        };
        let passage = &mut passages[at];
        if passage.out_ns.is_some() {
            fates.duplicated += 1;
            continue;
        }
        if record.check != checks[at] {
            fates.corrupted += 1;
            continue;
        }
        match record.time_ns.checked_sub(passage.in_ns) {
            Some(latency) if latency < WRAP_NS => {}
            _ => {
                fates.impossible += 1;
                continue;
            }
        }
        let latest = last.entry(record.flow).or_insert(record.sequence);
        fates.reordered += u64::from(record.sequence < *latest);
        *latest = record.sequence.max(*latest);
        passage.out_ns = Some(record.time_ns);
        passage.out_cpu = record.cpu;
        passage.out_task = record.task;
        passage.out_steal_ns = record.steal_ns;
        fates.left += 1;
    }
    fates.entered = passages.len() as u64;
    fates.lost = fates.entered - fates.left;
    (passages, fates)
}

fn id(record: &TapRecord) -> (u16, u32) {
    (record.flow, record.sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(flow: u16, sequence: u32, time_ns: u64) -> TapRecord {
        TapRecord {
            time_ns,
            sequence,
            flow,
            check: sequence * 3,
            ..TapRecord::default()
        }
    }

    fn seen(records: Vec<TapRecord>) -> Seen {
        Seen {
            records,
            no_room: 1,
            foreign: 5,
        }
    }

    #[test]
    fn every_packet_has_one_fate() {
        let before = seen(vec![
            record(1, 0, 100),
            record(1, 1, 200),
            record(2, 1, 210),
            record(1, 1, 220),
            record(1, 2, 300),
            record(1, 3, 400),
            record(1, 4, 500),
            record(1, 5, 600),
        ]);
        let mut changed = record(1, 3, 450);
        changed.check += 1;
        let behind = seen(vec![
            record(1, 1, 260),
            record(1, 0, 261),
            record(2, 1, 270),
            record(1, 1, 280),
            changed,
            record(1, 4, 499),
            record(1, 5, 600 + WRAP_NS),
            record(9, 9, 700),
        ]);
        let (passages, fates) = matched(3, &before, &behind);
        let expected = Fates {
            entered: 7,
            left: 3,
            lost: 4,
            duplicated: 2,
            reordered: 1,
            unmatched: 1,
            corrupted: 1,
            impossible: 2,
            no_room: 2,
        };
        assert_eq!(fates, expected);
        assert_eq!(passages.len(), 7);
        assert_eq!(passages[0].latency_ns(), Some(161));
        assert_eq!((passages[2].hop, passages[2].flow), (3, 2));
        assert_eq!(passages[3].out_ns, None);
    }
}
