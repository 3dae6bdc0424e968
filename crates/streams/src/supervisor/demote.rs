//! Streams become plain connections again: programs get their anchors back, which carry what was not read yet.
//!
//! All processes that have an end of them are stopped meanwhile, so no program sees a moment in between. A stream that
//! cannot be exchanged at both ends stays one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use latlab_wire::streams::Demoted;
use rustix::fs::{fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{Shutdown, shutdown};

use super::connection::{Connection, ConnectionId, End, Side, State};
use super::held::Session;
use super::rescue::RESETTING;
use super::state::Supervisor;
use super::stopped::Stopped;
use crate::descriptors::{Place, References, is_frozen, places, references};
use crate::drain::{self, Tail};
use crate::options;
use crate::registry::NodeId;
use crate::shadow::Kind;
use crate::sys::task::Task;
use crate::sys::{registrations, socket};

/// How often descriptors are looked for again: a process that ran may have made another one.
const ROUNDS: usize = 8;

/// Why a stream stays one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// Its server's end is relayed, and no program has a shadow of it.
    Relayed,
    /// A process that has it cannot be stopped, as under a debugger.
    NotStopped,
    /// A process that has it belongs to a node that is paused.
    Paused,
    /// Its descriptor is not among those of the node's cgroup: on its way between two processes, or in an io_uring.
    NotFound,
    /// An urgent byte waits, whose place among the others cannot be kept.
    UrgentData,
    NotExchanged,
}

impl Kept {
    fn word(self) -> &'static str {
        match self {
            Kept::Relayed => "relayed",
            Kept::NotStopped => "not-stopped",
            Kept::Paused => "paused",
            Kept::NotFound => "not-found",
            Kept::UrgentData => "urgent-data",
            Kept::NotExchanged => "not-exchanged",
        }
    }
}

/// An end of a stream while its processes are stopped.
struct Half {
    /// None: it was not accepted yet.
    anchor: Option<OwnedFd>,
    /// None: it is closed.
    shadow: Option<OwnedFd>,
    /// Where programs have it.
    held: Vec<(Place, References)>,
    session: Option<Rc<Session>>,
}

/// Descriptors of streams, by the inodes of their shadows.
type Places = HashMap<u64, Vec<Place>>;

impl Supervisor {
    /// Has the streams of a node, or of all nodes, be plain connections from now on: those to some ports, or to any.
    /// Streams may begin meanwhile unless they are switched off.
    pub(super) fn demote(&mut self, node: Option<NodeId>, ports: &[u16]) -> Demoted {
        let is_concerned = |connection: &Connection| {
            let client = match &connection.state {
                State::Connecting(connecting) => Some(connecting.held.node()),
                _ => connection.client.as_ref().map(|end| end.session.node),
            };
            let key = connection.key;
            let is_to = ports.is_empty() || ports.contains(&key.local.port());
            is_to && node.is_none_or(|node| key.server == node || client == Some(node))
        };
        let concerned = self.connections.iter().filter(|(_, c)| is_concerned(c));
        let (connecting, ids): (Vec<ConnectionId>, Vec<ConnectionId>) = concerned
            .map(|(id, _)| id)
            .partition(|id| self.connecting.contains(id));
        connecting
            .into_iter()
            .for_each(|id| self.leave_to_kernel(id));
        let begin = Instant::now();
        let mut stopped = Stopped::new(self.ledger.clone());
        let found = self.stop_holders(&ids, &mut stopped);
        if let Some((places, _)) = &found {
            self.let_go_of_closed(&ids, places);
        }
        let (found, unstopped) = found.unwrap_or_default();
        // Without the tables no end counts as closed.
        let open = self.open_shadows().ok();
        let (mut demoted, mut kept) = (Demoted::default(), BTreeMap::new());
        for id in ids {
            let halves = self.halves(id, &found, open.as_ref(), &unstopped);
            match halves.and_then(|halves| self.demote_one(id, &halves, &mut stopped)) {
                Ok(Some(bytes)) => {
                    demoted.streams += 1;
                    demoted.bytes += bytes;
                }
                Ok(None) => demoted.reset += 1,
                Err(reason) => *kept.entry(reason.word()).or_default() += 1,
            }
        }
        let kept = kept.into_iter();
        demoted.kept = kept.map(|(word, count)| (word.into(), count)).collect();
        let (calls, stuck) = stopped.let_go();
        self.stuck.extend(stuck);
        demoted.stopped_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        calls.into_iter().for_each(|held| self.call(held));
        demoted
    }

