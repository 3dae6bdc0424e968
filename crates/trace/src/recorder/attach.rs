//! Loads the recorder, runs it for a window, and reads its rings.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use latlab_wire::trace::{EVENT_BYTES, Event, EventKind};
use libbpf_rs::{Link, Object};

use super::follower::{Follower, Wanted};
use super::recorded::{Recorded, Watched};
use super::rings::{HEAD_BYTES, Rings};
use super::softirq::Words;
use super::symbols;
use super::windows::Window;
use crate::error::Error;
use crate::object::{self, MAX_CPUS};
use crate::steal;
use crate::sys::{SoftwareEvent, software_event};
use crate::taps::Live;
use latlab_bpf::said;

const WHAT: &str = "the flight recorder";
/// Events of all rings at most: 12 GiB of them.
const MAX_EVENTS: u64 = 1 << 28;
/// The tracepoint that is not needed if the kernel's softirq accounts can be read ([`Words`]).
const SOFTIRQ_ENTRY: &str = "softirq_entry";
/// perf's software counters, in place of a tracepoint that the kernel lacks.
const FAULT_END: &str = "page fault's end";
/// Tracepoints of system calls.
const CALLS: [&str; 2] = ["sys_enter", "sys_exit"];
/// Tracepoints that mislead without each other: an entry without its exit would never end, and a timer
/// interrupt without its function would pass for the tick.
const TOGETHER: &[&[&str]] = &[
    &["sched_switch", "sched_wakeup", "sched_wakeup_new"],
    &["irq_handler_entry", "irq_handler_exit"],
    &["softirq_entry", "softirq_exit"],
    &[
        "local_timer_entry",
        "local_timer_exit",
        "hrtimer_expire_entry",
    ],
    &["reschedule_entry", "reschedule_exit"],
    &["call_function_entry", "call_function_exit"],
    &["call_function_single_entry", "call_function_single_exit"],
    &["irq_work_entry", "irq_work_exit"],
    &["x86_platform_ipi_entry", "x86_platform_ipi_exit"],
    &["thermal_apic_entry", "thermal_apic_exit"],
    &CALLS,
    &["page_fault_user", "page_fault_kernel", FAULT_END],
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub cpus: Vec<u16>,
    /// Newest events to keep for each CPU; rounded up to a power of two.
    pub events_per_cpu: u32,
    /// Slow system calls too, at a cost to every call of the machine.
    pub system_calls: bool,
}

pub struct Recorder {
    rings: Rings,
    words: Words,
    object: Object,
    places: Places,
    system_calls: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark(Vec<u64>);

struct Places {
    // In the order in which they must go.
    links: Vec<(String, Link)>,
    /// Where they could not, and why.
    missing: Vec<(String, String)>,
}

impl Recorder {
    /// Loads the programs; nothing is recorded before [`Recorder::start`]. Fails when the kernel cannot run it at all.
    /// A tracepoint that is not there is no error, but among the gaps of what is recorded.
    pub fn load(settings: &Settings) -> Result<Recorder, Error> {
        if !crate::has_types() {
            return Err(Error::NoTypes);
        }
        let ring_events = settings.events_per_cpu.max(2).next_power_of_two();
        let all = u64::from(ring_events) * settings.cpus.len() as u64;
        if all > MAX_EVENTS {
            return Err(Error::TooMany {
                what: "events of the recorder",
                asked: all,
                most: MAX_EVENTS,
            });
        }
        let words = Words::of_this_kernel();
        let object = load(settings, ring_events, words)?;
        let map = |suffix: &str, length| object::map(WHAT, &object, suffix, length);
        let events = map("events", all as usize * EVENT_BYTES)?;
        let state = map(".bss", MAX_CPUS * HEAD_BYTES)?;
        Ok(Recorder {
            rings: Rings {
                cpus: settings.cpus.clone(),
                size: ring_events.into(),
                events: Arc::new(events),
                state: Arc::new(state),
            },
            places: Places::of(&object, &settings.cpus, words, settings.system_calls),
            words,
            object,
            system_calls: settings.system_calls,
        })
    }

    pub fn suspend(&mut self) {
        self.stop();
        self.places.links.clear();
    }

    /// Attaches the programs again. The first softirq may be wrong: its entry was not seen.
    pub fn resume(&mut self) {
        let (rings, words) = (&self.rings, self.words);
        self.places = Places::of(&self.object, &rings.cpus, words, self.system_calls);
        self.start();
    }

