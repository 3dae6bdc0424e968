//! Each packet's time between its taps, cut along what the device was held up by.

use std::collections::BTreeMap;

use latlab_samples::Passage;

use super::server::{Episode, Server, Span, episodes, push};
use super::survey::Turn;
use super::{Cause, Device, MARGIN_NS};

/// An interrupt's way in and out is no event, and a virtual machine's costs exits on top: as much of the
/// work that follows an interrupt is counted to it, where work took longer than usual.
const WAY_NS: u64 = 5_000;

/// Pieces of one packet's time that are kept: five thousand packets of a full queue would else take gigabytes.
const MOST_PIECES: usize = 256;

/// A piece of a packet's time.
pub type Piece = Span;

/// One packet, explained.
#[derive(Debug, Clone)]
pub struct Explained {
    /// Its way.
    pub passage: Passage,
    /// Its time between the taps, without gap or overlap. Behind a long queue there are thousands: then
    /// neighbours are joined under the cause that had most of them, and only the sums are exact.
    pub pieces: Vec<Piece>,
    /// Time spent on each cause.
    costs: BTreeMap<Cause, u64>,
    /// What cost it most, a queue being counted to the interruption that let it build up.
    pub first: Cause,
    /// How much that is, in ns.
    pub first_ns: u64,
    /// That interruption as a whole, which may have begun before the packet came.
    pub episode: Option<Episode>,
    /// The interruption that built up the queue it was in.
    pub behind: Option<Cause>,
}

impl Explained {
    /// Time between the taps.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.passage.latency_ns().unwrap_or(0)
    }

    /// Time spent on each cause.
    #[must_use]
    pub fn by_cause(&self) -> BTreeMap<Cause, u64> {
        self.costs.clone()
    }
}

fn sums(pieces: &[Piece]) -> BTreeMap<Cause, u64> {
    let mut all: BTreeMap<Cause, u64> = BTreeMap::new();
    for piece in pieces {
        let length = piece.end_ns - piece.start_ns;
        match all.get_mut(&piece.cause) {
            Some(sum) => *sum += length,
            None => drop(all.insert(piece.cause.clone(), length)),
        }
    }
    all
}

/// As many pieces as are kept of one packet, at most.
fn coarse(pieces: Vec<Piece>) -> Vec<Piece> {
    if pieces.len() <= MOST_PIECES {
        return pieces;
    }
    let mut all = Vec::with_capacity(MOST_PIECES);
    for some in pieces.chunks(pieces.len().div_ceil(MOST_PIECES)) {
        let most = sums(some).into_iter().max_by_key(|&(_, ns)| ns);
        let ends = some.first().zip(some.last());
        if let (Some((first, last)), Some((cause, _))) = (ends, most) {
            let cpu = first
                .cpu
                .filter(|_| some.iter().all(|p| p.cpu == first.cpu));
            push(&mut all, Span::new(first.start_ns, last.end_ns, cause, cpu));
        }
    }
    all
}

/// The packets that are looked at, in the order of arrival.
pub struct Packets<'a> {
    pub all: Vec<&'a Passage>,
    /// The turn of each in the queue.
    pub turns: &'a [Turn],
    /// Work on one packet beyond this is not usual.
    pub usual_ns: u64,
}

/// Explains the packets at the positions `order`, in that order.
pub fn split(
    server: &Server<'_>,
    packets: &Packets<'_>,
    device: &Device,
    order: &[usize],
) -> Vec<Explained> {
    let mut explained: Vec<(usize, Explained)> = Vec::new();
    for (range, members) in ranges(&packets.all, order) {
        let stretch = Stretch::new(server, packets, device, range);
        for at in members {
            explained.push((at, stretch.explain(at)));
        }
    }
    let rank: BTreeMap<usize, usize> = order.iter().enumerate().map(|(i, &at)| (at, i)).collect();
    explained.sort_by_key(|(at, _)| rank.get(at).copied());
    explained.into_iter().map(|(_, one)| one).collect()
}

/// Stretches of time that are looked at, each with the packets in it that are to be explained.
fn ranges(packets: &[&Passage], order: &[usize]) -> Vec<((u64, u64), Vec<usize>)> {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    let mut all: Vec<((u64, u64), Vec<usize>)> = Vec::new();
    for at in sorted {
        let packet = packets[at];
        let from = packet.in_ns.saturating_sub(MARGIN_NS);
        let to = packet.out_ns.unwrap_or(packet.in_ns) + MARGIN_NS;
        match all.last_mut() {
            Some(((_, end), members)) if from <= *end => {
                *end = to.max(*end);
                members.push(at);
            }
            _ => all.push(((from, to), vec![at])),
        }
    }
    all
}

