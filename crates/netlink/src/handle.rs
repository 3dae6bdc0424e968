//! The socket: opening it in a namespace, sending batches, collecting errors, reading dumps.
//!
//! **Batches.** The kernel works through all messages of one `sendmsg` in order before the call
//! returns. Only the last message of a chunk asks for an acknowledgement; the others answer only if
//! they fail. So a chunk of a hundred successful changes costs one send and one receive, and its
//! acknowledgement proves that everything before it was processed. Chunks are bounded so that even
//! if every request failed, the errors fit the socket's receive buffer and none is lost.
//!
//! **Namespaces.** A netlink socket keeps the network namespace of the thread that created it. To get one for another
//! namespace, a short-lived thread enters it, opens the socket and hands it back; the caller's thread never moves.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER, protocols::NETLINK_ROUTE};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::attribute::{attribute, string_of, u32_of};
use crate::error::Error;
use crate::request::Request;

/// Most requests in one send. An error answer occupies under 1 KiB of the receive buffer, whose default is 208 KiB.
const CHUNK_REQUESTS: usize = 128;
/// Most bytes in one send; below the default send buffer of 208 KiB with its overheads.
const CHUNK_BYTES: usize = 64 * 1024;
/// Receive buffer in bytes: the kernel fills dump messages up to 32 KiB.
const RECEIVE_BYTES: usize = 64 * 1024;
/// How often a dump is started again when the kernel says it changed under us.
const DUMP_ATTEMPTS: usize = 8;

const HEADER_BYTES: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;

/// An rtnetlink socket bound to one network namespace.
pub struct Handle {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

struct Answer<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    payload: &'a [u8],
}

impl Handle {
    /// Opens a handle in the calling thread's network namespace.
    pub fn open() -> Result<Self, Error> {
        Self::open_for(NETLINK_ROUTE, "open a route netlink socket")
    }

