//! Loads the program that reads the steal counters, runs it for a window, and reads its records.

use std::collections::BTreeSet;

use latlab_wire::trace::{STOLEN_BYTES, Stolen};
use libbpf_rs::{Link, Object};

use super::word::from_run_queue;
use crate::error::Error;
use crate::object::{self, MAX_CPUS};
use crate::sys::Shared;
use latlab_bpf::said;

const WHAT: &str = "the watch over stolen time";
/// `struct steal_state`: the switch, then a cache line for each CPU.
const HEADS: usize = 64;
const HEAD_BYTES: usize = 64;
const FOUND: usize = 0;
const COUNTER: usize = 24;
/// Records of a CPU: more than a hypervisor causes in minutes.
const ROOM: u32 = 1 << 16;
/// Programs that may be missing: they belong to one architecture.
const OPTIONAL: &[&str] = &["local_timer_entry"];

pub struct Watch {
    cpus: Vec<u16>,
    stretches: Shared,
    state: Shared,
    _object: Object,
    links: Vec<Link>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// Stretches with steal, in the order of time.
    pub stretches: Vec<Stolen>,
    /// Stretches without room.
    pub no_room: u64,
}

impl Watch {
    /// Begins to watch these CPUs; `None` if no hypervisor reports steal. Fails when the kernel cannot run such a
    /// program.
    pub fn begin(cpus: &BTreeSet<u16>) -> Result<Option<Watch>, Error> {
        if !crate::has_types() {
            return Err(Error::NoTypes);
        }
        if from_run_queue() == 0 {
            return Ok(None);
        }
        let cpus: Vec<u16> = cpus.iter().copied().collect();
        let object = load(&cpus)?;
        let map = |suffix: &str, length| object::map(WHAT, &object, suffix, length);
        let room = ROOM as usize * cpus.len();
        let stretches = map("stretches", room * STOLEN_BYTES)?;
        let state = map(".bss", HEADS + MAX_CPUS * HEAD_BYTES)?;
        let mut links = Vec::new();
        for program in object.progs_mut() {
            let point = object::tracepoint(&program);
            match program.attach_raw_tracepoint(&point) {
                Ok(link) => links.push(link),
                Err(_) if OPTIONAL.contains(&point.as_str()) => {}
                Err(error) => {
                    return Err(Error::Attach {
                        what: WHAT,
                        to: point,
                        reason: said(&error),
                    });
                }
            }
        }
        let watch = Watch {
            cpus,
            stretches,
            state,
            _object: object,
            links,
        };
        watch.state.store(0, 1);
        Ok(Some(watch))
    }

    /// Ends; `None` if the counters have always been 0: the hypervisor keeps none.
    #[must_use]
    pub fn end(mut self) -> Option<Taken> {
        self.state.store(0, 0);
        self.links.clear();
        let head = |cpu: u16| HEADS + usize::from(cpu) * HEAD_BYTES;
        let mut taken = Taken::default();
        let mut is_told = false;
        for (place, &cpu) in self.cpus.iter().enumerate() {
            is_told |= self.state.load(head(cpu) + COUNTER) > 0;
            let found = self.state.load(head(cpu) + FOUND);
            let kept = found.min(u64::from(ROOM));
            taken.no_room += found - kept;
            let from = place * ROOM as usize * STOLEN_BYTES;
            let bytes = self.stretches.copy(from, kept as usize * STOLEN_BYTES);
            taken
                .stretches
                .extend(bytes.chunks_exact(STOLEN_BYTES).map(Stolen::from_bytes));
        }
        taken.stretches.sort_by_key(|stolen| stolen.until_ns);
        is_told.then_some(taken)
    }
}

fn load(cpus: &[u16]) -> Result<Object, Error> {
    const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/steal.bpf.o"));
    let constants = |value: &mut [u8]| {
        value[..8].copy_from_slice(&from_run_queue().to_ne_bytes());
        value[8..12].copy_from_slice(&ROOM.to_ne_bytes());
        for (place, &cpu) in cpus.iter().enumerate() {
            let at = 16 + usize::from(cpu) * 2;
            if let Some(slot) = value.get_mut(at..at + 2) {
                slot.copy_from_slice(&(place as u16 + 1).to_ne_bytes());
            }
        }
    };
    let room = ROOM * cpus.len() as u32;
    object::load(WHAT, OBJECT, ("stretches", room), constants)
}
