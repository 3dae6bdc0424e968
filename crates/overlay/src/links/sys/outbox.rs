//! Frames to be sent, many per call.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{iovec, mmsghdr, msghdr};

use crate::endpoints::{Counters, DropReason};
use crate::frames::Arena;

use super::address::Address;
use super::socket::{Control, MAX_DATAGRAM};

/// Maximum number of datagrams in one message of UDP segmentation (`UDP_MAX_SEGMENTS` of the oldest kernels).
const MAX_RUN: usize = 64;
/// Maximum number of iovecs in one message (`UIO_MAXIOV`).
const MAX_IOVECS: usize = 1024;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Sent datagrams, and their bytes.
    pub sent: (u64, u64),
    /// Datagrams without room in the socket.
    pub full: u64,
    pub too_long: u64,
    pub refused: u64,
    pub stale: bool,
}

impl Report {
    /// Adds the result to counters; `overhead`: bytes of the link's header per frame.
    pub fn count(&self, counters: &Counters, overhead: usize) {
        let (datagrams, bytes) = self.sent;
        counters
            .sent
            .add(datagrams, bytes - datagrams * overhead as u64);
        for (reason, count) in [
            (DropReason::NoBuffer, self.full),
            (DropReason::TooLong, self.too_long),
            (DropReason::Refused, self.refused),
        ] {
            if count > 0 {
                counters.drop_frames(reason, count);
            }
        }
    }
}

/// Pieces of an arena that leave as one message: datagrams of equal length, except a shorter last one.
#[derive(Debug, Clone, Copy)]
struct Run {
    pieces: (usize, usize),
    each: usize,
    bytes: usize,
    iovecs: (usize, usize),
}

#[derive(Default)]
pub struct Outbox {
    iovecs: Vec<iovec>,
    controls: Vec<Control>,
    headers: Vec<mmsghdr>,
    runs: Vec<Run>,
}

// SAFETY: its pointers are only followed inside of `send`, which writes them first.
unsafe impl Send for Outbox {}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outbox")
    }
}

impl Outbox {
    /// Sends every piece of the arena as a datagram. Neighbours of equal length, at most `segment` bytes, leave in one
    /// message that the kernel or the NIC segments (`UDP_SEGMENT`). Packet sockets need no address. Never blocks.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        to: Option<&Address>,
        arena: &Arena,
        segment: usize,
    ) -> Report {
        self.gather(arena, segment);
        self.address(to);
        let mut report = Report::default();
        let mut next = 0;
        while next < self.runs.len() {
            let sent = send_some(socket, &mut self.headers[next..]);
            let left = sent.as_ref().map_or(0, |sent| *sent);
            for run in &self.runs[next..next + left] {
                report.sent.0 += (run.pieces.1 - run.pieces.0) as u64;
                report.sent.1 += run.bytes as u64;
            }
            match sent {
                Ok(sent) => next += sent,
                Err(error) => {
                    if !self.failed(socket, arena, next, &error, &mut report) {
                        break;
                    }
                    next += 1;
                }
            }
        }
        report
    }

    /// Counts a failed message, or sends its datagrams one by one. True if the next message is worth trying.
    fn failed(
        &mut self,
        socket: BorrowedFd<'_>,
        arena: &Arena,
        at: usize,
        error: &io::Error,
        report: &mut Report,
    ) -> bool {
        let run = self.runs[at];
        let pieces = (run.pieces.1 - run.pieces.0) as u64;
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => {
                let left = &self.runs[at..];
                report.full += left
                    .iter()
                    .map(|run| (run.pieces.1 - run.pieces.0) as u64)
                    .sum::<u64>();
                return false;
            }
            // The path MTU has shrunk, or the device cannot segment.
            Some(libc::EMSGSIZE | libc::EINVAL | libc::EIO) if pieces > 1 => {
                report.stale = true;
                self.one_by_one(socket, arena, at, report);
            }
            Some(libc::EMSGSIZE) => {
                report.stale = true;
                report.too_long += pieces;
            }
            _ => report.refused += pieces,
        }
        true
    }

    fn one_by_one(
        &mut self,
        socket: BorrowedFd<'_>,
        arena: &Arena,
        at: usize,
        report: &mut Report,
    ) {
        let run = self.runs[at];
        let mut first = run.iovecs.0;
        for piece in run.pieces.0..run.pieces.1 {
            let count = 1 + arena.rest(piece).len();
            let mut header = self.headers[at];
            header.msg_hdr.msg_iov = &raw mut self.iovecs[first];
            header.msg_hdr.msg_iovlen = count;
            header.msg_hdr.msg_control = std::ptr::null_mut();
            header.msg_hdr.msg_controllen = 0;
            first += count;
            let error = match send_some(socket, std::slice::from_mut(&mut header)) {
                Ok(_) => {
                    report.sent.0 += 1;
                    report.sent.1 += arena.bytes(piece) as u64;
                    continue;
                }
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => report.full += 1,
                Some(libc::EMSGSIZE) => report.too_long += 1,
                _ => report.refused += 1,
            }
        }
    }

    fn gather(&mut self, arena: &Arena, segment: usize) {
        self.iovecs.clear();
        self.runs.clear();
        for piece in 0..arena.len() {
            let (head, rest) = (arena.head(piece), arena.rest(piece));
            let bytes = arena.bytes(piece);
            let first = self.iovecs.len();
            self.iovecs.push(iovec_of(head.as_ptr(), head.len()));
            let rest = rest.iter().map(|s| iovec_of(s.as_ptr(), s.len()));
            self.iovecs.extend(rest);
            let end = self.iovecs.len();
            if let Some(run) = self.runs.last_mut() {
                let count = run.pieces.1 - run.pieces.0;
                // A shorter piece ends its run.
                let open = run.bytes == count * run.each;
                if open
                    && bytes <= run.each
                    && run.each <= segment
                    && count < MAX_RUN
                    && run.bytes + bytes <= MAX_DATAGRAM
                    && end - run.iovecs.0 <= MAX_IOVECS
                {
                    run.pieces.1 = piece + 1;
                    run.bytes += bytes;
                    run.iovecs.1 = end;
                    continue;
                }
            }
            self.runs.push(Run {
                pieces: (piece, piece + 1),
                each: bytes,
                bytes,
                iovecs: (first, end),
            });
        }
    }

    fn address(&mut self, to: Option<&Address>) {
        self.headers.clear();
        self.controls.clear();
        self.controls.resize(self.runs.len(), Control([0; 64]));
        for (run, control) in self.runs.iter().zip(&mut self.controls) {
            // SAFETY: all zeros is a message header.
            let mut header: mmsghdr = unsafe { zeroed() };
            let message = &mut header.msg_hdr;
            if let Some(to) = to {
                message.msg_name = (&raw const to.storage).cast_mut().cast();
                message.msg_namelen = to.len;
            }
            message.msg_iov = &raw mut self.iovecs[run.iovecs.0];
            message.msg_iovlen = run.iovecs.1 - run.iovecs.0;
            if run.pieces.1 - run.pieces.0 > 1 {
                write_segment_size(message, control, run.each);
            }
            self.headers.push(header);
        }
    }
}

