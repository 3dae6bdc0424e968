//! States of one task over time.

use latlab_wire::trace::{Event, EventKind, Switch};

/// Task states of the kernel that mean "stopped" and "being traced".
const STOPPED: u16 = 4 | 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Unknown,
    Running(u16),
    /// Could run, on this CPU; `woken` from sleep, otherwise preempted.
    Runnable {
        cpu: u16,
        woken: bool,
    },
    Throttled,
    Stopped,
    /// In a system call, if known.
    Asleep(Option<u16>),
}

/// The states of one task, each from an instant on. `seen` are times and CPUs at which it is known to run: a
/// task that never leaves its CPU has no event.
pub fn states(events: &[Event], pid: u32, seen: &[(u64, u16)]) -> Vec<(u64, State)> {
    let mut all: Vec<(u64, State)> = Vec::new();
    for event in events {
        let state = match event.kind {
            EventKind::Switch => {
                let switch = event.switch();
                if switch.next == pid {
                    State::Running(event.cpu)
                } else if switch.previous == pid {
                    if all.is_empty() {
                        // The task was running until now.
                        all.push((0, State::Running(event.cpu)));
                    }
                    left(&switch, event.cpu)
                } else {
                    continue;
                }
            }
            EventKind::Wakeup if event.a == pid => match all.last() {
                Some((_, State::Asleep(_) | State::Stopped | State::Unknown)) | None => {
                    let cpu = event.b as u16;
                    State::Runnable { cpu, woken: true }
                }
                Some(_) => continue,
            },
            _ => continue,
        };
        all.push((event.time_ns, state));
    }
    match (all.first().copied(), seen.first()) {
        (None, Some(&(_, cpu))) => all.push((0, State::Running(cpu))),
        (Some((first, _)), Some(&(at, cpu))) if first > 0 && at < first => {
            all.insert(0, (0, State::Running(cpu)));
        }
        (Some((first, _)), _) if first > 0 => all.insert(0, (0, State::Unknown)),
        _ => {}
    }
    all
}

fn left(switch: &Switch, cpu: u16) -> State {
    if switch.throttled {
        State::Throttled
    } else if switch.preempted || switch.state == 0 {
        State::Runnable { cpu, woken: false }
    } else if switch.state & STOPPED != 0 {
        State::Stopped
    } else {
        State::Asleep(switch.call)
    }
}