    pub fn start(&self) {
        for (ring, &cpu) in self.rings.cpus.iter().enumerate() {
            self.set_ring(cpu, ring as u32 + 1);
        }
    }

    pub fn stop(&self) {
        self.rings
            .cpus
            .iter()
            .for_each(|&cpu| self.set_ring(cpu, 0));
    }

    fn set_ring(&self, cpu: u16, ring: u32) {
        if usize::from(cpu) < MAX_CPUS {
            self.rings.set(cpu, ring);
        }
    }

    /// A reader of the rings during the run, for a run that is longer than they are. `taps` are those along
    /// the path of the packets to be explained.
    #[must_use]
    pub fn follow(&self, taps: &[Live], wanted: Wanted) -> Follower {
        Follower::new(self.rings.clone(), taps, wanted)
    }

    /// Detaches the programs and reads the events within `windows` (begin and end in ns), with the state at
    /// their begin. `tasks` are those of the device. Only kept events take memory. A `follower` has the
    /// events that are overwritten by now.
    #[must_use]
    pub fn finish_around(
        mut self,
        follower: Option<Follower>,
        windows: &[Window],
        tasks: &BTreeSet<u32>,
    ) -> Recorded {
        self.suspend();
        let follower = follower.unwrap_or_else(|| self.follow(&[], Wanted::default()));
        self.complete(follower.finish(windows, tasks))
    }

    /// Empties the rings. Call it after [`Recorder::stop`].
    pub fn forget(&self) {
        (0..self.rings.cpus.len()).for_each(|ring| self.rings.empty(ring));
    }

    #[must_use]
    pub fn mark(&self) -> Mark {
        let rings = 0..self.rings.cpus.len();
        Mark(rings.map(|ring| self.rings.written(ring)).collect())
    }

    /// Events since the mark, in the order of time, during the recording. Events written at this moment may
    /// be missing, and so may events overwritten meanwhile.
    #[must_use]
    pub fn since(&self, mark: &Mark) -> Vec<Event> {
        let mut all = Vec::new();
        for (ring, &from) in mark.0.iter().enumerate() {
            let written = self.rings.written(ring);
            let from = from.max(written.saturating_sub(self.rings.size));
            all.extend(self.rings.told(ring, from..written));
        }
        // A record is of its end, and tells of its beginning.
        all.sort_by_key(|event| event.time_ns);
        all
    }

    /// Detaches the programs and reads all events.
    #[must_use]
    pub fn finish(mut self) -> Recorded {
        self.suspend();
        let mut recorded = Recorded::default();
        for (ring, &cpu) in self.rings.cpus.iter().enumerate() {
            let written = self.rings.written(ring);
            let overwritten = written.saturating_sub(self.rings.size);
            let from = recorded.events.len();
            let told = self.rings.told(ring, overwritten..written);
            recorded.events.extend(told);
            let own = &recorded.events[from..];
            recorded.gaps.steal_known |= own.iter().any(|event| event.steal_ns > 0);
            let first = own.first().map_or(0, |event| event.time_ns);
            recorded.gaps.cpus.push(Watched {
                cpu,
                complete_from_ns: if overwritten > 0 { first } else { 0 },
                overwritten,
                ..Watched::default()
            });
        }
        self.complete(recorded)
    }

    /// Adds what only the recorder itself knows.
    fn complete(&self, mut recorded: Recorded) -> Recorded {
        name_timers(&mut recorded.events);
        // Stable: events of one CPU stay in the order of writing.
        recorded.events.sort_by_key(|event| event.time_ns);
        recorded.gaps.missing.clone_from(&self.places.missing);
        recorded.gaps.missed = self.missed();
        recorded
    }