/// Writes pieces of an arena to a stream, from `first` on. Returns the first piece that was not offered, and the
/// number of bytes written. Errors: the kernel's, and a piece with more iovecs than one call takes: writing nothing
/// would succeed, and the caller would retry for ever.
pub fn write_pieces(
    socket: BorrowedFd<'_>,
    arena: &Arena,
    first: usize,
) -> io::Result<(usize, usize)> {
    let mut iovecs = [iovec_of(std::ptr::null(), 0); MAX_IOVECS];
    let (mut count, mut piece) = (0, first);
    while piece < arena.len() {
        let rest = arena.rest(piece);
        if count + 1 + rest.len() > MAX_IOVECS {
            break;
        }
        let head = arena.head(piece);
        iovecs[count] = iovec_of(head.as_ptr(), head.len());
        count += 1;
        for segment in rest {
            iovecs[count] = iovec_of(segment.as_ptr(), segment.len());
            count += 1;
        }
        piece += 1;
    }
    if count == 0 {
        let what = format!("nothing to write, or more than {MAX_IOVECS} iovecs in a piece");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    // SAFETY: all zeros is a message header.
    let mut message: msghdr = unsafe { zeroed() };
    message.msg_iov = iovecs.as_mut_ptr();
    message.msg_iovlen = count;
    // SAFETY: the iovecs lead into an arena that is borrowed, and into memory that is mapped until
    // the batch is complete.
    let sent = unsafe {
        libc::sendmsg(
            socket.as_raw_fd(),
            &raw const message,
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    match usize::try_from(sent) {
        Ok(sent) => Ok((piece, sent)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

fn iovec_of(start: *const u8, len: usize) -> iovec {
    iovec {
        iov_base: start.cast_mut().cast(),
        iov_len: len,
    }
}

fn write_segment_size(message: &mut msghdr, control: &mut Control, each: usize) {
    let each = u16::try_from(each).expect("several datagrams have 64 KiB together");
    message.msg_control = (&raw mut *control).cast();
    // SAFETY: the buffer has room for one control message with two bytes, and the macros lead to its
    // places.
    unsafe {
        message.msg_controllen = libc::CMSG_SPACE(2) as usize;
        let at = libc::CMSG_FIRSTHDR(message);
        (*at).cmsg_level = libc::SOL_UDP;
        (*at).cmsg_type = libc::UDP_SEGMENT;
        (*at).cmsg_len = libc::CMSG_LEN(2) as usize;
        libc::CMSG_DATA(at).cast::<u16>().write_unaligned(each);
    }
}

/// Sends messages; returns how many left, or the error of the first.
fn send_some(socket: BorrowedFd<'_>, headers: &mut [mmsghdr]) -> io::Result<usize> {
    let count = u32::try_from(headers.len()).unwrap_or(u32::MAX);
    loop {
        // SAFETY: the headers were written over iovecs of an arena that is still borrowed, and
        // whose borrowed memory is mapped until the batch is complete.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        match usize::try_from(sent) {
            Ok(sent) => return Ok(sent),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}