/// One stretch of time.
struct Stretch<'a> {
    server: &'a Server<'a>,
    packets: &'a Packets<'a>,
    device: &'a Device,
    /// What the device was held up by; of a kernel device nothing, it is asked packet by packet.
    spans: Vec<Span>,
    /// Where work on one packet took longer than usual, in order, and what that is counted to.
    unusual: Vec<(u64, u64, Cause)>,
    episodes: Vec<Episode>,
}

impl<'a> Stretch<'a> {
    fn new(
        server: &'a Server<'a>,
        packets: &'a Packets<'a>,
        device: &'a Device,
        (from, to): (u64, u64),
    ) -> Self {
        let spans = match device {
            Device::Task { .. } => server.of_task(from, to),
            Device::Kernel => Vec::new(),
        };
        let mut stretch = Stretch {
            server,
            packets,
            device,
            spans,
            unusual: Vec::new(),
            episodes: Vec::new(),
        };
        let begin = packets.all.partition_point(|p| p.in_ns < from);
        let end = packets.all.partition_point(|p| p.in_ns < to);
        // Each packet's own turn only: with the whole way of each, a long queue would be looked at once for
        // every packet in it.
        let mut all = Vec::new();
        for (at, packet) in packets.all.iter().enumerate().take(end).skip(begin) {
            if packet.out_ns.is_some_and(|out| out <= to) {
                let own = stretch.raw(at, stretch.own_from(at));
                stretch.find_unusual(at, &own);
                if *device == Device::Kernel {
                    all.extend(own);
                }
            }
        }
        stretch.unusual.sort_unstable();
        let held = match device {
            Device::Task { .. } => &stretch.spans,
            Device::Kernel => {
                all.sort_by_key(|span| (span.start_ns, span.end_ns));
                all.dedup();
                &all
            }
        };
        let mut named = Vec::new();
        for span in held {
            stretch.less_unusual(span, &mut named);
        }
        stretch.episodes = episodes(&named);
        stretch
    }

    /// A packet's time from `from` on, with all the device's work called running, and what came right
    /// before.
    fn raw(&self, at: usize, from: u64) -> Vec<Span> {
        let packet = self.packets.all[at];
        let out = packet.out_ns.unwrap_or(packet.in_ns);
        match self.device {
            Device::Task { .. } => {
                let mut pieces = self.server.delivery(packet, out);
                let begin = pieces.last().map_or(packet.in_ns, |last| last.end_ns);
                let from = from.max(begin);
                let first = self.spans.partition_point(|span| span.end_ns <= from);
                let before = first - usize::from(first > 0 && self.spans[first - 1].end_ns > begin);
                for span in self.spans[before..].iter().take_while(|s| s.start_ns < out) {
                    let (start, end) = (span.start_ns.max(begin), span.end_ns.min(out));
                    push(&mut pieces, span.within(start, end));
                }
                pieces
            }
            Device::Kernel => self.raw_in_kernel(packet, from, out),
        }
    }

    fn raw_in_kernel(&self, packet: &Passage, begin: u64, out: u64) -> Vec<Span> {
        let of = |cpu, from: u64, to| {
            let from = from.max(begin);
            match from < to {
                true => self.server.of_kernel(cpu, packet.in_task, from, to),
                false => Vec::new(),
            }
        };
        if packet.in_cpu == packet.out_cpu {
            return of(packet.in_cpu, packet.in_ns, out);
        }
        // It changes processors when the other begins to receive.
        let received = self.server.timelines.received.get(&packet.out_cpu);
        let over = received.and_then(|all| {
            let next = all.partition_point(|&(begin, _)| begin < packet.in_ns);
            all.get(next).map(|&(begin, _)| begin).filter(|&b| b < out)
        });
        let over = over.unwrap_or(packet.in_ns);
        let mut spans = of(packet.in_cpu, packet.in_ns, over);
        spans.extend(of(packet.out_cpu, over, out));
        spans
    }

    /// From when on the device was this packet's alone.
    fn own_from(&self, at: usize) -> u64 {
        let packet = self.packets.all[at];
        let out = packet.out_ns.unwrap_or(packet.in_ns);
        self.packets.turns[at].free_ns.clamp(packet.in_ns, out)
    }

