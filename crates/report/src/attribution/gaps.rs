//! Gaps in the record: time in them has no cause.
//!
//! Kernel events may be overwritten before they are read; the state after the gap is then unknown until the
//! next event. Or a packet's window was not kept, because the packet was not known to be among the slowest in
//! time; the state after that gap is known.

use std::collections::BTreeMap;

use latlab_wire::trace::joined;

use super::cause::Cause;
use super::span::Span;
use super::task_states::State;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    pub cpu: u16,
    pub from_ns: u64,
    pub to_ns: u64,
    /// Events were lost; otherwise they were not kept.
    pub is_lost: bool,
}

impl Gap {
    /// Gaps of a CPU: times (ns) in which events were lost, and in which they were not kept.
    #[must_use]
    pub fn of_cpu(cpu: u16, lost: &[(u64, u64)], not_kept: &[(u64, u64)]) -> Vec<Gap> {
        let lost = lost.iter().map(|&time| (time, true));
        let all = lost.chain(not_kept.iter().map(|&time| (time, false)));
        all.map(|((from_ns, to_ns), is_lost)| Gap {
            cpu,
            from_ns,
            to_ns,
            is_lost,
        })
        .collect()
    }
}

#[derive(Debug, Default)]
pub struct Gaps {
    /// On any CPU, sorted and disjoint.
    any: Vec<(u64, u64)>,
    /// Lost events, by CPU.
    lost: BTreeMap<u16, Vec<(u64, u64)>>,
}

impl Gaps {
    pub fn of(gaps: &[Gap]) -> Gaps {
        let mut lost: BTreeMap<u16, Vec<(u64, u64)>> = BTreeMap::new();
        for gap in gaps.iter().filter(|gap| gap.is_lost) {
            let of_cpu = lost.entry(gap.cpu).or_default();
            of_cpu.push((gap.from_ns, gap.to_ns));
        }
        Gaps {
            any: joined(gaps.iter().map(|h| (h.from_ns, h.to_ns))),
            lost: lost
                .into_iter()
                .map(|(cpu, all)| (cpu, joined(all)))
                .collect(),
        }
    }

    pub fn lost(&self, cpu: u16) -> &[(u64, u64)] {
        self.lost.get(&cpu).map_or(&[], Vec::as_slice)
    }

    /// Whether events between two instants were lost, on any CPU.
    pub fn is_lost(&self, from: u64, to: u64) -> bool {
        let of_cpu = |gaps: &Vec<(u64, u64)>| {
            let next = gaps.partition_point(|gap| gap.1 <= from);
            gaps.get(next).is_some_and(|gap| gap.0 < to)
        };
        self.lost.values().any(of_cpu)
    }

    /// Gaps between two instants, cut to them, in order.
    pub fn between(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
        let next = self.any.partition_point(|gap| gap.1 <= from);
        let inside = self.any[next..].iter().take_while(move |gap| gap.0 < to);
        inside.map(move |gap| (gap.0.max(from), gap.1.min(to)))
    }

    /// Replaces the cause of spans in gaps by `NotRecorded`.
    pub fn mask_spans(&self, spans: Vec<Span>) -> Vec<Span> {
        if self.any.is_empty() {
            return spans;
        }
        let mut all = Vec::new();
        for span in spans {
            let gaps = self.between(span.start_ns, span.end_ns);
            let parts = gaps.map(|(from, to)| (from, to, Cause::NotRecorded, span.cpu));
            span.push_divided(parts, &mut all);
        }
        all
    }

    /// Replaces a task's state from a loss of events on by `Unknown`: until the next event, or until a packet
    /// comes out in it. `outs` are times and CPUs of packets, in order.
    pub fn invalidate_states(
        &self,
        states: Vec<(u64, State)>,
        outs: &[(u64, u16)],
    ) -> Vec<(u64, State)> {
        if self.lost.is_empty() {
            return states;
        }
        let mut all = Vec::new();
        for (index, &(since, state)) in states.iter().enumerate() {
            let until = states.get(index + 1).map_or(u64::MAX, |next| next.0);
            let (mut at, mut now) = (since, state);
            all.push((at, now));
            while let Some((from, to)) = self.first_loss(now, at, until) {
                all.push((from.max(at), State::Unknown));
                let next = outs.partition_point(|out| out.0 < to.max(at));
                let Some(&(out, cpu)) = outs.get(next).filter(|out| out.0 < until) else {
                    break;
                };
                (at, now) = (out, State::Running(cpu));
                all.push((at, now));
            }
        }
        // The last of several states at one instant holds.
        let later = |index: usize| all.get(index + 1).map(|next: &(u64, State)| next.0);
        let all = all.iter().enumerate();
        all.filter(|(index, (at, _))| later(*index) != Some(*at))
            .map(|(_, one)| *one)
            .collect()
    }

    /// The first loss that may have ended a state. A running task goes on until its own CPU has another
    /// event.
    fn first_loss(&self, state: State, from: u64, until: u64) -> Option<(u64, u64)> {
        let first = |gaps: &[(u64, u64)]| {
            let next = gaps.partition_point(|gap| gap.1 <= from);
            gaps.get(next).copied().filter(|gap| gap.0 < until)
        };
        match state {
            State::Unknown => None,
            State::Running(cpu) => first(self.lost(cpu)),
            _ => self.lost.values().filter_map(|all| first(all)).min(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(cpu: u16, from_ns: u64, to_ns: u64, is_lost: bool) -> Gap {
        Gap {
            cpu,
            from_ns,
            to_ns,
            is_lost,
        }
    }

    #[test]
    fn spans_in_a_gap_have_no_cause() {
        let gaps = Gaps::of(&[gap(1, 20, 30, false), gap(0, 25, 40, true)]);
        let spans = vec![
            Span::new(10, 22, Cause::Running, Some(1)),
            Span::new(22, 60, Cause::Tick, Some(1)),
        ];
        let expected = [
            Span::new(10, 20, Cause::Running, Some(1)),
            Span::new(20, 40, Cause::NotRecorded, Some(1)),
            Span::new(40, 60, Cause::Tick, Some(1)),
        ];
        assert_eq!(gaps.mask_spans(spans), expected);
    }

    #[test]
    fn a_state_is_unknown_from_a_loss_to_the_next_event() {
        let gaps = Gaps::of(&[gap(0, 100, 150, true), gap(1, 300, 320, true)]);
        let (asleep, running) = (State::Asleep(None), State::Running(1));
        let all = |states: &[(u64, State)], outs: &[(u64, u16)]| {
            gaps.invalidate_states(states.to_vec(), outs)
        };
        // Only the task's own CPU can end its running.
        let states = [(10, asleep), (50, running), (200, asleep), (250, running)];
        let invalidated = [
            (10, asleep),
            (50, running),
            (200, asleep),
            (250, running),
            (300, State::Unknown),
        ];
        assert_eq!(all(&states, &[]), invalidated);
        assert_eq!(
            all(&[(250, running)], &[(310, 1), (330, 1), (340, 1)]),
            [(250, running), (300, State::Unknown), (330, running)]
        );
        // Woken where events were lost, the task may have run since.
        assert_eq!(
            all(&[(90, asleep), (180, running)], &[]),
            [
                (90, asleep),
                (100, State::Unknown),
                (180, running),
                (300, State::Unknown)
            ]
        );
        assert_eq!(all(&[(120, asleep)], &[]), [(120, State::Unknown)]);
    }
}
