//! The loop, and what it dispatches.

use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::accepts::Accepts;
use super::connection::{ConnectionId, State};
use super::held::{Held, Session};
use super::state::{Error, Source, Supervisor, failed};
use super::stopped::released;

/// How often closed streams are looked for.
const SWEEP_PERIOD: Duration = Duration::from_millis(500);
/// Times that a search has to be awaited before the next one: with many connections the kernel's tables are long.
const SHARE: u32 = 10;

impl Supervisor {
    /// Answers calls until the process is ended.
    pub fn run(&mut self) -> Result<(), Error> {
        loop {
            let timeout = self
                .next_deadline()
                .saturating_duration_since(Instant::now());
            let events = self.poller.wait(timeout).map_err(failed("wait"))?;
            for (token, flags) in events {
                self.dispatch(token, flags);
            }
            self.expire();
            if Instant::now() >= self.next_sweep {
                let begin = Instant::now();
                self.sweep();
                self.check_offers();
                self.forget_interrupted();
                let stuck = std::mem::take(&mut self.stuck);
                self.stuck.extend(released(stuck, Duration::ZERO));
                self.next_sweep = Instant::now() + SWEEP_PERIOD.max(begin.elapsed() * SHARE);
            }
        }
    }

    fn dispatch(&mut self, token: u64, flags: EventFlags) {
        match self.sources.get(&token) {
            // Its source was removed meanwhile.
            None => {}
            Some(Source::Control) => self.welcome(),
            Some(Source::Client(_)) => self.request(token),
            Some(Source::Session(session)) => {
                let session = session.clone();
                self.receive(token, &session, flags);
            }
            Some(Source::Connecting(id)) => self.connected(*id),
            Some(Source::Accepting(cookie)) => self.acceptable(*cookie),
            Some(Source::Offered(id)) => self.abandoned(*id),
        }
    }

    fn receive(&mut self, token: u64, session: &Rc<Session>, flags: EventFlags) {
        if !flags.contains(EventFlags::IN) {
            // No task is left under the filter.
            if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
                self.poller.remove(session.listener.descriptor());
                self.sources.remove(&token);
            }
            return;
        }
        if let Ok(Some(call)) = session.listener.receive() {
            let session = session.clone();
            let entry = self.ledger.note(session.number, call.id);
            self.call(Held {
                session,
                call,
                _entry: entry,
            });
        }
    }

    pub(super) fn call(&mut self, held: Held) {
        match held.call.number {
            libc::SYS_connect => self.connect(held),
            libc::SYS_accept => self.accept(held, 0),
            libc::SYS_accept4 => {
                let flags = held.call.int(3);
                self.accept(held, flags);
            }
            libc::SYS_listen => self.listen(&held),
            libc::SYS_getsockname => self.local_name(&held),
            libc::SYS_getpeername => self.peer_name(&held),
            libc::SYS_getsockopt => self.get_option(&held),
            libc::SYS_setsockopt => self.set_option(&held),
            libc::SYS_ioctl => self.unacknowledged(&held),
            libc::SYS_io_uring_setup => {
                self.registry.unseen(held.node());
                held.proceed();
            }
            _ => held.proceed(),
        }
    }

    fn next_deadline(&self) -> Instant {
        let connecting = self
            .connecting
            .iter()
            .filter_map(|id| self.deadline_of(*id));
        let accepting = self.accepts.values().filter_map(Accepts::deadline);
        connecting
            .chain(accepting)
            .fold(self.next_sweep, Instant::min)
    }

    fn deadline_of(&self, id: ConnectionId) -> Option<Instant> {
        match &self.connections.get(id)?.state {
            State::Connecting(connecting) => connecting.deadline,
            _ => None,
        }
    }

    /// Acts on what has come due.
    fn expire(&mut self) {
        let now = Instant::now();
        let is_due = |id: &ConnectionId| self.deadline_of(*id).is_some_and(|at| at <= now);
        let due: Vec<ConnectionId> = self.connecting.iter().copied().filter(is_due).collect();
        due.into_iter().for_each(|id| self.too_slow(id));
        self.expire_accepts(now);
    }
}