    fn missed(&self) -> u64 {
        let count = |program: libbpf_rs::Program<'_>| crate::sys::recursion_misses(program.as_fd());
        self.object.progs().map(count).sum()
    }
}

impl Places {
    fn of(object: &Object, cpus: &[u16], words: Words, system_calls: bool) -> Places {
        let mut missing = Vec::new();
        let mut links: Vec<(String, Link)> = Vec::new();
        let mut perf = fault_counters(cpus, &mut missing);
        for program in object.progs_mut() {
            let point = object::tracepoint(&program);
            if point == "perf_event" {
                for fd in perf.drain(..) {
                    match program.attach_perf_event(fd.as_raw_fd()) {
                        Ok(link) => {
                            // libbpf closes the descriptor with the link.
                            let _closed_by_link = fd.into_raw_fd();
                            links.push((FAULT_END.into(), link));
                        }
                        Err(error) => missing.push((FAULT_END.into(), said(&error))),
                    }
                }
                continue;
            }
            let is_unwanted = CALLS.contains(&point.as_str()) && !system_calls;
            if is_unwanted || point == SOFTIRQ_ENTRY && words.are_known() {
                continue;
            }
            match program.attach_raw_tracepoint(&point) {
                Ok(link) => links.push((point, link)),
                Err(error) => missing.push((point, said(&error))),
            }
        }
        only_together(&mut links, &mut missing);
        missing.dedup();
        Places { links, missing }
    }
}

/// Detaches tracepoints that are useless without a missing one.
fn only_together<T>(links: &mut Vec<(String, T)>, missing: &mut Vec<(String, String)>) {
    for group in TOGETHER {
        let lacks = missing.iter().map(|(point, _)| point.clone());
        let Some(lacks) = lacks.clone().find(|point| group.contains(&point.as_str())) else {
            continue;
        };
        for &point in *group {
            let had = links.len();
            links.retain(|(attached, _)| attached != point);
            if links.len() < had {
                missing.push((point.into(), format!("it says nothing without {lacks}")));
            }
        }
    }
}

fn name_timers(events: &mut [Event]) {
    let timers = |event: &&Event| event.kind == EventKind::HrtimerEntry;
    let addresses: BTreeSet<u64> = events.iter().filter(timers).map(|e| e.b).collect();
    let names = symbols::names(&addresses);
    for event in events
        .iter_mut()
        .filter(|e| e.kind == EventKind::HrtimerEntry)
    {
        if let Some((_, name)) = names.iter().find(|(address, _)| *address == event.b) {
            event.set_text(name);
        }
    }
}

/// perf's counters at the end of a page fault, one a CPU and kind.
fn fault_counters(cpus: &[u16], missing: &mut Vec<(String, String)>) -> Vec<OwnedFd> {
    let mut all = Vec::new();
    for &cpu in cpus {
        for event in [SoftwareEvent::MinorFault, SoftwareEvent::MajorFault] {
            match software_event(event, cpu) {
                Ok(fd) => all.push(fd),
                Err(error) => missing.push((FAULT_END.into(), error.to_string())),
            }
        }
    }
    all
}

fn load(settings: &Settings, ring_events: u32, words: Words) -> Result<Object, Error> {
    const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/recorder.bpf.o"));
    let events = ring_events * settings.cpus.len() as u32;
    let constants = |value: &mut [u8]| {
        value[..8].copy_from_slice(&steal::from_run_queue().to_ne_bytes());
        value[8..16].copy_from_slice(&u64::from(ring_events).to_ne_bytes());
        value[16..56].copy_from_slice(&words.to_bytes());
        let calls = u64::from(settings.system_calls);
        value[56..64].copy_from_slice(&calls.to_ne_bytes());
    };
    object::load(WHAT, OBJECT, ("events", events), constants)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_without_its_end_is_not_recorded() {
        let points = ["softirq_entry", "irq_handler_entry", "irq_handler_exit"];
        let mut links: Vec<(String, ())> = points.map(|p| (p.to_string(), ())).to_vec();
        let mut missing = vec![("softirq_exit".to_string(), "no such point".to_string())];
        only_together(&mut links, &mut missing);
        let left: Vec<&str> = links.iter().map(|(point, ())| point.as_str()).collect();
        assert_eq!(left, ["irq_handler_entry", "irq_handler_exit"]);
        let named: Vec<&str> = missing.iter().map(|(point, _)| point.as_str()).collect();
        assert_eq!(named, ["softirq_exit", "softirq_entry"]);
    }

    /// The names must be those of the programs' sections, or nothing would ever be detached.
    #[test]
    fn every_point_of_a_group_is_in_the_program() {
        const SOURCE: &str = include_str!("../../bpf/recorder.bpf.c");
        for point in TOGETHER
            .iter()
            .copied()
            .flatten()
            .filter(|p| **p != FAULT_END)
        {
            let vector = point.trim_end_matches("_entry").trim_end_matches("_exit");
            let is_there = SOURCE.contains(&format!("raw_tp/{point}\""))
                || SOURCE.contains(&format!("VECTOR({vector},"));
            assert!(is_there, "{point}");
        }
    }
}
