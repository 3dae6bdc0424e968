//! Prefix sums over the causes of a stretch of time, queried by thousands of packets that waited through it.
//!
//! A packet in a full queue waits through the service of all before it, and so do the next thousand: walking
//! all spans for each is quadratic in the queue. Therefore the spans get running sums by cause. A packet's
//! wait is a difference of two sums. Of the spans themselves it gets those that are long against its wait,
//! with the rest between them joined.

use std::collections::BTreeMap;

use super::cause::Cause;
use super::span::Span;

/// Spans that are returned unjoined.
const MAX_UNJOINED: usize = 24;
/// A span of at least this part of the wait counts as long, so there are at most as many.
const LONG_PART: u64 = 8;
/// The shortest indexed spans, as a power of two of ns.
const MIN_LEVEL: u32 = 9;

pub type Costs = BTreeMap<Cause, u64>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub start_ns: u64,
    pub end_ns: u64,
    /// The cause; of several joined, the one with the most time.
    pub cause: Cause,
    /// The CPU that was used or waited for, if known.
    pub cpu: Option<u16>,
    /// Time of each cause of joined spans; otherwise empty.
    pub parts: Vec<(Cause, u64)>,
}

impl From<Span> for Piece {
    fn from(span: Span) -> Self {
        Piece {
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            cause: span.cause,
            cpu: span.cpu,
            parts: Vec::new(),
        }
    }
}

/// Adds a piece, joined to the one before if both have the same single cause.
pub fn push_piece(pieces: &mut Vec<Piece>, piece: Piece) {
    if piece.start_ns >= piece.end_ns {
        return;
    }
    match pieces.last_mut() {
        Some(last)
            if last.end_ns == piece.start_ns
                && (&last.cause, last.cpu) == (&piece.cause, piece.cpu)
                && last.parts.is_empty()
                && piece.parts.is_empty() =>
        {
            last.end_ns = piece.end_ns;
        }
        _ => pieces.push(piece),
    }
}

pub fn add_cost(costs: &mut Costs, cause: &Cause, ns: u64) {
    match costs.get_mut(cause) {
        Some(sum) => *sum += ns,
        None if ns > 0 => drop(costs.insert(cause.clone(), ns)),
        None => {}
    }
}

/// One cause's spans: begin, end, and total length of those before.
type Sums = Vec<(u64, u64, u64)>;

fn sum_until(sums: &Sums, at: u64) -> u64 {
    match sums[..sums.partition_point(|&(start, ..)| start < at)].last() {
        Some(&(start, end, before)) => before + end.min(at) - start,
        None => 0,
    }
}

/// Spans without gap or overlap.
pub struct PrefixSums {
    pub spans: Vec<Span>,
    sums: BTreeMap<Cause, Sums>,
    /// By power of two from the shortest on, the indexes of the spans at least as long.
    long: Vec<Vec<usize>>,
}

impl PrefixSums {
    pub fn new(spans: Vec<Span>) -> PrefixSums {
        let mut sums: BTreeMap<Cause, Sums> = BTreeMap::new();
        let mut long: Vec<Vec<usize>> = Vec::new();
        for (number, span) in spans.iter().enumerate() {
            let all = match sums.get_mut(&span.cause) {
                Some(all) => all,
                None => sums.entry(span.cause.clone()).or_default(),
            };
            let before = all.last().map_or(0, |&(start, end, sum)| sum + end - start);
            all.push((span.start_ns, span.end_ns, before));
            let length = span.end_ns - span.start_ns;
            let levels = length
                .checked_ilog2()
                .map_or(0, |l| (l + 1).saturating_sub(MIN_LEVEL));
            for level in 0..levels as usize {
                if level == long.len() {
                    long.push(Vec::new());
                }
                long[level].push(number);
            }
        }
        PrefixSums { spans, sums, long }
    }

    /// Time of each cause between two instants. For a `queued` packet the device's work counts as queueing.
    pub fn costs(&self, from: u64, to: u64, queued: bool, into: &mut Costs) {
        for (cause, sums) in &self.sums {
            let ns = sum_until(sums, to) - sum_until(sums, from);
            add_cost(into, seen(cause, queued), ns);
        }
    }

    /// The time between two instants in few pieces, without gap or overlap.
    pub fn pieces(&self, from: u64, to: u64, queued: bool, into: &mut Vec<Piece>) {
        if from >= to {
            return;
        }
        let first = self.spans.partition_point(|span| span.end_ns <= from);
        let last = self.spans.partition_point(|span| span.start_ns < to);
        let one = |number: usize| {
            let span = &self.spans[number];
            let mut piece = Piece::from(span.within(span.start_ns.max(from), span.end_ns.min(to)));
            piece.cause = seen(&span.cause, queued).clone();
            piece
        };
        if last - first <= MAX_UNJOINED {
            (first..last).for_each(|number| push_piece(into, one(number)));
            return;
        }
        let mut at = from;
        for &number in self.long_ones((to - from) / LONG_PART, first, last) {
            let piece = one(number);
            self.joined(at, piece.start_ns, queued, into);
            at = piece.end_ns;
            push_piece(into, piece);
        }
        self.joined(at, to, queued, into);
    }