    /// Drops our own references to shadows that no process has, by which they would count as open.
    fn let_go_of_closed(&mut self, ids: &[ConnectionId], found: &Places) {
        for id in ids {
            let Some(connection) = self.connections.get_mut(*id) else {
                continue;
            };
            let client = connection.client.as_ref();
            let is_held = client.is_some_and(|client| found.contains_key(&client.inode));
            if let (State::Offered(offered), false) = (&mut connection.state, is_held) {
                offered.client_shadow = None;
            }
        }
    }

    /// Stops all processes that have a shadow of these streams. Returns their descriptors, and why processes were not
    /// stopped; `None` where new ones appear again and again.
    fn stop_holders(
        &self,
        ids: &[ConnectionId],
        stopped: &mut Stopped,
    ) -> Option<(Places, HashMap<u32, Kept>)> {
        let mut inodes = HashSet::new();
        let mut groups: BTreeSet<PathBuf> = BTreeSet::new();
        for connection in ids.iter().filter_map(|id| self.connections.get(*id)) {
            for end in connection.ends() {
                inodes.insert(end.inode);
                groups.extend(end.session.group(end.task).map(PathBuf::from));
            }
        }
        let mut unstopped = HashMap::new();
        for _ in 0..ROUNDS {
            let mut found = Places::new();
            let mut is_new = false;
            for (inode, place) in groups.iter().flat_map(|group| places(group, &inodes)) {
                found.entry(inode).or_default().push(place);
                if !stopped.has(place.process) && !unstopped.contains_key(&place.process) {
                    is_new = true;
                    if let Err(reason) = stop(stopped, place.process) {
                        unstopped.insert(place.process, reason);
                    }
                }
            }
            if !is_new {
                return Some((found, unstopped));
            }
        }
        None
    }

    /// Both ends of a stream, the client's first.
    fn halves(
        &self,
        id: ConnectionId,
        found: &Places,
        open: Option<&HashSet<u64>>,
        unstopped: &HashMap<u32, Kept>,
    ) -> Result<[Half; 2], Kept> {
        let connection = self.connections.get(id).ok_or(Kept::NotFound)?;
        let half = |side| {
            let Some(end) = connection.end(side) else {
                return not_accepted(connection);
            };
            let places = found.get(&end.inode).map_or(&[][..], Vec::as_slice);
            let mut reasons = places.iter().filter_map(|at| unstopped.get(&at.process));
            if let Some(reason) = reasons.next() {
                return Err(*reason);
            }
            let is_open = open.is_none_or(|open| open.contains(&end.inode));
            if places.is_empty() && is_open {
                return Err(Kept::NotFound);
            }
            half_of(end, places).map_err(|_| Kept::NotFound)
        };
        let halves = [half(Side::Client)?, half(Side::Server)?];
        match has_urgent_data(&halves) {
            true => Err(Kept::UrgentData),
            false => Ok(halves),
        }
    }

    /// Exchanges both ends and sends on what they had not read. Returns the number of these bytes; `None` if they could
    /// not be sent, and the connection was reset.
    fn demote_one(
        &mut self,
        id: ConnectionId,
        halves: &[Half; 2],
        stopped: &mut Stopped,
    ) -> Result<Option<u64>, Kept> {
        let kind = self.connections.get(id).map_or(self.kind, |c| c.kind);
        let mut done: Vec<(&Half, &Place, &References)> = Vec::new();
        for half in halves {
            for (place, found) in &half.held {
                if half.exchange(stopped, place, found, true).is_err() {
                    // A process that was killed meanwhile needs none.
                    for (half, place, found) in done {
                        half.exchange(stopped, place, found, false).ok();
                    }
                    return Err(Kept::NotExchanged);
                }
                done.push((half, place, found));
            }
        }
        halves.iter().for_each(|half| half.carry_settings(kind));
        let moved = move_bytes(halves, kind);
        if moved.is_err() {
            // Bytes are lost, so the programs have to see an error.
            for anchor in halves.iter().filter_map(|half| half.anchor.as_ref()) {
                socket::disconnect(anchor.as_fd()).ok();
            }
        }
        if let Some(anchor) = self.client_anchor(id) {
            self.poller.remove(anchor);
        }
        self.forget_connection(id);
        Ok(moved.ok())
    }
}

/// Stops a process, unless it stands still already: one that is led into a call then would not come there.
fn stop(stopped: &mut Stopped, process: u32) -> Result<(), Kept> {
    match is_frozen(process) {
        true => Err(Kept::Paused),
        false => stopped.stop(process).map_err(|_| Kept::NotStopped),
    }
}

