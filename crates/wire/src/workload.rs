//! Requests of the host to a container's first process: to start a command as its own child.
//!
//! A request is one message on a pair of sockets that keeps the bounds of messages: an `Exec` of the guests' channel,
//! with two descriptors. The first is the file for both outputs of the command, the second a pipe for the answer. Of a
//! command whose connections are held there are two more: a file with the filter (`struct sock_filter`, eight bytes
//! each), and a socket that takes its listener (seccomp_unotify(2)).

use crate::channel::{HEADER_BYTES, MAX_PAYLOAD};

/// The host's end of the pair, which the first process keeps for whichever latlab takes a copy of it (pidfd_getfd(2)).
/// Above all that a first process opens.
pub const HOST_FD: i32 = 63;

/// No request is longer.
pub const REQUEST_BYTES: usize = HEADER_BYTES + MAX_PAYLOAD;

pub const ANSWER_BYTES: usize = 5;

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Runs, with this number in the container.
    Started(u32),
    /// The directory cannot be entered, for the kernel's reason.
    NoDirectory(i32),
    /// The program cannot be executed, for the kernel's reason.
    NotExecuted(i32),
}

impl Answer {
    pub fn to_bytes(self) -> [u8; ANSWER_BYTES] {
        let (kind, number) = match self {
            Answer::Started(pid) => (0, pid.to_le_bytes()),
            Answer::NoDirectory(errno) => (1, errno.to_le_bytes()),
            Answer::NotExecuted(errno) => (2, errno.to_le_bytes()),
        };
        let [a, b, c, d] = number;
        [kind, a, b, c, d]
    }

    /// `None` for bytes that are no answer.
    pub fn parse(bytes: [u8; ANSWER_BYTES]) -> Option<Answer> {
        let [kind, number @ ..] = bytes;
        Some(match kind {
            0 => Answer::Started(u32::from_le_bytes(number)),
            1 => Answer::NoDirectory(i32::from_le_bytes(number)),
            2 => Answer::NotExecuted(i32::from_le_bytes(number)),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_back_as_they_were_and_others_are_none() {
        for answer in [
            Answer::Started(7),
            Answer::NoDirectory(2),
            Answer::NotExecuted(13),
        ] {
            assert_eq!(Answer::parse(answer.to_bytes()), Some(answer));
        }
        assert_eq!(Answer::parse([9, 0, 0, 0, 0]), None);
    }
}
