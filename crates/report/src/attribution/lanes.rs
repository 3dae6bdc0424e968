//! Tasks and interrupts of each CPU, for drawing.

use latlab_samples::Passage;

use super::capture::Capture;
use super::cause::Cause;
use super::gaps::Gaps;
use super::steal::{self, Stolen};
use super::timeline::{Step, TapTimes, Timelines};

const NOT_KNOWN: &str = "not known";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    pub cpu: u16,
    /// Tasks, each from an instant on until the next.
    pub tasks: Vec<(u64, String)>,
    /// Interrupts: begin, end, name.
    pub upon: Vec<(u64, u64, String)>,
}

impl Lane {
    /// Marks a gap as not known; the lane ends at `end`.
    fn forget(&mut self, (from, to): (u64, u64), end: u64) {
        let until = self.tasks.partition_point(|&(at, _)| at <= to);
        let then = until.checked_sub(1).map(|last| self.tasks[last].1.clone());
        self.tasks.retain(|&(at, _)| at < from || at > to);
        let mut inside = vec![(from, NOT_KNOWN.into())];
        inside.extend(then.filter(|_| to < end).map(|task| (to, task)));
        let at = self.tasks.partition_point(|task| task.0 < from);
        self.tasks.splice(at..at, inside);
        self.upon = std::mem::take(&mut self.upon)
            .into_iter()
            .flat_map(|(begin, end, name)| {
                let before = (begin, end.min(from), name.clone());
                [before, (begin.max(to), end, name)]
            })
            .filter(|(begin, end, _)| begin < end)
            .collect();
    }
}

pub struct Lanes<'a> {
    timelines: Timelines,
    stolen: Stolen,
    gaps: Gaps,
    watched: &'a [(u16, u64)],
}

impl<'a> Lanes<'a> {
    /// Packets tell steal time too.
    #[must_use]
    pub fn new(capture: &'a Capture, packets: &[Passage]) -> Lanes<'a> {
        let packets: Vec<&Passage> = packets.iter().collect();
        let (marks, gaps) = (
            TapTimes::of(packets.iter().copied()),
            Gaps::of(&capture.gaps),
        );
        Lanes {
            timelines: Timelines::of(&capture.events, &marks, &gaps),
            gaps,
            stolen: steal::stolen(&capture.events, &packets),
            watched: &capture.watched,
        }
    }

    #[must_use]
    pub fn between(&self, from: u64, to: u64) -> Vec<Lane> {
        let lane = |&(cpu, complete_from): &(u16, u64)| {
            let timeline = self.timelines.cpus.get(&cpu)?;
            // Earlier events are incomplete.
            let from = from.max(complete_from);
            (from < to).then(|| self.lane(cpu, timeline.between(from, to), from, to))
        };
        self.watched.iter().filter_map(lane).collect()
    }

    fn lane(&self, cpu: u16, steps: &[Step], from: u64, to: u64) -> Lane {
        let mut tasks: Vec<(u64, String)> = Vec::new();
        let mut upon: Vec<(u64, u64, String)> = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            let begin = step.at_ns.max(from);
            let end = steps.get(at + 1).map_or(to, |next| next.at_ns).min(to);
            let task = self.task(step.task);
            if tasks.last().is_none_or(|(_, last)| *last != task) {
                tasks.push((begin, task));
            }
            let cause = self.timelines.cause(step.context);
            let Some(cause) = cause.filter(|_| begin < end) else {
                continue;
            };
            let name = cause.to_string();
            match upon.last_mut() {
                Some((_, last, same)) if *last == begin && *same == name => *last = end,
                _ => upon.push((begin, end, name)),
            }
        }
        let stolen = self.stolen.get(&cpu).map_or(&[][..], Vec::as_slice);
        let next = stolen.partition_point(|&(_, end)| end <= from);
        for &(begin, end) in stolen[next..].iter().take_while(|s| s.0 < to) {
            upon.push((begin.max(from), end.min(to), Cause::Steal.to_string()));
        }
        let mut lane = Lane { cpu, tasks, upon };
        for gap in self.gaps.between(from, to) {
            lane.forget(gap, to);
        }
        lane
    }

    fn task(&self, task: Option<u32>) -> String {
        match task {
            None => NOT_KNOWN.into(),
            Some(0) => "idle".into(),
            Some(pid) => {
                let known = self.timelines.tasks.get(&pid);
                task_name(pid, known.map_or("", |known| known.name.as_str()))
            }
        }
    }
}

/// Text for a task: `agent (4711)`.
#[must_use]
pub fn task_name(pid: u32, name: &str) -> String {
    format!("{name} ({pid})").trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_marks_a_gap_as_not_known() {
        let name = |name: &str| name.to_string();
        let mut lane = Lane {
            cpu: 0,
            tasks: vec![(10, name("a")), (30, name("b")), (80, name("c"))],
            upon: vec![(15, 50, name("tick")), (70, 75, name("tock"))],
        };
        lane.forget((20, 40), 100);
        let tasks = [
            (10, name("a")),
            (20, name(NOT_KNOWN)),
            (40, name("b")),
            (80, name("c")),
        ];
        assert_eq!(lane.tasks, tasks);
        let upon = [
            (15, 20, name("tick")),
            (40, 50, name("tick")),
            (70, 75, name("tock")),
        ];
        assert_eq!(lane.upon, upon);
        lane.forget((60, 100), 100);
        assert_eq!(lane.tasks[3..], [(60, name(NOT_KNOWN))]);
        assert_eq!(lane.upon.len(), 2);
    }
}
