//! Watches the lab's dedicated CPUs for intruders while a trial runs, from a thread on another CPU.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use latlab_host::lab::Lab;
use latlab_host::watch::{CpuOwner, Watcher};
use latlab_model::results::{Intruder, IntruderKind};

/// Polling interval: a task that stays this long is seen, a shorter one may be missed.
const INTERVAL: Duration = Duration::from_millis(250);

type Seen = BTreeMap<(IntruderKind, String, u32, u32), Intruder>;

/// A watch over the lab's dedicated CPUs, if it has any.
pub(crate) struct Guard(Option<(Sender<()>, JoinHandle<Seen>)>);

impl Guard {
    pub fn begin(lab: &Lab) -> Guard {
        let plan = lab.plan();
        let cpus = plan.blueprint.given();
        if cpus.is_empty() {
            return Guard(None);
        }
        let owner = CpuOwner::of_lab(&plan.lab, cpus.clone());
        let mut watcher = Watcher::begin(cpus.iter(), vec![owner]);
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::new();
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                add(&mut seen, watcher.look());
            }
            add(&mut seen, watcher.look());
            seen
        });
        Guard(Some((stop, thread)))
    }

    /// Ends, with all that ran there from outside the lab.
    pub fn end(self) -> Vec<Intruder> {
        let Some((stop, thread)) = self.0 else {
            return Vec::new();
        };
        drop(stop);
        thread
            .join()
            .map_or(Vec::new(), |seen| seen.into_values().collect())
    }
}

fn add(seen: &mut Seen, found: Vec<Intruder>) {
    for one in found {
        let key = (one.kind, one.name.clone(), one.id, one.cpu);
        match seen.get_mut(&key) {
            Some(known) => {
                let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
                known.ran_ns = sum(known.ran_ns, one.ran_ns);
                known.times = sum(known.times, one.times);
            }
            None => drop(seen.insert(key, one)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_sightings_are_one_intruder() {
        let one = |ns| Intruder {
            kind: IntruderKind::Process,
            name: "x".into(),
            id: 7,
            cpu: 1,
            ran_ns: Some(ns),
            times: None,
            group: None,
        };
        let mut seen = Seen::new();
        add(&mut seen, vec![one(5)]);
        add(&mut seen, vec![one(6)]);
        let all: Vec<Intruder> = seen.into_values().collect();
        assert_eq!(all, [one(11)]);
    }
}
