//! Which keys of a measurement each probe uses, and which protocols.

use super::probe::{Probe, Protocol};
use super::reader::Object;
use crate::diagnostic::Diagnostics;

/// The probes that send packets from one node to another.
const NETWORK: &[Probe] = &[Probe::Rr, Probe::Packets, Probe::Stream, Probe::Forward];

const PROBE_ONLY: &[(&str, &[Probe])] = &[
    ("to", NETWORK),
    ("protocol", NETWORK),
    ("ip", NETWORK),
    ("request", &[Probe::Rr]),
    ("response", &[Probe::Rr]),
    ("rate", &[Probe::Rr, Probe::Packets, Probe::Forward]),
    ("size", &[Probe::Packets, Probe::Stream, Probe::Forward]),
    ("arrival", &[Probe::Packets, Probe::Forward]),
    ("burst", &[Probe::Packets, Probe::Forward]),
    ("flows", &[Probe::Packets, Probe::Forward]),
    ("via", &[Probe::Packets, Probe::Forward]),
    ("timestamps", &[Probe::Packets]),
    ("bitrate", &[Probe::Stream]),
    ("pin", &[Probe::Rr, Probe::Packets, Probe::Forward]),
    ("through", &[Probe::Forward]),
    ("device", &[Probe::Forward]),
    ("poll", &[Probe::Forward]),
    ("record", &[Probe::Forward]),
    ("system_calls", &[Probe::Forward]),
    ("sampling", &[Probe::Forward]),
    ("actions", &[Probe::Rr, Probe::Packets, Probe::Forward]),
    ("on", &[Probe::Workload]),
    ("program", &[Probe::Workload]),
    ("command", &[Probe::Workload]),
    ("metric", &[Probe::Workload]),
    ("timeout", &[Probe::Workload]),
];

pub(super) fn refuse_unused(o: &Object<'_>, probe: Probe, errors: &mut Diagnostics) {
    for (key, users) in PROBE_ONLY.iter().filter(|(_, u)| !u.contains(&probe)) {
        if let Some(at) = o.key_at(key) {
            let users: Vec<&str> = users.iter().map(|p| p.word()).collect();
            let message = format!("`{key}` of {} has no meaning for probe `{probe}`", o.what);
            let hint = format!("remove it; it belongs to {}", users.join(" and "));
            errors.add(at, message, hint);
        }
    }
}

/// The protocols that the probe can use; the first is the default. A workload has none, and keeps the default.
pub(super) fn fitting(probe: Probe) -> &'static [Protocol] {
    use Protocol::{Icmp, Tcp, Udp};
    match probe {
        Probe::Rr => &[Udp, Tcp, Icmp],
        Probe::Packets | Probe::Forward | Probe::Workload => &[Udp],
        Probe::Stream => &[Tcp, Udp],
    }
}