    fn long_ones(&self, length: u64, first: usize, last: usize) -> &[usize] {
        let power = u64::BITS - length.saturating_sub(1).leading_zeros();
        let level = power.saturating_sub(MIN_LEVEL) as usize;
        let all = self.long.get(level).map_or(&[][..], Vec::as_slice);
        let begin = all.partition_point(|&number| number < first);
        let end = all.partition_point(|&number| number < last);
        &all[begin..end]
    }

    fn joined(&self, from: u64, to: u64, queued: bool, into: &mut Vec<Piece>) {
        if from >= to {
            return;
        }
        let first = self.spans.partition_point(|span| span.end_ns <= from);
        let last = self.spans.partition_point(|span| span.start_ns < to);
        let mut costs = Costs::new();
        self.costs(from, to, queued, &mut costs);
        let mut parts: Vec<(Cause, u64)> = costs.into_iter().collect();
        parts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let Some((cause, _)) = parts.first().cloned() else {
            return;
        };
        let same = |at: usize| self.spans[at].cpu == self.spans[first].cpu;
        // The CPU of a thousand spans is not worth the search.
        let cpu = self.spans[first]
            .cpu
            .filter(|_| last - first <= MAX_UNJOINED && (first..last).all(same));
        if parts.len() == 1 {
            parts.clear();
        }
        push_piece(
            into,
            Piece {
                start_ns: from,
                end_ns: to,
                cause,
                cpu,
                parts,
            },
        );
    }
}

/// The device's activity as a queued packet sees it.
fn seen(cause: &Cause, queued: bool) -> &Cause {
    match cause {
        Cause::Running if queued => &Cause::Queueing,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work and ticks in turns of 10 ns, and one long interruption.
    fn sums_of_turns() -> PrefixSums {
        let mut spans = Vec::new();
        let mut at = 0;
        for number in 0..5_000 {
            let (cause, length) = match number {
                2_500 => (Cause::Steal, 9_000),
                odd if odd % 2 == 1 => (Cause::Running, 10),
                _ => (Cause::Tick, 10),
            };
            spans.push(Span::new(at, at + length, cause, Some(1)));
            at += length;
        }
        PrefixSums::new(spans)
    }

    fn sums(pieces: &[Piece]) -> Costs {
        let mut all = Costs::new();
        for piece in pieces {
            if piece.parts.is_empty() {
                add_cost(&mut all, &piece.cause, piece.end_ns - piece.start_ns);
            }
            piece
                .parts
                .iter()
                .for_each(|(cause, ns)| add_cost(&mut all, cause, *ns));
        }
        all
    }

    #[test]
    fn a_long_wait_is_few_pieces_that_hold_all_of_it() {
        let sums_of = sums_of_turns();
        let end = sums_of.spans.last().unwrap().end_ns;
        for (from, to) in [(0, end), (15, end - 7), (1_003, 30_000), (24_000, 26_500)] {
            let (mut pieces, mut costs) = (Vec::new(), Costs::new());
            sums_of.pieces(from, to, true, &mut pieces);
            sums_of.costs(from, to, true, &mut costs);
            assert!(
                pieces.len() <= 2 * LONG_PART as usize + 1,
                "{}",
                pieces.len()
            );
            assert_eq!(
                (pieces[0].start_ns, pieces.last().unwrap().end_ns),
                (from, to)
            );
            assert!(
                pieces
                    .windows(2)
                    .all(|two| two[0].end_ns == two[1].start_ns)
            );
            assert_eq!(sums(&pieces), costs);
            assert_eq!(costs.values().sum::<u64>(), to - from);
            assert!(!costs.contains_key(&Cause::Running), "it is in a queue");
        }
    }

    #[test]
    fn long_spans_are_not_joined() {
        let mut pieces = Vec::new();
        sums_of_turns().pieces(0, 50_000, false, &mut pieces);
        let alone = |piece: &&Piece| piece.cause == Cause::Steal && piece.parts.is_empty();
        assert_eq!(pieces.iter().filter(alone).count(), 1);
        assert_eq!(pieces[0].parts.len(), 2, "work and ticks");
    }

    #[test]
    fn few_spans_stay_as_they_are() {
        let sums_of = sums_of_turns();
        let mut pieces = Vec::new();
        sums_of.pieces(5, 95, false, &mut pieces);
        assert_eq!(pieces.len(), 10);
        assert_eq!((pieces[0].start_ns, pieces[9].end_ns), (5, 95));
        assert!(pieces.iter().all(|piece| piece.parts.is_empty()));
    }
}
