//! A connection to the daemon, and what the daemon was told over it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use latlab_model::overlay::PortName;
use latlab_model::overlay::language::parse_file;

use super::event::Event;
use crate::keys::{Address, Request};
use crate::orders::{Order, Own, known_revisions, move_line};
use crate::state::State;
use crate::switch::Switch;

/// Number of refusals that are remembered as told.
const MAX_TOLD: usize = 1000;

pub(super) struct Applied<S> {
    switch: S,
    /// Addresses whose moves the daemon refused, to be tried again.
    pending: BTreeSet<Address>,
    /// Whether networks and links are not yet the fabric's.
    is_unconfigured: bool,
    /// Refusals that were told, each once.
    told: BTreeSet<String>,
}

type Tell<'t> = &'t mut dyn FnMut(&Event);

impl<S: Switch> Applied<S> {
    /// Brings a daemon, which may know an earlier state or nothing, to this one.
    pub fn new(switch: S, own: &Own, state: &State, tell: Tell<'_>) -> io::Result<Applied<S>> {
        let mut applied = Applied {
            switch,
            pending: BTreeSet::new(),
            is_unconfigured: false,
            told: BTreeSet::new(),
        };
        applied.configure(own, state, tell)?;
        let known = applied.ask("list moves")?;
        let known = known.map_or_else(|_| BTreeMap::new(), |lines| known_revisions(&lines));
        let is_new = |(address, (_, revision)): &(&Address, &(_, u64))| {
            known.get(*address).is_none_or(|known| known < revision)
        };
        let new = state.places.iter().filter(is_new);
        applied.relocate(own, state, new.map(|(address, _)| address), tell)?;
        Ok(applied)
    }

    /// Makes networks and links those of the fabric.
    pub fn configure(&mut self, own: &Own, state: &State, tell: Tell<'_>) -> io::Result<()> {
        self.is_unconfigured = true;
        let shown = self.ask("show")?;
        let lines = shown.and_then(|shown| match parse_file(&shown.join("\n")) {
            Ok(current) => own.configure(state, &current),
            Err((_, mistake)) => Err(mistake.to_string()),
        });
        let lines = match lines {
            Ok(lines) => lines,
            Err(reason) => {
                self.refused("show", &reason, tell);
                return Ok(());
            }
        };
        // One change, so that a link whose host has another address is never missing.
        if !lines.is_empty() {
            let all = ["begin".to_string()].into_iter().chain(lines);
            for line in all.chain(["commit".to_string()]) {
                if let Err(reason) = self.ask(&line)? {
                    self.ask("abort")?.ok();
                    self.refused(&line, &reason, tell);
                    return Ok(());
                }
            }
        }
        self.is_unconfigured = false;
        Ok(())
    }

    /// Moves addresses to their places. Returns how many were moved.
    pub fn relocate<'a>(
        &mut self,
        own: &Own,
        state: &State,
        addresses: impl IntoIterator<Item = &'a Address>,
        tell: Tell<'_>,
    ) -> io::Result<usize> {
        let mut moved = 0;
        for order in own.moves(state, addresses) {
            moved += self.order(own, state, order, tell)?;
        }
        Ok(moved)
    }

    fn order(
        &mut self,
        own: &Own,
        state: &State,
        order: Order,
        tell: Tell<'_>,
    ) -> io::Result<usize> {
        let reason = match self.ask(&order.line)? {
            Ok(_) => {
                for address in &order.addresses {
                    self.pending.remove(address);
                }
                return Ok(order.addresses.len());
            }
            Err(reason) => reason,
        };
        // The daemon moves all or none, and of many one may be the reason.
        if order.addresses.len() > 1 {
            let mut moved = 0;
            for address in &order.addresses {
                for single in own.moves(state, [address]) {
                    moved += self.order(own, state, single, tell)?;
                }
            }
            return Ok(moved);
        }
        self.pending.extend(order.addresses);
        self.refused(&order.line, &reason, tell);
        Ok(0)
    }

    /// Takes addresses for an interface of this daemon, ahead of the store. Errors within: the daemon's reason.
    pub fn take(&mut self, request: &Request, revision: u64) -> io::Result<Result<(), String>> {
        let macs = request.addresses.iter().copied();
        let to = PortName::Interface(request.to.interface.clone());
        let line = move_line(macs, &to, &request.network, revision);
        Ok(self.ask(&line)?.map(|_| ()))
    }

    /// Tries again what was refused. Returns how many addresses were moved.
    pub fn retry(&mut self, own: &Own, state: &State, tell: Tell<'_>) -> io::Result<usize> {
        if self.is_unconfigured {
            self.configure(own, state, tell)?;
        }
        let pending: Vec<Address> = self.pending.iter().cloned().collect();
        // One that has no place any more is no longer wanted.
        self.pending
            .retain(|address| state.places.contains_key(address));
        self.relocate(own, state, &pending, tell)
    }

    /// Asks for nothing, which a daemon that is gone does not answer.
    pub fn ping(&mut self) -> io::Result<()> {
        self.switch.say("").map(|_| ())
    }

    fn ask(&mut self, line: &str) -> io::Result<Result<Vec<String>, String>> {
        let answer = self.switch.say(line)?;
        Ok(answer.map_err(|refusal| refusal.message))
    }

    fn refused(&mut self, line: &str, reason: &str, tell: Tell<'_>) {
        let event = Event::Refused {
            line: line.into(),
            reason: reason.into(),
        };
        if self.told.len() >= MAX_TOLD {
            self.told.clear();
        }
        if self.told.insert(format!("{line}\n{reason}")) {
            tell(&event);
        }
    }
}
