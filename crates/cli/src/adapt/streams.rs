//! The streams of a lab, whose servers' ports are switched.

use std::collections::BTreeSet;
use std::time::Duration;

use latlab_host::dirs::Dirs;
use latlab_host::lab::{self, Lab};
use latlab_host::streams::{Client, PortStatus, has_streams};
use latlab_model::adapt::{Ports, ServerPort};

use super::told::Told;
use crate::failure::{Failure, Hint, explain};

pub(super) struct Streams {
    client: Client,
    ports: Ports,
    /// Ports that are off because of us. A port that a person has switched is left alone.
    plain: BTreeSet<ServerPort>,
}

impl Streams {
    /// Those of a lab; none if no link of it has any.
    pub(super) fn of(name: &str, is_allowed: bool) -> Result<Option<Streams>, Failure> {
        let dirs = Dirs::from_env();
        if !has_streams(&lab::plan_of(&dirs, name).map_err(explain)?) {
            return Ok(None);
        }
        let lab = Lab::open(&dirs, name).map_err(explain)?;
        Ok(Some(Streams {
            client: lab.streams().map_err(explain)?,
            ports: Ports::new(is_allowed),
            plain: BTreeSet::new(),
        }))
    }

    pub(super) fn second(&mut self, at: Duration, told: &Told) -> Result<(), Failure> {
        let status = self.client.status().hint(GONE)?;
        for name in switched_by_others(&self.plain, &status.ports) {
            self.plain.remove(&name);
            self.ports.forget(&name);
        }
        if !status.on {
            return Ok(());
        }
        let ports = status.ports.into_iter().filter_map(|port| {
            let name = (port.node, port.port);
            // One without a stream is plain already: its link has `stream_ports`, or a person has switched its node.
            let has_streams = port.on.is_none() && port.streams > 0;
            let is_ours = self.plain.contains(&name);
            (has_streams || is_ours).then_some((name, port.connections))
        });
        for decision in self.ports.step(at, ports) {
            told.port(&decision);
            let Some(on) = decision.change() else {
                continue;
            };
            let (server, port) = (decision.server.as_str(), decision.port);
            // Without a choice of its own, the port does as a person has switched its node.
            let changed = match on {
                true => self.client.unset(server, port),
                false => self.client.set(false, Some(server), &[port]),
            };
            if let Err(failure) = changed {
                told.note(&format!("this failed, and is as before: {failure}"));
                self.ports.failed(&decision);
                continue;
            }
            let name = (decision.server, decision.port);
            match on {
                true => self.plain.remove(&name),
                false => self.plain.insert(name),
            };
        }
        Ok(())
    }

    /// Takes back what was switched off here. Whether there was anything.
    pub(super) fn take_back(&mut self) -> Result<bool, Failure> {
        let plain = std::mem::take(&mut self.plain);
        let taken = plain.iter().map(|(server, port)| {
            let unset = self.client.unset(server, *port);
            unset.hint(GONE)
        });
        let first = taken.fold(Ok(()), Result::and);
        first.map(|()| !plain.is_empty())
    }
}

/// The ports among ours that are off no more: a person has switched them, or all.
fn switched_by_others(plain: &BTreeSet<ServerPort>, ports: &[PortStatus]) -> Vec<ServerPort> {
    let on = ports.iter().filter(|port| port.on != Some(false));
    let names = on.map(|port| (port.node.clone(), port.port));
    names.filter(|name| plain.contains(name)).collect()
}

const GONE: &str = "the supervisor of the lab's streams has ended: deploy the lab anew";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_ours_that_a_person_switches_is_ours_no_more() {
        let name = |port| ("b".to_owned(), port);
        let plain = BTreeSet::from([80, 81, 82, 83].map(name));
        let port = |port, on| PortStatus {
            node: "b".into(),
            port,
            on,
            ..PortStatus::default()
        };
        // The last one is not ours; of port 83 is no word.
        let ports = [(80, Some(false)), (81, Some(true)), (82, None), (84, None)];
        let ports = ports.map(|(number, on)| port(number, on));
        assert_eq!(switched_by_others(&plain, &ports), [81, 82].map(name));
    }
}
