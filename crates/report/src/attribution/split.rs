//! Divides each packet's time between its taps by the device's causes of delay.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use latlab_model::results::Hwlat;
use latlab_samples::Passage;
use latlab_wire::trace::WINDOW_MARGIN_NS;

use super::cause::Cause;
use super::device::Device;
use super::device_timeline::DeviceTimeline;
use super::prefix_sums::{Costs, Piece, PrefixSums, add_cost, push_piece};
use super::span::{Episode, Span, episodes, push};
use super::stalls::{Load, Odds, Silent};
use super::survey::Turn;

/// Entry and exit of an interrupt have no events, and in a virtual machine cost exits too. Where work took
/// longer than usual, up to this time after an interrupt is blamed on it.
const ENTRY_AND_EXIT_NS: u64 = 5_000;
/// Periodic interruptions may take this multiple of the longest that was seen.
const MAX_STRETCH: u64 = 2;

#[derive(Debug, Clone)]
pub struct Explained {
    pub passage: Passage,
    /// Time between the taps, without gap or overlap. In a long queue there would be thousands of pieces, so
    /// neighbours are joined and have parts.
    pub pieces: Vec<Piece>,
    costs: Costs,
    /// The cause with the most time. A queue counts to the interruption that let it build up.
    pub first: Cause,
    pub first_ns: u64,
    /// The first cause as a whole, which may have begun before the packet came.
    pub episode: Option<Episode>,
    /// The interruption that built up the packet's queue.
    pub behind: Option<Cause>,
    /// The function in which the device was, by sampled stacks.
    pub function: Option<String>,
}

impl Explained {
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.passage.latency_ns().unwrap_or(0)
    }

    #[must_use]
    pub fn by_cause(&self) -> Costs {
        self.costs.clone()
    }
}

pub struct Packets<'a> {
    pub all: Vec<&'a Passage>,
    /// The turn of each packet in the queue.
    pub turns: &'a [Turn],
    pub usual_ns: u64,
    pub load: Load,
}

