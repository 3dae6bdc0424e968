//! Datagrams in bulk: the system calls that the links share, and the memory that they read and write.
//!
//! `unsafe` is here because a message header of the kernel's is made of pointers. Both directions keep
//! them inside of one call: [`Inbox`] points into memory of its own, [`Outbox`] into an arena that it
//! borrows until the call is over.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, c_void, iovec, mmsghdr, msghdr, sockaddr_storage};

use crate::endpoints::{Counters, DropReason};
use crate::frames::{Arena, Segment};

/// Most datagrams in one call of UDP segmentation (`UDP_MAX_SEGMENTS` of the oldest kernels).
const MAX_RUN: usize = 64;
/// Most bytes in one such call: an IPv4 datagram's payload.
pub const MAX_DATAGRAM: usize = 65_507;
/// Most stretches of memory in one message (`UIO_MAXIOV`).
const MAX_STRETCHES: usize = 1024;

/// Room for the one control message that is sent or expected, aligned as the kernel wants it.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 64]);

/// Sets an option of a socket that is a number.
pub fn set(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    set_bytes(socket, level, option, &value.to_ne_bytes())
}

/// Sets an option of a socket that is a structure.
pub fn set_bytes(
    socket: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    value: &[u8],
) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of one slice.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            length(value.len()),
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads an option of a socket that is a number.
pub fn get(socket: BorrowedFd<'_>, level: c_int, option: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = length(size_of::<c_int>());
    // SAFETY: the kernel writes at most `len` bytes into `value`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    if done == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

fn length(len: usize) -> libc::socklen_t {
    libc::socklen_t::try_from(len).expect("a few bytes")
}

/// A packet socket on an interface, with virtio-net headers and everything else that a link needs.
pub fn packet_socket(device: &str) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let name = CString::new(device)?;
    // SAFETY: a string with a zero at its end.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // No protocol yet: nothing is received before the socket is bound to the interface.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    for option in [
        libc::PACKET_VNET_HDR,
        libc::PACKET_AUXDATA,
        libc::PACKET_IGNORE_OUTGOING,
    ] {
        set(socket.as_fd(), libc::SOL_PACKET, option, 1)?;
    }
    // SAFETY: all zeros is an address of this form.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as c_int;
    // SAFETY: the pointer and the length are those of the structure.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            length(size_of::<libc::sockaddr_ll>()),
        )
    };
    if bound != 0 {
        return Err(io::Error::last_os_error());
    }
    // `struct packet_mreq`: the interface, the kind, the length of an address, the address.
    let mut request = [0; 16];
    request[..4].copy_from_slice(&index.to_ne_bytes());
    request[4..6].copy_from_slice(&(libc::PACKET_MR_PROMISC as u16).to_ne_bytes());
    set_bytes(
        socket.as_fd(),
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &request,
    )?;
    Ok(socket)
}

