//! A listener of seccomp notifications (seccomp_unotify(2)): calls that tasks under a filter make, and their answers.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

/// Executes the call as if there were no filter (`linux/seccomp.h`).
const CONTINUE: u32 = 1;
/// Puts the descriptor at a number.
const SET_FD: u32 = 1;
/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`.
const SYNC_WAKE_UP: libc::c_ulong = 1;
/// Answers the call with the descriptor's number in the same step (Linux 5.14).
const SEND: u32 = 2;

#[derive(Debug)]
pub struct Listener(OwnedFd);

/// A call that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    pub id: u64,
    /// The task's number as this process sees it.
    pub task: u32,
    pub number: i64,
    pub arguments: [u64; 6],
}

impl Call {
    /// An argument that is an `int`.
    pub fn int(&self, index: usize) -> i32 {
        self.arguments[index] as i32
    }
}

impl Listener {
    pub fn new(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Tells the kernel that a task waits while we work, so that we had better run on its CPU (Linux 6.6).
    pub fn wake_in_turn(&self) -> Result<(), Errno> {
        let wanted: libc::c_ulong = SYNC_WAKE_UP;
        // SAFETY: the request takes its flags by value.
        let result = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                wanted,
            )
        };
        match result {
            0.. => Ok(()),
            _ => Err(last_error()),
        }
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.0.as_fd()
    }

    /// The next call. `None` if its task was interrupted meanwhile. Blocks while there is none.
    pub fn receive(&self) -> io::Result<Option<Call>> {
        // SAFETY: a plain C structure, and the kernel demands zeroes.
        let mut notification: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        match self.control(libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notification) {
            Ok(_) => Ok(Some(Call {
                id: notification.id,
                task: notification.pid,
                number: notification.data.nr.into(),
                arguments: notification.data.args,
            })),
            Err(Errno::NOENT | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the task still waits. What was opened by its number before is the task's then.
    pub fn is_valid(&self, id: u64) -> bool {
        let mut id = id;
        self.control(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw mut id)
            .is_ok()
    }

    /// Has the kernel carry out the call.
    pub fn proceed(&self, id: u64) -> Result<(), Errno> {
        self.send(id, 0, CONTINUE)
    }

    /// Has the call return 0, or fail.
    pub fn answer(&self, id: u64, result: Result<(), Errno>) -> Result<(), Errno> {
        let error = result.err().map_or(0, |error| -error.raw_os_error());
        self.send(id, error, 0)
    }

    fn send(&self, id: u64, error: i32, flags: u32) -> Result<(), Errno> {
        let mut response = libc::seccomp_notif_resp {
            id,
            val: 0,
            error,
            flags,
        };
        self.control(libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response)
            .map(drop)
    }

    /// Puts `file` in the place of the task's descriptor `number`.
    pub fn replace(
        &self,
        id: u64,
        file: BorrowedFd<'_>,
        number: i32,
        close_on_exec: bool,
    ) -> Result<(), Errno> {
        self.add(id, file, SET_FD, number as u32, close_on_exec)
            .map(drop)
    }

    /// Gives `file` to the task and answers the call with its number there.
    pub fn give(&self, id: u64, file: BorrowedFd<'_>, close_on_exec: bool) -> Result<i32, Errno> {
        self.add(id, file, SEND, 0, close_on_exec)
    }

    fn add(
        &self,
        id: u64,
        file: BorrowedFd<'_>,
        flags: u32,
        number: u32,
        close_on_exec: bool,
    ) -> Result<i32, Errno> {
        let mut request = libc::seccomp_notif_addfd {
            id,
            flags,
            srcfd: file.as_raw_fd() as u32,
            newfd: number,
            newfd_flags: if close_on_exec {
                libc::O_CLOEXEC as u32
            } else {
                0
            },
        };
        self.control(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut request)
    }

    fn control<T>(&self, request: libc::Ioctl, argument: *mut T) -> Result<i32, Errno> {
        // SAFETY: each caller passes the structure that its request reads and writes, which outlives the call.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) };
        match result {
            0.. => Ok(result),
            _ => Err(last_error()),
        }
    }
}

pub(super) fn last_error() -> Errno {
    let error = io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