/// Explains the packets at the positions `order`, in that order.
pub fn split(
    timeline: &DeviceTimeline<'_>,
    packets: &Packets<'_>,
    device: &Device,
    order: &[usize],
) -> Vec<Explained> {
    let read = |(range, members)| (Stretch::read(timeline, packets, device, range), members);
    let stretches: Vec<(Stretch<'_>, Vec<usize>)> =
        ranges(&packets.all, order).into_iter().map(read).collect();
    // The number of silent stretches of a length is one of the odds of each.
    let all = stretches.iter().flat_map(|(stretch, _)| &stretch.silent);
    let odds = Odds::new(timeline.stalls(), packets.load, all.map(Silent::longest_ns));
    let mut explained: Vec<(usize, Explained)> = Vec::new();
    for (mut stretch, members) in stretches {
        stretch.decide(&odds);
        explained.extend(stretch.explain(members));
    }
    let rank: BTreeMap<usize, usize> = order.iter().enumerate().map(|(i, &at)| (at, i)).collect();
    explained.sort_by_key(|(at, _)| rank.get(at).copied());
    explained.into_iter().map(|(_, one)| one).collect()
}

/// Stretches of time, each with the positions of the packets to be explained in it.
fn ranges(packets: &[&Passage], order: &[usize]) -> Vec<((u64, u64), Vec<usize>)> {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    let mut all: Vec<((u64, u64), Vec<usize>)> = Vec::new();
    for at in sorted {
        let packet = packets[at];
        let from = packet.in_ns.saturating_sub(WINDOW_MARGIN_NS);
        let to = packet.out_ns.unwrap_or(packet.in_ns) + WINDOW_MARGIN_NS;
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

struct Stretch<'a> {
    timeline: &'a DeviceTimeline<'a>,
    packets: &'a Packets<'a>,
    device: &'a Device,
    range: (u64, u64),
    /// Causes of delay of a program; empty for the kernel, whose depend on the packet.
    spans: Vec<Span>,
    /// Each packet's own turn, of the kernel.
    turns: Vec<Span>,
    /// The spans with unusual work cut out.
    sums: PrefixSums,
    /// Begin, end and cause of unusually long work, in order.
    unusual: Vec<(u64, u64, Cause)>,
    /// Unusually long work without an event.
    silent: Vec<Silent>,
    episodes: Vec<Episode>,
}

impl<'a> Stretch<'a> {
    /// The causes, but for those of silent stretches.
    fn read(
        timeline: &'a DeviceTimeline<'a>,
        packets: &'a Packets<'a>,
        device: &'a Device,
        (from, to): (u64, u64),
    ) -> Self {
        let spans = match device {
            Device::Task { .. } => timeline.task_spans(from, to),
            Device::Kernel => Vec::new(),
        };
        let mut stretch = Stretch {
            timeline,
            packets,
            device,
            range: (from, to),
            spans,
            turns: Vec::new(),
            sums: PrefixSums::new(Vec::new()),
            unusual: Vec::new(),
            silent: Vec::new(),
            episodes: Vec::new(),
        };
        let begin = packets.all.partition_point(|p| p.in_ns < from);
        let end = packets.all.partition_point(|p| p.in_ns < to);
        // Only the packet's own turn: with the whole passage of each, a long queue would be visited once for
        // every packet in it.
        for (at, packet) in packets.all.iter().enumerate().take(end).skip(begin) {
            if packet.out_ns.is_some_and(|out| out <= to) {
                let own = stretch.raw(at, stretch.own_from(at));
                stretch.find_unusual(at, &own);
                if *device == Device::Kernel {
                    stretch.turns.extend(own);
                }
            }
        }
        stretch
    }

    /// Names the causes of silent stretches too.
    fn decide(&mut self, odds: &Odds<'_>) {
        let silent = std::mem::take(&mut self.silent);
        let decided = silent.iter().flat_map(|one| odds.decide(one));
        self.unusual.extend(decided);
        self.unusual.sort_unstable();
        match self.device {
            Device::Task { .. } => {
                self.sums = self.sums_of(&self.spans);
                self.episodes = episodes(&self.sums.spans);
            }
            Device::Kernel => {
                let mut all = std::mem::take(&mut self.turns);
                all.sort_by_key(|span| (span.start_ns, span.end_ns));
                all.dedup();
                self.episodes = episodes(&self.sums_of(&all).spans);
            }
        }
    }

    fn sums_of(&self, spans: &[Span]) -> PrefixSums {
        let mut named = Vec::new();
        for span in spans {
            self.without_unusual(span, &mut named);
        }
        PrefixSums::new(named)
    }

    /// A packet's causes from `from` on, with all work of the device as running, and the span right before.
    fn raw(&self, at: usize, from: u64) -> Vec<Span> {
        let packet = self.packets.all[at];
        let out = packet.out_ns.unwrap_or(packet.in_ns);
        match self.device {
            Device::Task { .. } => {
                let mut pieces = self.timeline.delivery(packet, out);
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
        let mut spans = Vec::new();
        for (cpu, from, to) in self.legs(packet, out) {
            let from = from.max(begin);
            if from < to {
                spans.extend(self.timeline.kernel_spans(cpu, packet.in_task, from, to));
            }
        }
        spans
    }

    /// CPUs on which the kernel had a packet, with begin and end.
    fn legs(&self, packet: &Passage, out: u64) -> Vec<(u16, u64, u64)> {
        if packet.in_cpu == packet.out_cpu {
            return vec![(packet.in_cpu, packet.in_ns, out)];
        }
        // The packet changes CPUs when the other begins to receive.
        let received = self.timeline.timelines.received.get(&packet.out_cpu);
        let over = received.and_then(|all| {
            let next = all.partition_point(|&(begin, _)| begin < packet.in_ns);
            all.get(next).map(|&(begin, _)| begin).filter(|&b| b < out)
        });
        let over = over.unwrap_or(packet.in_ns);
        vec![
            (packet.in_cpu, packet.in_ns, over),
            (packet.out_cpu, over, out),
        ]
    }

    fn own_from(&self, at: usize) -> u64 {
        let packet = self.packets.all[at];
        let out = packet.out_ns.unwrap_or(packet.in_ns);
        self.packets.turns[at].free_ns.clamp(packet.in_ns, out)
    }

    /// Records where a packet's work took longer than usual. The excess is placed first after interrupts and
    /// while they were due, then where interruptions from underneath are expected, and last in the longest
    /// stretches without any. `raw` is the packet's own time.
    fn find_unusual(&mut self, at: usize, raw: &[Span]) {
        let own = self.own_from(at);
        let is_work = |span: &Span| {
            matches!(span.cause, Cause::Running | Cause::Delivery) && span.end_ns > own
        };
        let length = |span: &Span| span.end_ns - span.start_ns.max(own);
        let total: u64 = raw.iter().filter(|span| is_work(span)).map(length).sum();
        if total <= self.packets.usual_ns {
            return;
        }
        let mut excess = total - self.packets.load.median_ns;
        let mut rest: Vec<Span> = Vec::new();
        let mut before: Option<&Cause> = None;
        for (at, span) in raw.iter().enumerate() {
            if is_work(span) {
                let start = span.start_ns.max(own);
                let part = match before {
                    Some(cause) if cause.is_interrupt() => {
                        let part = excess.min(ENTRY_AND_EXIT_NS).min(span.end_ns - start);
                        if part > 0 {
                            self.unusual.push((start, start + part, cause.clone()));
                        }
                        part
                    }
                    _ => 0,
                };
                excess -= part;
                let mut end = span.end_ns;
                if let Some((due, cause)) = raw.get(at + 1).and_then(|next| self.due(next)) {
                    let part = excess.min(end - due.clamp(start + part, end));
                    end -= part;
                    excess -= part;
                    self.unusual.push((end, span.end_ns, cause));
                }
                rest.push(span.within(start + part, end));
            }
            before = Some(&span.cause);
        }
        let mut left: Vec<Span> = Vec::new();
        for span in &rest {
            let Some((from, to, cause)) = self.underneath(span) else {
                left.push(span.clone());
                continue;
            };
            let to = to.min(from + excess);
            excess -= to - from;
            self.unusual.push((from, to, cause));
            left.extend([
                span.within(span.start_ns, from),
                span.within(to, span.end_ns),
            ]);
        }
        self.add_silent(left, excess);
    }

    /// Records the rest of a packet's excess, in the longest of the stretches without an event first.
    fn add_silent(&mut self, mut left: Vec<Span>, mut excess: u64) {
        let mut parts: Vec<(Span, Option<u16>)> = Vec::new();
        for span in left.drain(..) {
            let mut at = span.start_ns;
            if span.cause == Cause::Running && *self.device != Device::Kernel {
                for (begin, end, number) in self.timeline.calls(span.start_ns, span.end_ns) {
                    // A damaged record may have calls that overlap.
                    let begin = begin.max(at);
                    if begin >= end {
                        continue;
                    }
                    parts.push((span.within(at, begin), None));
                    parts.push((span.within(begin, end), Some(number)));
                    at = end;
                }
            }
            parts.push((span.within(at, span.end_ns), None));
        }
        parts.sort_by_key(|(span, _)| (Reverse(span.end_ns - span.start_ns), span.start_ns));
        let mut silent = Silent {
            parts: Vec::new(),
            cpu: parts.first().and_then(|(span, _)| span.cpu),
        };
        for (span, call) in parts {
            let part = excess.min(span.end_ns - span.start_ns);
            if part == 0 {
                break;
            }
            let call = call.map(|number| self.timeline.call_name(number));
            silent.parts.push((span.end_ns - part, span.end_ns, call));
            excess -= part;
        }
        if !silent.parts.is_empty() {
            self.silent.push(silent);
        }
    }

    /// Due time of an interruption that is known to be late.
    fn due(&self, span: &Span) -> Option<(u64, Cause)> {
        let is_timer = matches!(span.cause, Cause::Tick | Cause::Timer(_));
        let cpu = span.cpu.filter(|_| is_timer)?;
        let due = self.timeline.due(cpu, span.start_ns)?;
        Some((due, span.cause.clone()))
    }

    /// Expected time of an interruption from underneath the kernel within this work.
    fn underneath(&self, work: &Span) -> Option<(u64, u64, Cause)> {
        let own = self.timeline.hwlat().iter();
        let own = own.filter(|one| Some(one.cpu) == work.cpu);
        own.filter_map(|one| {
            let begin = one.last_begin(work.end_ns)?;
            let from = begin.saturating_sub(Hwlat::JITTER_NS).max(work.start_ns);
            let longest_ns = one.longest_ns.saturating_mul(MAX_STRETCH);
            let to = begin.saturating_add(longest_ns).min(work.end_ns);
            (from < to).then(|| (from, to, Cause::from(one)))
        })
        .max_by_key(|(from, to, _)| to - from)
    }

    fn without_unusual(&self, span: &Span, into: &mut Vec<Span>) {
        if !span.cause.is_ordinary() {
            push(into, span.clone());
            return;
        }
        let next = self
            .unusual
            .partition_point(|&(_, end, _)| end <= span.start_ns);
        let inside = self.unusual[next..]
            .iter()
            .take_while(|u| u.0 < span.end_ns);
        let parts = inside.map(|(start, end, cause)| (*start, *end, cause.clone(), span.cpu));
        span.push_divided(parts, into);
    }

    fn explain(&self, members: Vec<usize>) -> Vec<(usize, Explained)> {
        match self.device {
            Device::Task { .. } => {
                let one = |at| (at, self.by_task(at));
                members.into_iter().map(one).collect()
            }
            Device::Kernel => self.by_kernel(members),
        }
    }

    fn by_task(&self, at: usize) -> Explained {
        let packet = self.packets.all[at];
        let out = packet.out_ns.unwrap_or(packet.in_ns);
        let mut delivery = Vec::new();
        for span in self.timeline.delivery(packet, out) {
            self.without_unusual(&span, &mut delivery);
        }
        let begin = delivery.last().map_or(packet.in_ns, |last| last.end_ns);
        self.conclude(at, delivery, &[(&self.sums, begin, out)])
    }

    /// The kernel's activity depends on the CPU and the sender, so packets that have these in common share
    /// sums.
    fn by_kernel(&self, members: Vec<usize>) -> Vec<(usize, Explained)> {
        let mut alike: BTreeMap<(u32, u16, u16), Vec<usize>> = BTreeMap::new();
        for at in members {
            let packet = self.packets.all[at];
            let key = (packet.in_task, packet.in_cpu, packet.out_cpu);
            alike.entry(key).or_default().push(at);
        }
        let mut all = Vec::new();
        for ((sender, in_cpu, out_cpu), members) in alike {
            let (from, to) = self.range;
            let on = |cpu| self.sums_of(&self.timeline.kernel_spans(cpu, sender, from, to));
            let mut all_sums = BTreeMap::from([(in_cpu, on(in_cpu))]);
            if out_cpu != in_cpu {
                all_sums.insert(out_cpu, on(out_cpu));
            }
            for at in members {
                let packet = self.packets.all[at];
                let out = packet.out_ns.unwrap_or(packet.in_ns);
                let legs = self.legs(packet, out);
                let legs = legs
                    .iter()
                    .map(|(cpu, from, to)| (&all_sums[cpu], *from, *to));
                all.push((at, self.conclude(at, Vec::new(), &legs.collect::<Vec<_>>())));
            }
        }
        all
    }

    /// One packet: its delivery by the kernel, and its legs with their sums.
    fn conclude(
        &self,
        at: usize,
        delivery: Vec<Span>,
        legs: &[(&PrefixSums, u64, u64)],
    ) -> Explained {
        let own = self.own_from(at);
        let (mut pieces, mut costs) = (Vec::new(), Costs::new());
        for span in delivery {
            add_cost(&mut costs, &span.cause, span.end_ns - span.start_ns);
            push_piece(&mut pieces, span.into());
        }
        for &(sums, from, to) in legs {
            let turn = own.clamp(from, to.max(from));
            for (from, to, queued) in [(from, turn, true), (turn, to, false)] {
                sums.costs(from, to, queued, &mut costs);
                sums.pieces(from, to, queued, &mut pieces);
            }
        }
        let mut explained = Explained {
            passage: *self.packets.all[at],
            costs,
            pieces,
            first: Cause::NotRecorded,
            first_ns: 0,
            episode: None,
            behind: None,
            function: None,
        };
        self.name_first(at, &mut explained);
        explained
    }

    fn name_first(&self, at: usize, explained: &mut Explained) {
        let mut costs = explained.by_cause();
        let out = explained.passage.out_ns.unwrap_or(0);
        let since = self.packets.turns[at].busy_ns;
        let queued = costs.get(&Cause::Queueing).copied().unwrap_or(0);
        let begin = self.episodes.iter();
        let before: Vec<&Episode> = begin
            .filter(|e| e.start_ns < out && e.end_ns > since)
            .collect();
        // A queue is never longer than the interruption that built it up, except by arrivals in the meantime.
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