    /// Notes where a packet's work was more than usual: after interrupts, and else at its end. `raw` is its
    /// own time.
    fn find_unusual(&mut self, at: usize, raw: &[Span]) {
        let own = self.own_from(at);
        let is_work = |span: &Span| {
            matches!(span.cause, Cause::Running | Cause::Delivery) && span.end_ns > own
        };
        let length = |span: &Span| span.end_ns - span.start_ns.max(own);
        let total: u64 = raw.iter().filter(|span| is_work(span)).map(length).sum();
        let mut excess = total.saturating_sub(self.packets.usual_ns);
        let mut rest: Vec<(u64, u64)> = Vec::new();
        let mut before: Option<&Cause> = None;
        for span in raw {
            if is_work(span) {
                let start = span.start_ns.max(own);
                let part = match before {
                    Some(cause) if cause.is_interrupt() => {
                        let part = excess.min(WAY_NS).min(span.end_ns - start);
                        if part > 0 {
                            self.unusual.push((start, start + part, cause.clone()));
                        }
                        part
                    }
                    _ => 0,
                };
                excess -= part;
                rest.push((start + part, span.end_ns));
            }
            before = Some(&span.cause);
        }
        for &(start, end) in rest.iter().rev() {
            let part = excess.min(end - start);
            if part > 0 {
                self.unusual.push((end - part, end, Cause::Unexplained));
            }
            excess -= part;
        }
    }

    /// Cuts what is unusual out of a span of work.
    fn less_unusual(&self, span: &Span, into: &mut Vec<Span>) {
        if !span.cause.is_ordinary() {
            push(into, span.clone());
            return;
        }
        let mut at = span.start_ns;
        let next = self
            .unusual
            .partition_point(|&(_, end, _)| end <= span.start_ns);
        let inside = self.unusual[next..]
            .iter()
            .take_while(|u| u.0 < span.end_ns);
        for (start, end, cause) in inside {
            push(into, span.within(at, (*start).clamp(at, span.end_ns)));
            let (from, to) = ((*start).max(at), (*end).min(span.end_ns));
            push(into, Span::new(from, to, cause.clone(), span.cpu));
            at = (*end).clamp(at, span.end_ns);
        }
        push(into, span.within(at, span.end_ns));
    }

    fn explain(&self, at: usize) -> Explained {
        let packet = self.packets.all[at];
        let own = self.own_from(at);
        let mut pieces = Vec::new();
        for span in self.raw(at, self.packets.all[at].in_ns) {
            let work = matches!(span.cause, Cause::Running);
            if work && span.start_ns < own {
                let cut = own.min(span.end_ns);
                let queueing = Span::new(span.start_ns, cut, Cause::Queueing, span.cpu);
                self.less_unusual(&queueing, &mut pieces);
                let rest = span.within(cut, span.end_ns);
                if rest.start_ns < rest.end_ns {
                    self.less_unusual(&rest, &mut pieces);
                }
            } else {
                self.less_unusual(&span, &mut pieces);
            }
        }
        let mut explained = Explained {
            passage: *packet,
            costs: sums(&pieces),
            pieces: coarse(pieces),
            first: Cause::NotRecorded,
            first_ns: 0,
            episode: None,
            behind: None,
        };
        self.name_first(at, &mut explained);
        explained
    }

    /// Finds what cost the packet most.
    fn name_first(&self, at: usize, explained: &mut Explained) {
        let mut costs = explained.by_cause();
        let out = explained.passage.out_ns.unwrap_or(0);
        let since = self.packets.turns[at].busy_ns;
        let queued = costs.get(&Cause::Queueing).copied().unwrap_or(0);
        let begin = self.episodes.iter();
        let before: Vec<&Episode> = begin
            .filter(|e| e.start_ns < out && e.end_ns > since)
            .collect();
        // A queue is never longer than the interruption that built it up, but for what came meanwhile.
        let origin = before
            .iter()
            .filter(|e| queued > 0 && e.active_ns * 2 >= queued)
            .max_by_key(|e| e.active_ns);
        if let Some(origin) = origin {
            costs.remove(&Cause::Queueing);
            *costs.entry(origin.cause.clone()).or_insert(0) += queued;
            explained.behind = Some(origin.cause.clone());
        }
        let most = costs.iter().max_by_key(|&(_, ns)| *ns);
        if let Some((cause, &ns)) = most {
            (explained.first, explained.first_ns) = (cause.clone(), ns);
            let same = before.iter().filter(|e| e.cause == *cause);
            explained.episode = same.max_by_key(|e| e.active_ns).map(|e| (*e).clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_way_is_kept_in_few_pieces_without_gap() {
        let cause = |at: u64| match at % 10 {
            0 => Cause::Tick,
            odd if odd % 2 == 1 => Cause::Running,
            _ => Cause::Queueing,
        };
        let piece = |at: u64| Span::new(at * 10, at * 10 + 10, cause(at), Some(1));
        let all: Vec<Piece> = (0..5_000).map(piece).collect();
        assert_eq!(sums(&all)[&Cause::Tick], 5_000);
        let few = coarse(all.clone());
        assert!(few.len() <= MOST_PIECES, "{}", few.len());
        assert_eq!((few[0].start_ns, few.last().unwrap().end_ns), (0, 50_000));
        assert!(few.windows(2).all(|two| two[0].end_ns == two[1].start_ns));
        assert_eq!(coarse(all[..9].to_vec()), all[..9], "few stay as they are");
    }
}