/// An address in the kernel's form.
#[derive(Clone, Copy)]
pub struct Address {
    storage: sockaddr_storage,
    len: libc::socklen_t,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", read_address(&self.storage))
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        // SAFETY: all zeros is a `sockaddr_storage`.
        let mut storage: sockaddr_storage = unsafe { zeroed() };
        let start = (&raw mut storage).cast::<c_void>();
        let len = match address {
            SocketAddr::V4(v4) => {
                let form = libc::sockaddr_in {
                    sin_family: libc::AF_INET as u16,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                // SAFETY: the storage has room and alignment for every form of address.
                unsafe { start.cast::<libc::sockaddr_in>().write(form) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let form = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as u16,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { start.cast::<libc::sockaddr_in6>().write(form) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        Address {
            storage,
            len: length(len),
        }
    }
}

fn read_address(storage: &sockaddr_storage) -> SocketAddr {
    let start = (&raw const *storage).cast::<c_void>();
    if c_int::from(storage.ss_family) == libc::AF_INET6 {
        // SAFETY: the family says which form it has.
        let form = unsafe { start.cast::<libc::sockaddr_in6>().read() };
        let ip = IpAddr::V6(Ipv6Addr::from(form.sin6_addr.s6_addr)).to_canonical();
        SocketAddr::new(ip, u16::from_be(form.sin6_port))
    } else {
        // SAFETY: the storage is large enough; other families give an address that nobody has.
        let form = unsafe { start.cast::<libc::sockaddr_in>().read() };
        let ip = Ipv4Addr::from(form.sin_addr.s_addr.to_ne_bytes());
        SocketAddr::new(ip.into(), u16::from_be(form.sin_port))
    }
}

/// What one message brought.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// Bytes.
    pub len: usize,
    /// Length of each datagram in it but the last, when the kernel joined several (`UDP_GRO`).
    pub each: usize,
    /// The VLAN tag (its type and its value) that the kernel took out, from a packet socket.
    pub vlan: Option<(u16, u16)>,
    /// Whether it was longer than the room for it.
    pub truncated: bool,
}

/// Messages received by one call, in memory that is never given back.
pub struct Inbox {
    /// A boxed slice, as a pointer: parts of it are borrowed by batches while others are changed.
    memory: *mut [u8],
    each: usize,
    names: Vec<sockaddr_storage>,
    controls: Vec<Control>,
    /// Pointed to by `headers`; rewritten by nobody.
    _stretches: Vec<iovec>,
    headers: Vec<mmsghdr>,
}

// SAFETY: every pointer in it leads into its own memory.
unsafe impl Send for Inbox {}

impl Inbox {
    /// Room for `count` messages of at most `each` bytes.
    pub fn new(count: usize, each: usize) -> Inbox {
        // SAFETY: all zeros are valid for these structures of the kernel's.
        let mut inbox = unsafe {
            Inbox {
                memory: Box::into_raw(vec![0; count * each].into_boxed_slice()),
                each,
                names: vec![zeroed(); count],
                controls: vec![Control([0; 64]); count],
                _stretches: vec![zeroed(); count],
                headers: vec![zeroed(); count],
            }
        };
        let start = inbox.memory.cast::<u8>();
        for number in 0..count {
            inbox._stretches[number] = iovec {
                // SAFETY: inside of the memory just allocated.
                iov_base: unsafe { start.add(number * each) }.cast(),
                iov_len: each,
            };
            let header = &mut inbox.headers[number].msg_hdr;
            header.msg_iov = &raw mut inbox._stretches[number];
            header.msg_iovlen = 1;
            header.msg_name = (&raw mut inbox.names[number]).cast();
            header.msg_control = (&raw mut inbox.controls[number]).cast();
        }
        inbox
    }

    /// Fills it with what has arrived; returns how many messages that are. Never waits.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        for message in &mut self.headers {
            message.msg_hdr.msg_namelen = length(size_of::<sockaddr_storage>());
            message.msg_hdr.msg_controllen = size_of::<Control>();
            message.msg_hdr.msg_flags = 0;
        }
        let count = u32::try_from(self.headers.len()).unwrap_or(u32::MAX);
        // SAFETY: the headers point to memory of this inbox, with its lengths.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
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

    /// Who sent a message.
    pub fn from(&self, number: usize) -> SocketAddr {
        read_address(&self.names[number])
    }

    /// What a message is.
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

    /// A message's memory, all of it.
    pub fn bytes(&self, number: usize) -> &[u8] {
        assert!(number < self.headers.len());
        // SAFETY: the memory has that many messages; the kernel only writes to it in `receive`.
        unsafe { std::slice::from_raw_parts(self.start(number), self.each) }
    }

    /// A message's memory, to change it before anything of it is borrowed.
    pub fn bytes_mut(&mut self, number: usize) -> &mut [u8] {
        assert!(number < self.headers.len());
        // SAFETY: as above, and nobody has a reference to this message.
        unsafe { std::slice::from_raw_parts_mut(self.start(number), self.each) }
    }

    fn start(&self, number: usize) -> *mut u8 {
        // SAFETY: callers name a message that is there.
        unsafe { self.memory.cast::<u8>().add(number * self.each) }
    }

    /// A part of a message, for a batch. Whoever calls this keeps the inbox as it is until that batch
    /// is complete.
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

/// Reads what the kernel says beside a message.
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

/// Memory of a link's own that batches borrow parts of.
#[derive(Debug)]
pub struct Buffer(*mut [u8]);

// SAFETY: it owns what it points to.
unsafe impl Send for Buffer {}

impl Buffer {
    /// So many bytes.
    pub fn new(len: usize) -> Buffer {
        Buffer(Box::into_raw(vec![0; len].into_boxed_slice()))
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A part of it, to be written. Parts that batches borrow are not asked for.
    pub fn part_mut(&mut self, part: Range<usize>) -> &mut [u8] {
        assert!(part.start <= part.end && part.end <= self.len());
        // SAFETY: inside of the memory, which is ours alone but for what batches copy from.
        unsafe { std::slice::from_raw_parts_mut(self.0.cast::<u8>().add(part.start), part.len()) }
    }

    /// A part of it, to be read.
    pub fn part(&self, part: Range<usize>) -> &[u8] {
        assert!(part.start <= part.end && part.end <= self.len());
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.0.cast::<u8>().add(part.start), part.len()) }
    }

    /// A part of it, for a batch. Whoever calls this keeps that part until the batch is complete.
    pub fn segment(&self, part: Range<usize>) -> Segment {
        let bytes = self.part(part);
        // SAFETY: kept by the receiving half that calls this.
        unsafe { Segment::new(bytes.as_ptr(), bytes.len()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box in `new`.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// What became of what was to be sent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Datagrams that the kernel took, and their bytes.
    pub sent: (u64, u64),
    /// Datagrams for which the socket had no room.
    pub full: u64,
    /// Datagrams longer than the path takes.
    pub too_long: u64,
    /// Datagrams refused for another reason.
    pub refused: u64,
    /// What is known of the path is no longer true.
    pub stale: bool,
}

impl Report {
    /// Counts it; `overhead` is what the link put in front of every frame.
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

/// Pieces of an arena that leave as one message: datagrams of one length, the last may be shorter.
#[derive(Debug, Clone, Copy)]
struct Run {
    pieces: (usize, usize),
    each: usize,
    bytes: usize,
    stretches: (usize, usize),
}

/// Sends arenas.
pub struct Outbox {
    stretches: Vec<iovec>,
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
    /// An empty one.
    pub fn new() -> Outbox {
        Outbox {
            stretches: Vec::new(),
            controls: Vec::new(),
            headers: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Sends every piece of the arena as a datagram; neighbours of equal length that have at most
    /// `segment` bytes in one message that the kernel (or the card) cuts (`UDP_SEGMENT`). No address
    /// for a socket that needs none. Never waits.
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

    /// Notes why a message did not leave, and sends its datagrams one by one where that may help.
    /// Whether there is a point in going on with the next.
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
            // The path has become narrower than the datagrams, or the device cannot cut them.
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
        let mut stretch = run.stretches.0;
        for piece in run.pieces.0..run.pieces.1 {
            let count = 1 + arena.rest(piece).len();
            let mut header = self.headers[at];
            header.msg_hdr.msg_iov = &raw mut self.stretches[stretch];
            header.msg_hdr.msg_iovlen = count;
            header.msg_hdr.msg_control = std::ptr::null_mut();
            header.msg_hdr.msg_controllen = 0;
            stretch += count;
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

    /// Writes the list of stretches and divides it into runs.
    fn gather(&mut self, arena: &Arena, segment: usize) {
        self.stretches.clear();
        self.runs.clear();
        for piece in 0..arena.len() {
            let (head, rest) = (arena.head(piece), arena.rest(piece));
            let bytes = arena.bytes(piece);
            let first = self.stretches.len();
            self.stretches.push(stretch(head.as_ptr(), head.len()));
            let rest = rest.iter().map(|s| stretch(s.as_ptr(), s.len()));
            self.stretches.extend(rest);
            let end = self.stretches.len();
            if let Some(run) = self.runs.last_mut() {
                let count = run.pieces.1 - run.pieces.0;
                // A shorter one is the last of its run.
                let open = run.bytes == count * run.each;
                if open
                    && bytes <= run.each
                    && run.each <= segment
                    && count < MAX_RUN
                    && run.bytes + bytes <= MAX_DATAGRAM
                    && end - run.stretches.0 <= MAX_STRETCHES
                {
                    run.pieces.1 = piece + 1;
                    run.bytes += bytes;
                    run.stretches.1 = end;
                    continue;
                }
            }
            self.runs.push(Run {
                pieces: (piece, piece + 1),
                each: bytes,
                bytes,
                stretches: (first, end),
            });
        }
    }

    /// Writes the messages' headers over the runs.
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
            message.msg_iov = &raw mut self.stretches[run.stretches.0];
            message.msg_iovlen = run.stretches.1 - run.stretches.0;
            if run.pieces.1 - run.pieces.0 > 1 {
                write_segment_size(message, control, run.each);
            }
            self.headers.push(header);
        }
    }
}

/// Writes pieces of an arena to a stream, from `first` on. Which piece follows the last that was
/// offered, and how many bytes were taken of those.
pub fn write_pieces(
    socket: BorrowedFd<'_>,
    arena: &Arena,
    first: usize,
) -> io::Result<(usize, usize)> {
    let mut stretches = [stretch(std::ptr::null(), 0); MAX_STRETCHES];
    let (mut count, mut piece) = (0, first);
    while piece < arena.len() {
        let rest = arena.rest(piece);
        if count + 1 + rest.len() > MAX_STRETCHES {
            break;
        }
        let head = arena.head(piece);
        stretches[count] = stretch(head.as_ptr(), head.len());
        count += 1;
        for segment in rest {
            stretches[count] = stretch(segment.as_ptr(), segment.len());
            count += 1;
        }
        piece += 1;
    }
    // SAFETY: all zeros is a message header.
    let mut message: msghdr = unsafe { zeroed() };
    message.msg_iov = stretches.as_mut_ptr();
    message.msg_iovlen = count;
    // SAFETY: the stretches lead into an arena that is borrowed, and into memory that is mapped until
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

fn stretch(start: *const u8, len: usize) -> iovec {
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

/// Sends the first messages; returns how many left, or why the first did not.
fn send_some(socket: BorrowedFd<'_>, headers: &mut [mmsghdr]) -> io::Result<usize> {
    let count = u32::try_from(headers.len()).unwrap_or(u32::MAX);
    loop {
        // SAFETY: the headers were written over stretches of an arena that is still borrowed, and
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