    /// The number of tables of nftables in the calling thread's network namespace; none where the kernel has no
    /// nftables. Rules of `iptables-nft` are in such tables, too.
    pub fn nftables() -> Result<usize, Error> {
        const NFT_MSG_GETTABLE: u16 = 10 << 8 | 1;
        let mut netfilter = Self::open_for(NETLINK_NETFILTER, "open a netfilter socket")?;
        let any_family = [0; 4];
        let request = Request::raw(NFT_MSG_GETTABLE, 0, &any_family, "list tables".into());
        match netfilter.dump(&request, |_| Some(())) {
            Ok(tables) => Ok(tables.len()),
            Err(Error::Refused { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn open_for(protocol: isize, action: &'static str) -> Result<Self, Error> {
        let socket = Socket::new(protocol)
            .and_then(|mut socket| {
                socket.bind_auto()?;
                socket.connect(&SocketAddr::new(0, 0))?;
                socket.set_cap_ack(true)?;
                socket.set_ext_ack(true)?;
                Ok(socket)
            })
            .map_err(Error::socket(action))?;
        Ok(Self {
            socket,
            sequence: 0,
            buffer: vec![0; RECEIVE_BYTES],
        })
    }

    /// Opens a handle in the network namespace `netns` refers to, from any thread.
    pub fn open_in(netns: BorrowedFd<'_>) -> Result<Self, Error> {
        let mut handles = Self::open_each(&[netns])?;
        Ok(handles.remove(0))
    }

    /// Opens one handle per namespace, all from one short-lived thread.
    pub fn open_each(namespaces: &[BorrowedFd<'_>]) -> Result<Vec<Self>, Error> {
        let open = || {
            namespaces
                .iter()
                .map(|&netns| {
                    let kind = Some(LinkNameSpaceType::Network);
                    move_into_link_name_space(netns, kind)
                        .map_err(Error::socket("enter a network namespace"))?;
                    Self::open()
                })
                .collect()
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("netlink-open".into());
            let failed = Error::socket("start a thread to enter a network namespace");
            let thread = thread.spawn_scoped(scope, open).map_err(failed)?;
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    pub fn apply(&mut self, request: &Request<'_>) -> Result<(), Error> {
        self.apply_each(std::slice::from_ref(request))?.remove(0)
    }

    /// Makes many changes, in order, going on after failures; fails with all of their errors.
    pub fn apply_all(&mut self, requests: &[Request<'_>]) -> Result<(), Error> {
        let results = self.apply_each(requests)?;
        Error::join(
            results.into_iter().filter_map(Result::err).collect(),
            requests.len(),
        )
    }

    /// Makes many changes, in order, and tells the fate of each. The outer error means that the
    /// socket failed and the fate of the remaining requests is unknown.
    pub fn apply_each(
        &mut self,
        requests: &[Request<'_>],
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let mut results = Vec::with_capacity(requests.len());
        let mut rest = requests;
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(chunk_length(rest));
            self.apply_chunk(chunk, &mut results)?;
            rest = after;
        }
        Ok(results)
    }

    fn apply_chunk(
        &mut self,
        chunk: &[Request<'_>],
        results: &mut Vec<Result<(), Error>>,
    ) -> Result<(), Error> {
        let base = results.len();
        let first = self.sequence.wrapping_add(1);
        let mut bytes = Vec::with_capacity(chunk.iter().map(Request::len).sum());
        for (position, request) in chunk.iter().enumerate() {
            let last = position + 1 == chunk.len();
            self.sequence = self.sequence.wrapping_add(1);
            request.emit(&mut bytes, self.sequence, if last { NLM_F_ACK } else { 0 });
            results.push(Ok(()));
        }
        self.send(&bytes)?;
        let mut answered = false;
        while !answered {
            let received = self.receive()?;
            for answer in answers(&self.buffer[..received]) {
                // Positions outside the chunk belong to an earlier exchange that failed half-way.
                let position = answer.sequence.wrapping_sub(first) as usize;
                if position >= chunk.len() || answer.kind != NLMSG_ERROR {
                    continue;
                }
                results[base + position] = refusal(&answer, chunk[position].action());
                answered |= position + 1 == chunk.len();
            }
        }
        Ok(())
    }

    /// Asks a question and gives every answered message's payload to `read`. A dump that the
    /// kernel marks as interrupted is thrown away and asked again.
    pub(crate) fn dump<T>(
        &mut self,
        request: &Request<'_>,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, Error> {
        for _ in 0..DUMP_ATTEMPTS {
            if let Some(found) = self.dump_once(request, &read)? {
                return Ok(found);
            }
        }
        Err(Error::Malformed {
            action: request.action().to_owned(),
            reason: format!("the table changed during each of {DUMP_ATTEMPTS} dumps"),
        })
    }

    fn dump_once<T>(
        &mut self,
        request: &Request<'_>,
        read: &impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Error> {
        self.post(request, NLM_F_DUMP)?;
        let (mut found, mut interrupted) = (Vec::new(), false);
        loop {
            let received = self.receive()?;
            for answer in answers(&self.buffer[..received]) {
                if answer.sequence != self.sequence {
                    continue;
                }
                interrupted |= answer.flags & NLM_F_DUMP_INTR != 0;
                match answer.kind {
                    NLMSG_DONE => {
                        refusal(&answer, request.action())?;
                        return Ok((!interrupted).then_some(found));
                    }
                    NLMSG_ERROR => refusal(&answer, request.action())?,
                    _ => found.extend(read(answer.payload)),
                }
            }
        }
    }

    /// Asks for one object and reads the answer; `None` if the kernel says there is none.
    pub(crate) fn ask<T>(
        &mut self,
        request: &Request<'_>,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        self.post(request, NLM_F_ACK)?;
        let mut found = None;
        loop {
            let received = self.receive()?;
            for answer in answers(&self.buffer[..received]) {
                if answer.sequence != self.sequence {
                    continue;
                }
                if answer.kind != NLMSG_ERROR {
                    found = read(answer.payload);
                    continue;
                }
                return match refusal(&answer, request.action()) {
                    Ok(()) => Ok(found),
                    Err(error) if error.is_not_found() => Ok(None),
                    Err(error) => Err(error),
                };
            }
        }
    }

    /// Sends a request under the next number.
    fn post(&mut self, request: &Request<'_>, flags: u16) -> Result<(), Error> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut bytes = Vec::with_capacity(request.len());
        request.emit(&mut bytes, self.sequence, flags);
        self.send(&bytes)
    }

    fn send(&self, bytes: &[u8]) -> Result<(), Error> {
        let sent = match self.socket.send(bytes, 0) {
            Ok(sent) if sent < bytes.len() => {
                let reason = "sent only in part";
                Err(io::Error::new(io::ErrorKind::WriteZero, reason))
            }
            sent => sent.map(drop),
        };
        sent.map_err(Error::socket("send a netlink request"))
    }

    fn receive(&mut self) -> Result<usize, Error> {
        loop {
            let mut window = &mut self.buffer[..];
            // With MSG_TRUNC the true length is returned even when the buffer was too small.
            let received = match self.socket.recv(&mut window, libc::MSG_TRUNC) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(length) if length > RECEIVE_BYTES => {
                    let reason = format!("answer of {length} bytes");
                    Err(io::Error::new(io::ErrorKind::InvalidData, reason))
                }
                received => received,
            };
            return received.map_err(Error::socket("receive a netlink answer"));
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("fd", &self.socket.as_raw_fd())
            .finish_non_exhaustive()
    }
}

/// How many of the leading requests go into one send; at least one.
fn chunk_length(requests: &[Request<'_>]) -> usize {
    let mut bytes = 0;
    let fits = requests.iter().take(CHUNK_REQUESTS).take_while(|request| {
        bytes += request.len();
        bytes <= CHUNK_BYTES
    });
    fits.count().max(1)
}

/// The messages of one datagram; stops at the first whose length makes no sense.
fn answers(mut bytes: &[u8]) -> impl Iterator<Item = Answer<'_>> {
    std::iter::from_fn(move || {
        let header = bytes.get(..HEADER_BYTES)?;
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| header[at + i]));
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let length = word(0) as usize;
        let payload = bytes.get(HEADER_BYTES..length)?;
        let answer = Answer {
            kind: half(4),
            flags: half(6),
            sequence: word(8),
            payload,
        };
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(answer)
    })
}

/// Reads an `NLMSG_ERROR` or the trailer of an `NLMSG_DONE`: errno zero is an acknowledgement.
fn refusal(answer: &Answer<'_>, action: &str) -> Result<(), Error> {
    let code = match answer.payload.first_chunk() {
        Some(code) => i32::from_ne_bytes(*code),
        // A kernel may end a dump with an empty NLMSG_DONE.
        None if answer.kind == NLMSG_DONE => 0,
        None => {
            return Err(Error::Malformed {
                action: action.to_owned(),
                reason: format!("error message of {} bytes", answer.payload.len()),
            });
        }
    };
    if code == 0 {
        return Ok(());
    }
    Err(Error::Refused {
        action: action.to_owned(),
        source: io::Error::from_raw_os_error(code.saturating_neg()),
        detail: extended_acknowledgement(answer),
    })
}

/// The kernel's words for a refusal. They follow the errno and the request's header (and, unless
/// the answer is capped, the request's payload); after an `NLMSG_DONE` they follow the errno.
fn extended_acknowledgement(answer: &Answer<'_>) -> Option<String> {
    if answer.flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let skip = if answer.kind == NLMSG_DONE {
        4
    } else if answer.flags & NLM_F_CAPPED != 0 {
        4 + HEADER_BYTES
    } else {
        let length = u32_of(answer.payload.get(4..8)?)? as usize;
        4 + length.next_multiple_of(4)
    };
    attribute(answer.payload.get(skip..)?, NLMSGERR_ATTR_MSG).map(string_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER_BYTES + payload.len()) as u32)
            .to_ne_bytes()
            .to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn extended_acknowledgement_is_part_of_the_error() {
        let mut payload = (-libc::EINVAL).to_ne_bytes().to_vec();
        payload.extend([0; HEADER_BYTES]);
        payload.extend([12, 0, 1, 0]);
        payload.extend(b"bad mtu\0");
        let bytes = message(NLMSG_ERROR, NLM_F_CAPPED | NLM_F_ACK_TLVS, 7, &payload);
        let answer = answers(&bytes).next().unwrap();
        assert_eq!(answer.sequence, 7);
        let error = refusal(&answer, "create bridge br0").unwrap_err();
        assert_eq!(
            error.to_string(),
            "create bridge br0: Invalid argument (os error 22) (bad mtu)"
        );
    }

    #[test]
    fn errno_zero_is_an_acknowledgement_and_a_short_one_is_malformed() {
        let ok = message(NLMSG_ERROR, 0, 1, &[0; 20]);
        assert!(refusal(&answers(&ok).next().unwrap(), "x").is_ok());
        let short = message(NLMSG_ERROR, 0, 1, &[0; 2]);
        let error = refusal(&answers(&short).next().unwrap(), "x").unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }));
        let done = message(NLMSG_DONE, 0, 1, &[]);
        assert!(refusal(&answers(&done).next().unwrap(), "x").is_ok());
    }

    #[test]
    fn nonsense_lengths_end_the_walk() {
        let mut bytes = message(NLMSG_ERROR, 0, 1, &[0; 4]);
        bytes.extend(message(NLMSG_ERROR, 0, 2, &[0; 4]));
        let second = HEADER_BYTES + 4;
        for length in [0u32, 15, 4000, u32::MAX] {
            bytes[second..second + 4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(
                answers(&bytes).count(),
                1,
                "second message of length {length}"
            );
        }
    }

    #[test]
    fn chunks_are_bounded_and_never_empty() {
        let request = crate::link::delete("eth0");
        let many: Vec<_> = (0..1000).map(|_| request.clone()).collect();
        assert_eq!(chunk_length(&many), CHUNK_REQUESTS);
        assert_eq!(chunk_length(&many[..3]), 3);
    }
}
