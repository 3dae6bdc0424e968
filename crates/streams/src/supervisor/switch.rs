//! Which connections may be streams at all, and how many there were, by the server's port.

use std::collections::{BTreeMap, HashSet};

use crate::registry::NodeId;

/// Ports that are counted; connections to further ones count among all only.
const MAX_PORTS: usize = 4096;

/// As `latlab streams` switches them.
#[derive(Debug, Default)]
pub(super) struct Switch {
    pub on: bool,
    /// Nodes whose connections are plain although streams are on.
    off: HashSet<NodeId>,
    /// Ports with a choice of their own: of one server, or of all.
    ports: BTreeMap<(Option<NodeId>, u16), bool>,
}

impl Switch {
    pub(super) fn new(on: bool) -> Self {
        Self {
            on,
            ..Self::default()
        }
    }

    /// Has new connections be streams or stay plain: those to ports, or else all of a node, or else all. The latest word
    /// counts, also for what earlier ones named.
    pub(super) fn set(&mut self, on: bool, node: Option<NodeId>, ports: &[u16]) {
        match node {
            _ if !ports.is_empty() => {
                for port in ports {
                    self.set_port(on, node, *port);
                }
            }
            None => *self = Self::new(on),
            Some(node) if on => {
                self.off.remove(&node);
            }
            Some(node) => {
                self.off.insert(node);
            }
        }
    }

    fn set_port(&mut self, on: bool, node: Option<NodeId>, port: u16) {
        if node.is_none() {
            self.ports.retain(|(_, other), _| *other != port);
        }
        self.ports.insert((node, port), on);
    }

    /// Has a server's port do as the others do.
    pub(super) fn unset(&mut self, server: NodeId, port: u16) {
        self.ports.remove(&(Some(server), port));
    }

    /// The choice for a server's port, if it has one of its own.
    pub(super) fn of_port(&self, server: NodeId, port: u16) -> Option<bool> {
        let own = self.ports.get(&(Some(server), port));
        own.or_else(|| self.ports.get(&(None, port))).copied()
    }

    /// `has_port` is whether the port has streams where none was switched.
    pub(super) fn allows(&self, client: NodeId, server: NodeId, port: u16, has_port: bool) -> bool {
        let is_off = |node| self.off.contains(&node);
        let is_on = || self.on && has_port && !is_off(client) && !is_off(server);
        self.of_port(server, port).unwrap_or_else(is_on)
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    /// All that could have been streams.
    pub connections: u64,
    pub streams: u64,
}

/// Connections to the ports at which servers listen.
#[derive(Debug, Default)]
pub(super) struct Counts(BTreeMap<(NodeId, u16), Count>);

impl Counts {
    fn of(&mut self, server: NodeId, port: u16) -> Option<&mut Count> {
        let is_full = self.0.len() >= MAX_PORTS;
        match is_full && !self.0.contains_key(&(server, port)) {
            true => None,
            false => Some(self.0.entry((server, port)).or_default()),
        }
    }

    pub(super) fn connection(&mut self, server: NodeId, port: u16) {
        if let Some(count) = self.of(server, port) {
            count.connections += 1;
        }
    }

    pub(super) fn stream(&mut self, server: NodeId, port: u16) {
        if let Some(count) = self.of(server, port) {
            count.streams += 1;
        }
    }

    /// Those with the most connections, at most `limit` of them.
    pub(super) fn most(&self, limit: usize) -> Vec<((NodeId, u16), Count)> {
        let mut all: Vec<_> = self.0.iter().map(|(at, count)| (*at, *count)).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(count.connections));
        all.truncate(limit);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_a_choice_of_its_own_until_all_are_switched() {
        let mut switch = Switch::new(true);
        switch.set(false, None, &[80]);
        assert!(!switch.allows(0, 1, 80, true) && switch.allows(0, 1, 81, true));
        switch.set(true, Some(1), &[80]);
        assert!(switch.allows(0, 1, 80, true) && !switch.allows(0, 2, 80, true));
        // The latest word is for all servers.
        switch.set(false, None, &[80]);
        assert!(!switch.allows(0, 1, 80, true));
        switch.set(false, None, &[]);
        switch.set(true, None, &[5432, 6379]);
        assert!(switch.allows(0, 1, 5432, true) && !switch.allows(0, 1, 80, true));
        switch.set(true, None, &[]);
        assert!(switch.allows(0, 1, 80, true));
        // Then it does as its node does.
        switch.set(false, Some(0), &[]);
        switch.set(false, Some(1), &[80]);
        assert!(!switch.allows(2, 1, 80, true));
        switch.unset(1, 80);
        assert!(switch.allows(2, 1, 80, true) && !switch.allows(0, 1, 80, true));
    }

    #[test]
    fn a_node_that_is_off_has_neither_clients_nor_servers_but_of_ports_that_are_on() {
        let mut switch = Switch::new(true);
        switch.set(false, Some(3), &[]);
        assert!(
            !switch.allows(3, 0, 80, true)
                && !switch.allows(0, 3, 80, true)
                && switch.allows(0, 1, 80, true)
        );
        switch.set(true, Some(3), &[80]);
        assert!(switch.allows(0, 3, 80, true) && !switch.allows(0, 3, 81, true));
        switch.set(true, Some(3), &[]);
        assert!(switch.allows(3, 0, 80, true));
    }

    #[test]
    fn a_port_without_streams_gets_them_by_name_only() {
        let mut switch = Switch::new(true);
        assert!(!switch.allows(0, 1, 80, false));
        switch.set(true, Some(1), &[]);
        assert!(!switch.allows(0, 1, 80, false));
        switch.set(true, Some(1), &[80]);
        assert!(switch.allows(0, 1, 80, false) && !switch.allows(0, 2, 80, false));
    }

    #[test]
    fn further_ports_than_are_counted_push_none_out() {
        let mut counts = Counts::default();
        for port in 0..=MAX_PORTS as u16 {
            counts.connection(0, port);
        }
        counts.connection(0, 7);
        counts.stream(0, 7);
        let most = counts.most(2);
        let seven = Count {
            connections: 2,
            streams: 1,
        };
        assert_eq!((most.len(), most[0]), (2, ((0, 7), seven)));
        assert_eq!(counts.most(usize::MAX).len(), MAX_PORTS);
    }
}
