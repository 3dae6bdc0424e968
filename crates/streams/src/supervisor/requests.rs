//! Requests at the control socket.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use latlab_wire::streams::{Answer, Config, PortStatus, Request, Status};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::state::{Source, Supervisor};
use crate::control;
use crate::registry::NodeId;

/// Ports in a status, which is one message.
const PORTS: usize = 256;

impl Supervisor {
    /// Takes a new client.
    pub(super) fn welcome(&mut self) {
        let Ok(client) = control::accept(&self.control) else {
            return;
        };
        let token = self.poller.token();
        if self
            .poller
            .add(&client.socket, token, EventFlags::IN)
            .is_ok()
        {
            self.sources.insert(token, Source::Client(client));
        }
    }

    /// Reads what a client says.
    pub(super) fn request(&mut self, token: u64) {
        let Some(Source::Client(client)) = self.sources.get_mut(&token) else {
            return;
        };
        let (bytes, descriptor) = match control::receive(client.socket.as_fd()) {
            Ok((bytes, descriptor)) if !bytes.is_empty() => (bytes, descriptor),
            Err(Errno::AGAIN | Errno::INTR) => return,
            // Its end.
            _ => {
                self.sources.remove(&token);
                return;
            }
        };
        if let Some(node) = client.session.take() {
            return self.take_listener(token, node, descriptor);
        }
        let answer = match serde_json::from_slice(&bytes) {
            Ok(Request::Session { node }) => match node_of(&self.config, &node) {
                Ok(node) if self.excluded.contains(&node) => Answer::Excluded,
                Ok(node) => {
                    client.session = Some(node);
                    Answer::Done
                }
                Err(refused) => refused,
            },
            Ok(request) => self.carry_out(&request),
            Err(error) => Answer::Refused(error.to_string()),
        };
        self.answer(token, &answer);
    }

    fn carry_out(&mut self, request: &Request) -> Answer {
        let node = match request {
            Request::Set { node, .. } | Request::Demote { node, .. } => node.as_deref(),
            Request::Exclude { node, .. } | Request::Unset { node, .. } => Some(node.as_str()),
            Request::Session { .. } | Request::Status => None,
        };
        let node = match node.map(|node| node_of(&self.config, node)).transpose() {
            Ok(node) => node,
            Err(refused) => return refused,
        };
        match (request, node) {
            (Request::Set { on, ports, .. }, node) => {
                self.switch.set(*on, node, ports);
                Answer::Done
            }
            (Request::Unset { port, .. }, Some(node)) => {
                self.switch.unset(node, *port);
                Answer::Done
            }
            (Request::Exclude { on: true, .. }, Some(node)) => match self.excluded.insert(node) {
                true => Answer::Done,
                false => Answer::Excluded,
            },
            (Request::Exclude { on: false, .. }, Some(node)) => {
                self.excluded.remove(&node);
                Answer::Done
            }
            (Request::Demote { ports, .. }, node) => {
                let demoted = self.demote(node, ports);
                self.demoted += demoted.streams;
                Answer::Demoted(demoted)
            }
            // Those of a node have one.
            (
                Request::Session { .. }
                | Request::Exclude { .. }
                | Request::Unset { .. }
                | Request::Status,
                _,
            ) => Answer::Status(self.status()),
        }
    }

    fn take_listener(&mut self, token: u64, node: NodeId, descriptor: Option<OwnedFd>) {
        // Its process waits for no answer: calls that it makes before we have the listener are held for us.
        if let Some(listener) = descriptor {
            self.add_session(node, listener).ok();
        }
        self.sources.remove(&token);
    }

    fn answer(&self, token: u64, answer: &Answer) {
        if let (Some(Source::Client(client)), Ok(text)) =
            (self.sources.get(&token), serde_json::to_vec(answer))
        {
            control::answer(client.socket.as_fd(), &text);
        }
    }

    fn status(&self) -> Status {
        let sessions = self.sources.values();
        Status {
            on: self.switch.on,
            shadow: self.kind.word().into(),
            sessions: sessions.filter(|s| matches!(s, Source::Session(_))).count(),
            open: self.connections.len(),
            streams: self.streams,
            relayed: self.relayed,
            demoted: self.demoted,
            plain: self
                .plain
                .iter()
                .map(|(reason, count)| (reason.word().into(), *count))
                .collect(),
            ports: self.ports(),
        }
    }

    fn ports(&self) -> Vec<PortStatus> {
        let mut open: HashMap<(NodeId, u16), usize> = HashMap::new();
        for (_, connection) in self.connections.iter() {
            let key = connection.key;
            *open.entry((key.server, key.local.port())).or_default() += 1;
        }
        let most = self.counts.most(PORTS).into_iter();
        most.map(|((node, port), count)| PortStatus {
            node: self.config.nodes[node].name.clone(),
            port,
            connections: count.connections,
            streams: count.streams,
            open: open.get(&(node, port)).copied().unwrap_or_default(),
            on: self.switch.of_port(node, port),
        })
        .collect()
    }
}

fn node_of(config: &Config, name: &str) -> Result<NodeId, Answer> {
    let found = config.nodes.iter().position(|known| known.name == name);
    found.ok_or_else(|| Answer::Refused(format!("there is no node `{name}` with streams")))
}
