//! Received messages, many per call.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, iovec, mmsghdr, msghdr, sockaddr_storage};

use crate::frames::Segment;

use super::address::read_address;
use super::socket::{Control, length};

#[derive(Debug, Clone, Copy)]
pub struct Message {
    pub len: usize,
    /// Length of each datagram in it but the last, if the kernel joined several (`UDP_GRO`).
    pub each: usize,
    /// Type and value of the VLAN tag that the kernel removed (packet sockets).
    pub vlan: Option<(u16, u16)>,
    pub truncated: bool,
}

pub struct Inbox {
    /// A boxed slice, as a pointer: batches borrow parts of it while others are written.
    memory: *mut [u8],
    each: usize,
    names: Vec<sockaddr_storage>,
    controls: Vec<Control>,
    /// Pointed to by `headers`, and never rewritten.
    _iovecs: Vec<iovec>,
    headers: Vec<mmsghdr>,
}

// SAFETY: every pointer in it leads into its own memory.
unsafe impl Send for Inbox {}

impl Inbox {
    pub fn new(count: usize, each: usize) -> Inbox {
        // SAFETY: all zeros are valid for these structures of the kernel's.
        let mut inbox = unsafe {
            Inbox {
                memory: Box::into_raw(vec![0; count * each].into_boxed_slice()),
                each,
                names: vec![zeroed(); count],
                controls: vec![Control([0; 64]); count],
                _iovecs: vec![zeroed(); count],
                headers: vec![zeroed(); count],
            }
        };
        let start = inbox.memory.cast::<u8>();
        for number in 0..count {
            inbox._iovecs[number] = iovec {
                // SAFETY: inside of the memory just allocated.
                iov_base: unsafe { start.add(number * each) }.cast(),
                iov_len: each,
            };
            let header = &mut inbox.headers[number].msg_hdr;
            header.msg_iov = &raw mut inbox._iovecs[number];
            header.msg_iovlen = 1;
            header.msg_name = (&raw mut inbox.names[number]).cast();
            header.msg_control = (&raw mut inbox.controls[number]).cast();
        }
        inbox
    }

    /// Receives messages; returns their number. Never blocks.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.receive_behind(0, socket)
    }

    /// As [`Inbox::receive`], after the first messages, which stay.
    pub fn receive_behind(&mut self, first: usize, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let headers = &mut self.headers[first..];
        for message in headers.iter_mut() {
            message.msg_hdr.msg_namelen = length(size_of::<sockaddr_storage>());
            message.msg_hdr.msg_controllen = size_of::<Control>();
            message.msg_hdr.msg_flags = 0;
        }
        let count = u32::try_from(headers.len()).unwrap_or(u32::MAX);
        // SAFETY: the headers point to memory of this inbox, with its lengths, which no batch borrows:
        // those that one does are in front of the first.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        match usize::try_from(got) {
            Ok(got) => Ok(got),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                error => Err(error),
            },
        }
    }

    pub fn from(&self, number: usize) -> SocketAddr {
        read_address(&self.names[number])
    }

    pub fn message(&self, number: usize) -> Message {
        let header = &self.headers[number];
        let len = header.msg_len as usize;
        let mut message = Message {
            len: len.min(self.each),
            each: len,
            vlan: None,
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        };
        // SAFETY: the kernel has filled the control messages of this header and set their length.
        unsafe { read_control(&header.msg_hdr, &mut message) };
        message.each = message.each.clamp(1, message.len.max(1));
        message
    }

    pub fn bytes(&self, number: usize) -> &[u8] {
        assert!(number < self.headers.len());
        // SAFETY: the memory has that many messages; the kernel only writes to it in `receive`.
        unsafe { std::slice::from_raw_parts(self.start(number), self.each) }
    }

    /// A message's whole buffer, to be changed before a batch borrows from it.
    pub fn bytes_mut(&mut self, number: usize) -> &mut [u8] {
        assert!(number < self.headers.len());
        // SAFETY: as above, and no reference to this message exists.
        unsafe { std::slice::from_raw_parts_mut(self.start(number), self.each) }
    }

    fn start(&self, number: usize) -> *mut u8 {
        // SAFETY: callers name a message that is there.
        unsafe { self.memory.cast::<u8>().add(number * self.each) }
    }

    /// A part of a message, for a batch. The caller leaves the inbox unchanged until that batch is complete.
    pub fn segment(&self, number: usize, part: Range<usize>) -> Segment {
        let bytes = &self.bytes(number)[part];
        // SAFETY: the memory lives as long as the inbox, which its owner (a receiving half) keeps and
        // does not fill again before `complete`.
        unsafe { Segment::new(bytes.as_ptr(), bytes.len()) }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box in `new`.
        drop(unsafe { Box::from_raw(self.memory) });
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inbox of {}", self.headers.len())
    }
}

/// Reads a message's control messages.
///
/// # Safety
///
/// The header's control buffer is one that the kernel filled.
unsafe fn read_control(header: &msghdr, message: &mut Message) {
    // SAFETY: as promised by the caller; every access is to a control message that the library's
    // macros found to be inside of the buffer, and data is only read when its length is there.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while !at.is_null() {
            let data = libc::CMSG_DATA(at);
            let room = (*at).cmsg_len - libc::CMSG_LEN(0) as usize;
            match ((*at).cmsg_level, (*at).cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) if room >= 4 => {
                    let each = data.cast::<c_int>().read_unaligned();
                    message.each = usize::try_from(each).unwrap_or(0);
                }
                (libc::SOL_PACKET, libc::PACKET_AUXDATA)
                    if room >= size_of::<libc::tpacket_auxdata>() =>
                {
                    let aux = data.cast::<libc::tpacket_auxdata>().read_unaligned();
                    if aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                        let given = aux.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
                        let kind = if given { aux.tp_vlan_tpid } else { 0x8100 };
                        message.vlan = Some((kind, aux.tp_vlan_tci));
                    }
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
}
