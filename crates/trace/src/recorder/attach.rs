//! Loads the recorder, lets it run for a window, and reads its rings.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use latlab_wire::trace::{EVENT_BYTES, Event, EventKind};
use libbpf_rs::{Link, MapCore, Object, ObjectBuilder};

use super::{Recorded, Watched, symbols};
use crate::error::{Error, listen, said};
use crate::steal;
use crate::sys::{Shared, SoftwareEvent, software_event};

const WHAT: &str = "the flight recorder";
/// As in `latlab.h`.
const MAX_CPUS: usize = 1024;
/// `struct recorder_state`: the switch, then a cache line for each processor.
const HEADS: usize = 64;
const HEAD_BYTES: usize = 64;
/// Events of all rings at most: 12 GiB of them.
const MOST_EVENTS: u64 = 1 << 28;
/// Programs that may be missing: they belong to one architecture or to a module that is not loaded.
const OPTIONAL: &[&str] = &["kvm_exit", "kvm_entry"];

/// What to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// On which processors.
    pub cpus: Vec<u16>,
    /// How many of the newest events to keep for each; rounded up to a power of two.
    pub events_per_cpu: u32,
}

/// The recorder in the kernel.
pub struct Recorder {
    cpus: Vec<u16>,
    ring_events: u32,
    events: Shared,
    state: Shared,
    missing: Vec<(String, String)>,
    object: Object,
    // In the order in which they must go.
    _links: Vec<Link>,
    _perf: Vec<OwnedFd>,
}

impl Recorder {
    /// Loads it; it records nothing before [`Recorder::start`].
    ///
    /// # Errors
    /// When the kernel cannot run it at all. A trace point that is not there is no error, but among
    /// the gaps of what is recorded.
    pub fn load(settings: &Settings) -> Result<Recorder, Error> {
        if !Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Err(Error::NoTypes);
        }
        let ring_events = settings.events_per_cpu.max(2).next_power_of_two();
        let all = u64::from(ring_events) * settings.cpus.len() as u64;
        if all > MOST_EVENTS {
            return Err(Error::TooMany {
                what: "events of the recorder",
                asked: all,
                most: MOST_EVENTS,
            });
        }
        let object = load(settings, ring_events)?;
        let map = |suffix: &str, length| {
            let map = object
                .maps()
                .find(|map| map.name().to_string_lossy().ends_with(suffix))
                .ok_or_else(|| refused(format!("its map {suffix} is missing")))?;
            Shared::map(map.as_fd(), length).map_err(|source| Error::Map { what: WHAT, source })
        };
        let events = map("events", all as usize * EVENT_BYTES)?;
        let state = map(".bss", HEADS + MAX_CPUS * HEAD_BYTES)?;
        let mut missing = Vec::new();
        let mut links = Vec::new();
        let perf = fault_counters(&settings.cpus, &mut missing);
        for program in object.progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            if section == "perf_event" {
                for fd in &perf {
                    match program.attach_perf_event(fd.as_raw_fd()) {
                        Ok(link) => links.push(link),
                        Err(error) => missing.push(("page fault's end".into(), said(&error))),
                    }
                }
                continue;
            }
            let point = section.trim_start_matches("raw_tp/").to_string();
            match program.attach_raw_tracepoint(&point) {
                Ok(link) => links.push(link),
                Err(_) if OPTIONAL.contains(&point.as_str()) => {}
                Err(error) => missing.push((point, said(&error))),
            }
        }
        missing.dedup();
        Ok(Recorder {
            cpus: settings.cpus.clone(),
            ring_events,
            events,
            state,
            missing,
            object,
            _links: links,
            _perf: perf,
        })
    }

    /// From now on it records.
    pub fn start(&self) {
        self.state.store(0, 1);
    }

    /// From now on it does not.
    pub fn stop(&self) {
        self.state.store(0, 0);
    }

    /// Takes the recorder out of the kernel's way and reads what it recorded.
    #[must_use]
    pub fn finish(mut self) -> Recorded {
        self.stop();
        self._links.clear();
        self.read()
    }

    /// Reads what was recorded so far. Call it after [`Recorder::stop`].
    #[must_use]
    pub fn read(&self) -> Recorded {
        let mut recorded = Recorded::default();
        for (ring, &cpu) in self.cpus.iter().enumerate() {
            let written = self.state.load(HEADS + usize::from(cpu) * HEAD_BYTES);
            let size = u64::from(self.ring_events);
            let kept = written.min(size);
            let overwritten = written - kept;
            let bytes = EVENT_BYTES * self.ring_events as usize;
            let ring = self.events.copy(ring * bytes, bytes);
            let from = recorded.events.len();
            for at in written - kept..written {
                let at = (at % size) as usize * EVENT_BYTES;
                let event = Event::from_bytes(&ring[at..at + EVENT_BYTES]);
                recorded.events.extend(event.filter(|e| e.time_ns != 0));
            }
            let first = recorded.events.get(from).map_or(0, |event| event.time_ns);
            recorded.gaps.processors.push(Watched {
                cpu,
                complete_from_ns: if overwritten > 0 { first } else { 0 },
                overwritten,
            });
        }
        name_timers(&mut recorded.events);
        // Stable: events of one processor stay in the order in which they were written.
        recorded.events.sort_by_key(|event| event.time_ns);
        recorded.gaps.missing.clone_from(&self.missing);
        recorded.gaps.missed = self.missed();
        recorded.gaps.steal_known = recorded.events.iter().any(|event| event.steal_ns > 0);
        recorded
    }

    /// Events left out because their program was already at work on that processor.
    fn missed(&self) -> u64 {
        let count = |program: libbpf_rs::Program<'_>| crate::sys::recursion_misses(program.as_fd());
        self.object.progs().map(count).sum()
    }
}

/// Puts the names of functions in place of their addresses.
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

/// perf's counters at the end of a page fault, one a processor and kind.
fn fault_counters(cpus: &[u16], missing: &mut Vec<(String, String)>) -> Vec<OwnedFd> {
    let mut all = Vec::new();
    for &cpu in cpus {
        for event in [SoftwareEvent::MinorFault, SoftwareEvent::MajorFault] {
            match software_event(event, cpu) {
                Ok(fd) => all.push(fd),
                Err(error) => missing.push(("page fault's end".into(), error.to_string())),
            }
        }
    }
    all
}

fn refused(reason: String) -> Error {
    Error::Load { what: WHAT, reason }
}

fn load(settings: &Settings, ring_events: u32) -> Result<Object, Error> {
    const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/recorder.bpf.o"));
    listen();
    let failed = |error: libbpf_rs::Error| refused(said(&error));
    let mut open = ObjectBuilder::default()
        .open_memory(OBJECT)
        .map_err(failed)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name == "events" {
            let all = ring_events * settings.cpus.len() as u32;
            map.set_max_entries(all.max(1)).map_err(failed)?;
        } else if name.ends_with(".rodata") {
            if let Some(value) = map.initial_value_mut() {
                value[..8].copy_from_slice(&steal::from_run_queue().to_ne_bytes());
                value[8..12].copy_from_slice(&ring_events.to_ne_bytes());
                for (ring, &cpu) in settings.cpus.iter().enumerate() {
                    let at = 16 + usize::from(cpu) * 2;
                    if let Some(place) = value.get_mut(at..at + 2) {
                        place.copy_from_slice(&(ring as u16 + 1).to_ne_bytes());
                    }
                }
            }
        }
    }
    open.load().map_err(failed)
}