/// The server's end of an offer, which is ours.
fn not_accepted(connection: &Connection) -> Result<Half, Kept> {
    let State::Offered(offered) = &connection.state else {
        return Err(Kept::Relayed);
    };
    let shadow = offered.server_shadow.try_clone();
    Ok(Half {
        anchor: None,
        shadow: Some(shadow.map_err(|_| Kept::NotFound)?),
        held: Vec::new(),
        session: None,
    })
}

fn half_of(end: &End, places: &[Place]) -> Result<Half, Errno> {
    let io_failed = |_| Errno::SRCH;
    let mut held = Vec::new();
    let mut shadow = None;
    for place in places {
        let (process, number) = (place.process, place.number);
        held.push((
            *place,
            references(process, None, number, end.inode).map_err(io_failed)?,
        ));
        shadow = Some(Task::open(process).map_err(io_failed)?.file(number)?);
    }
    Ok(Half {
        anchor: Some(end.anchor.try_clone().map_err(io_failed)?),
        shadow,
        held,
        session: Some(end.session.clone()),
    })
}

/// Whether an urgent byte waits that a program has sent. Inline it is one of the bytes; a program that asks for that and looks
/// for its mark is rare.
fn has_urgent_data(halves: &[Half; 2]) -> bool {
    let mut shadows = halves.iter().filter_map(|half| half.shadow.as_ref());
    shadows.any(|own| {
        // Ours makes the close of the end that has it a reset.
        let is_ours = |byte| byte == RESETTING && options::resets_at_close(own.as_fd());
        socket::urgent_byte(own).is_some_and(|byte| !is_ours(byte))
    })
}

impl Half {
    /// Puts the anchor in the place of the shadow, or back, with the registrations in epoll sets.
    fn exchange(
        &self,
        stopped: &mut Stopped,
        place: &Place,
        found: &References,
        forth: bool,
    ) -> Result<(), Errno> {
        let (Some(anchor), Some(shadow), Some(session)) =
            (&self.anchor, &self.shadow, &self.session)
        else {
            return Ok(());
        };
        let (old, new): (BorrowedFd<'_>, BorrowedFd<'_>) = match forth {
            true => (shadow.as_fd(), anchor.as_fd()),
            false => (anchor.as_fd(), shadow.as_fd()),
        };
        // Nothing fails once it is replaced: one end alone would wait for ever.
        let task = Task::open(place.process).map_err(|_| Errno::SRCH)?;
        stopped.replace(*place, session, new, found.close_on_exec)?;
        registrations::move_all(&task, place.number, old, new, &found.registrations);
        Ok(())
    }

    /// Carries over options and flags that programs have set of the shadow.
    fn carry_settings(&self, kind: Kind) {
        if let (Some(anchor), Some(shadow)) = (&self.anchor, &self.shadow) {
            if let Ok(flags) = fcntl_getfl(shadow) {
                fcntl_setfl(anchor, flags).ok();
            }
            options::carry(shadow.as_fd(), anchor.as_fd(), kind);
        }
    }
}

/// Sends what each end has not read through the other one's anchor, and the end of its bytes.
fn move_bytes(halves: &[Half; 2], kind: Kind) -> Result<u64, Errno> {
    let [client, server] = halves;
    let mut count = 0;
    for (from, to) in [(client, server), (server, client)] {
        let Some(anchor) = &from.anchor else { continue };
        let (bytes, tail) = match &to.shadow {
            Some(shadow) => drain::take(shadow, from.shadow.as_ref(), kind)?,
            // No program would read them.
            None => continue,
        };
        drain::put(anchor, &bytes)?;
        count += bytes.len() as u64;
        match tail {
            Tail::Open => {}
            Tail::Finished => drop(shutdown(anchor, Shutdown::Write)),
            // Closed, with what it had not read: dropping the anchor tells that.
            Tail::Reset => drop(set_socket_linger(anchor, Some(Duration::ZERO))),
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SendFlags, send};

    #[test]
    fn the_urgent_byte_that_resets_at_close_is_no_programs() {
        use std::os::unix::net::UnixStream;
        let (one, other) = UnixStream::pair().unwrap();
        let (one, other) = (OwnedFd::from(one), OwnedFd::from(other));
        send(&other, &[RESETTING], SendFlags::OOB).unwrap();
        let half = |shadow: &OwnedFd| Half {
            anchor: None,
            shadow: Some(shadow.try_clone().unwrap()),
            held: Vec::new(),
            session: None,
        };
        let has = || has_urgent_data(&[half(&one), half(&other)]);
        assert!(has());
        set_socket_linger(&other, Some(Duration::ZERO)).unwrap();
        assert!(has());
        set_socket_linger(&one, Some(Duration::ZERO)).unwrap();
        assert!(!has());
        send(&other, b"?", SendFlags::OOB).unwrap();
        assert!(has());
    }
}
