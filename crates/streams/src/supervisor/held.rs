//! A call of a program that is held until it is answered.

use std::cell::OnceCell;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::fstat;
use rustix::io::Errno;

use crate::descriptors::{References, group_of, references};
use crate::ledger::Entry;
use crate::registry::NodeId;
use crate::sys::listener::{Call, Listener};
use crate::sys::socket;
use crate::sys::task::{Memory, Task};

/// The processes that share a filter: those started by one `latlab exec`, and their children.
#[derive(Debug)]
pub(super) struct Session {
    pub listener: Listener,
    pub node: NodeId,
    /// Its place among all sessions.
    pub number: usize,
    group: OnceCell<Option<PathBuf>>,
}

impl Session {
    pub(super) fn new(listener: Listener, node: NodeId, number: usize) -> Self {
        Self {
            listener,
            node,
            number,
            group: OnceCell::new(),
        }
    }

    /// The file that lists the processes of the node's cgroup, which `task` is in.
    pub(super) fn group(&self, task: u32) -> Option<&Path> {
        self.group.get_or_init(|| group_of(task)).as_deref()
    }
}

#[derive(Debug)]
pub(super) struct Held {
    pub session: Rc<Session>,
    pub call: Call,
    /// Its record, for the keeper.
    pub _entry: Entry,
}

/// Why a task cannot be reached: it is gone, unless we lack descriptors or memory.
fn reason(error: &std::io::Error) -> Errno {
    match Errno::from_io_error(error) {
        Some(lack @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => lack,
        _ => Errno::SRCH,
    }
}

impl Held {
    pub(super) fn node(&self) -> NodeId {
        self.session.node
    }

    /// Its task, if that still waits.
    pub(super) fn task(&self) -> Result<Task, Errno> {
        let task = Task::open(self.call.task).map_err(|e| reason(&e))?;
        self.is_valid().then_some(task).ok_or(Errno::SRCH)
    }

    /// The memory of its task, if that still waits.
    pub(super) fn memory(&self) -> Result<Memory, Errno> {
        let memory = Memory::open(self.call.task).map_err(|e| reason(&e))?;
        self.is_valid().then_some(memory).ok_or(Errno::SRCH)
    }

    /// The socket at its first argument, with the socket's cookie.
    pub(super) fn socket(&self) -> Option<(OwnedFd, u64)> {
        let file = self.task().ok()?.file(self.call.int(0)).ok()?;
        let cookie = socket::cookie(file.as_fd()).ok()?;
        Some((file, cookie))
    }

    /// The references to the socket at its first argument.
    pub(super) fn references(&self, socket: &OwnedFd) -> Result<References, Errno> {
        let (task, number) = (self.call.task, self.call.int(0));
        let inode = fstat(socket)?.st_ino;
        let group = self.session.group(task);
        references(task, group, number, inode).map_err(|_| Errno::BADF)
    }

    /// Writes an address and its length, the second and third argument, as the kernel does: cut off where the room
    /// ends, with the whole length.
    pub(super) fn write_name(&self, name: &[u8]) -> Result<(), Errno> {
        let memory = self.memory()?;
        let (name_at, length_at) = (self.call.arguments[1], self.call.arguments[2]);
        let room = read_length(&memory, length_at)?;
        memory.write(name_at, &name[..name.len().min(room)])?;
        memory.write(length_at, &(name.len() as u32).to_ne_bytes())
    }

    /// Whether its task still waits.
    pub(super) fn is_valid(&self) -> bool {
        self.session.listener.is_valid(self.call.id)
    }

    /// Has the kernel carry the call out. The task may be gone, which ends the matter as well.
    pub(super) fn proceed(&self) {
        self.session.listener.proceed(self.call.id).ok();
    }

    /// Refuses to connect a shadow anew or to have it listen, also where its connection is forgotten: the kernel would do that in
    /// the shadow's network namespace, which is none of the program's.
    pub(super) fn refuse(&self) {
        self.answer(Err(Errno::INVAL));
    }

    /// Answers. The task may have been interrupted meanwhile, which ends the matter as well.
    pub(super) fn answer(&self, result: Result<(), Errno>) {
        self.session.listener.answer(self.call.id, result).ok();
    }
}

/// A length in a task's memory, which may not be negative.
pub(super) fn read_length(memory: &Memory, at: u64) -> Result<usize, Errno> {
    let bytes: [u8; 4] = memory.read(at, 4)?.try_into().map_err(|_| Errno::FAULT)?;
    usize::try_from(i32::from_ne_bytes(bytes)).map_err(|_| Errno::INVAL)
}
