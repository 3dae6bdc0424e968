//! Times of which something is missing in the record: nothing in them has a cause.
//!
//! Kernel events may have been overwritten before they were read; then it is not known either what was in
//! force afterwards, until the next event says it. Or a packet's window was not kept, because nobody knew in
//! time that it would be among the slowest; what came after is known.

use std::collections::BTreeMap;

use super::Cause;
use super::server::{Span, push};
use super::survey::joined;
use super::timeline::State;

/// A time of which something is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    pub cpu: u16,
    pub from_ns: u64,
    pub to_ns: u64,
    /// Events were lost; else they were not kept.
    pub is_lost: bool,
}

impl Hole {
    /// Those of a CPU: times (ns) in which events were lost, and in which they were not kept.
    #[must_use]
    pub fn of_processor(cpu: u16, lost: &[(u64, u64)], not_kept: &[(u64, u64)]) -> Vec<Hole> {
        let lost = lost.iter().map(|&time| (time, true));
        let all = lost.chain(not_kept.iter().map(|&time| (time, false)));
        all.map(|((from_ns, to_ns), is_lost)| Hole {
            cpu,
            from_ns,
            to_ns,
            is_lost,
        })
        .collect()
    }
}

/// All of them, ready to be asked.
#[derive(Debug, Default)]
pub struct Holes {
    /// On any CPU, in order and apart from each other.
    any: Vec<(u64, u64)>,
    /// Where events were lost, by CPU.
    lost: BTreeMap<u16, Vec<(u64, u64)>>,
}

impl Holes {
    pub fn of(holes: &[Hole]) -> Holes {
        let mut lost: BTreeMap<u16, Vec<(u64, u64)>> = BTreeMap::new();
        for hole in holes.iter().filter(|hole| hole.is_lost) {
            let of_cpu = lost.entry(hole.cpu).or_default();
            of_cpu.push((hole.from_ns, hole.to_ns));
        }
        Holes {
            any: joined(holes.iter().map(|h| (h.from_ns, h.to_ns)).collect()),
            lost: lost
                .into_iter()
                .map(|(cpu, all)| (cpu, joined(all)))
                .collect(),
        }
    }

    /// Those of one CPU in which events were lost, in order.
    pub fn lost(&self, cpu: u16) -> &[(u64, u64)] {
        self.lost.get(&cpu).map_or(&[], Vec::as_slice)
    }

    /// Those between two instants, cut to them, in order.
    pub fn between(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
        let next = self.any.partition_point(|hole| hole.1 <= from);
        let inside = self.any[next..].iter().take_while(move |hole| hole.0 < to);
        inside.map(move |hole| (hole.0.max(from), hole.1.min(to)))
    }

    /// Takes the cause from what lies in a hole.
    pub fn blind(&self, spans: Vec<Span>) -> Vec<Span> {
        if self.any.is_empty() {
            return spans;
        }
        let mut all = Vec::new();
        for span in spans {
            let mut at = span.start_ns;
            for (from, to) in self.between(span.start_ns, span.end_ns) {
                push(&mut all, span.within(at, from));
                push(&mut all, Span::new(from, to, Cause::NotRecorded, span.cpu));
                at = to;
            }
            push(&mut all, span.within(at, span.end_ns));
        }
        all
    }

    /// Takes back what is said of a task's state where events were lost: until the next event, or until a
    /// packet comes out in it. `outs` tell when and where, in order.
    pub fn doubt(&self, states: Vec<(u64, State)>, outs: &[(u64, u16)]) -> Vec<(u64, State)> {
        if self.lost.is_empty() {
            return states;
        }
        let mut all = Vec::new();
        for (index, &(since, state)) in states.iter().enumerate() {
            let until = states.get(index + 1).map_or(u64::MAX, |next| next.0);
            let (mut at, mut now) = (since, state);
            all.push((at, now));
            while let Some((from, to)) = self.first_against(now, at, until) {
                all.push((from.max(at), State::Unknown));
                let next = outs.partition_point(|out| out.0 < to.max(at));
                let Some(&(out, cpu)) = outs.get(next).filter(|out| out.0 < until) else {
                    break;
                };
                (at, now) = (out, State::Running(cpu));
                all.push((at, now));
            }
        }
        // Of what began at one instant, the last is what is known.
        let later = |index: usize| all.get(index + 1).map(|next: &(u64, State)| next.0);
        let all = all.iter().enumerate();
        all.filter(|(index, (at, _))| later(*index) != Some(*at))
            .map(|(_, one)| *one)
            .collect()
    }

    /// The first loss that may have ended a state. Who runs goes on until its own CPU says otherwise.
    fn first_against(&self, state: State, from: u64, until: u64) -> Option<(u64, u64)> {
        let first = |holes: &[(u64, u64)]| {
            let next = holes.partition_point(|hole| hole.1 <= from);
            holes.get(next).copied().filter(|hole| hole.0 < until)
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

    fn hole(cpu: u16, from_ns: u64, to_ns: u64, is_lost: bool) -> Hole {
        Hole {
            cpu,
            from_ns,
            to_ns,
            is_lost,
        }
    }

    #[test]
    fn nothing_in_a_hole_has_a_cause() {
        let holes = Holes::of(&[hole(1, 20, 30, false), hole(0, 25, 40, true)]);
        let spans = vec![
            Span::new(10, 22, Cause::Running, Some(1)),
            Span::new(22, 60, Cause::Tick, Some(1)),
        ];
        let expected = [
            Span::new(10, 20, Cause::Running, Some(1)),
            Span::new(20, 40, Cause::NotRecorded, Some(1)),
            Span::new(40, 60, Cause::Tick, Some(1)),
        ];
        assert_eq!(holes.blind(spans), expected);
    }

    #[test]
    fn a_state_is_in_doubt_until_something_tells_it() {
        let holes = Holes::of(&[hole(0, 100, 150, true), hole(1, 300, 320, true)]);
        let (asleep, running) = (State::Asleep, State::Running(1));
        let all = |states: &[(u64, State)], outs: &[(u64, u16)]| holes.doubt(states.to_vec(), outs);
        // Only its own CPU can end its running.
        let states = [(10, asleep), (50, running), (200, asleep), (250, running)];
        let doubted = [
            (10, asleep),
            (50, running),
            (200, asleep),
            (250, running),
            (300, State::Unknown),
        ];
        assert_eq!(all(&states, &[]), doubted);
        assert_eq!(
            all(&[(250, running)], &[(310, 1), (330, 1), (340, 1)]),
            [(250, running), (300, State::Unknown), (330, running)]
        );
        // Woken where events were lost, it may have run since.
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
