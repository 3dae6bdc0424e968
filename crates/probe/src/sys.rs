//! The few system calls that neither std nor rustix wraps, each behind a safe function.
//!
//! All `unsafe` of this crate is here. Every function either passes a pointer to a local of exactly
//! the size it also passes, or a slice's own pointer and length.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use libc::{c_int, c_void, socklen_t};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, netdevice, socket_with};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Thread,
    /// All threads of the process, ended ones included.
    Process,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    pub user_ns: u64,
    pub system_ns: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

pub fn usage(who: Who) -> io::Result<Usage> {
    let who = match who {
        Who::Thread => libc::RUSAGE_THREAD,
        Who::Process => libc::RUSAGE_SELF,
    };
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a writable rusage.
    check(unsafe { libc::getrusage(who, usage.as_mut_ptr()) })?;
    // SAFETY: all-zero bytes are a valid rusage, and the call has filled it in.
    let usage = unsafe { usage.assume_init() };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Ok(Usage {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
    })
}

/// Puts the calling thread under `SCHED_FIFO`. Threads it makes later inherit that.
pub fn set_fifo(priority: u32) -> io::Result<()> {
    let param = libc::sched_param {
        sched_priority: priority as c_int,
    };
    // SAFETY: 0 is the calling thread; the pointer is to a sched_param that lives across the call.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) })
}

pub fn interface_index(interface: &str) -> io::Result<u32> {
    netdevice::name_to_index(control_socket()?, interface)
        .map_err(|_| io::Error::other(format!("there is no interface {interface}")))
}

/// The name of an interface of the calling thread's network namespace. Fails when there is none of this index any more.
pub fn interface_name(interface: u32) -> io::Result<String> {
    Ok(netdevice::index_to_name(control_socket()?, interface)?)
}

pub fn hardware_address(interface: &str) -> io::Result<[u8; 6]> {
    // SAFETY: the command takes nothing, and the kernel fills in this member of the union.
    let address = unsafe {
        let answer = ask_interface(interface, libc::SIOCGIFHWADDR as _, ptr::null_mut())?;
        answer.ifr_ifru.ifru_hwaddr
    };
    if address.sa_family != libc::ARPHRD_ETHER {
        return Err(io::Error::other(format!("{interface} is no Ethernet")));
    }
    let mut bytes = [0; 6];
    for (to, from) in bytes.iter_mut().zip(address.sa_data) {
        *to = from as u8;
    }
    Ok(bytes)
}

/// Whether an interface is up, be there a carrier or not.
pub fn is_up(interface: &str) -> io::Result<bool> {
    // SAFETY: the command takes nothing, and the kernel fills in this member of the union.
    let flags = unsafe {
        let answer = ask_interface(interface, libc::SIOCGIFFLAGS as _, ptr::null_mut())?;
        answer.ifr_ifru.ifru_flags
    };
    Ok(c_int::from(flags) & libc::IFF_UP != 0)
}

/// A socket by which interfaces are asked for.
fn control_socket() -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// Asks for what an interface has one answer to (netdevice(7)).
///
/// # Safety
/// `data` is what the command has a pointer to, and lives; null where it has none.
unsafe fn ask_interface(
    interface: &str,
    command: libc::c_ulong,
    data: *mut libc::c_char,
) -> io::Result<libc::ifreq> {
    let socket = control_socket()?;
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = data;
    // SAFETY: the request lives over the call, and so does the structure that it points to.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), command as _, &raw mut request) })?;
    Ok(request)
}

pub fn driver(interface: u32) -> io::Result<String> {
    const GET_DRIVER: u32 = 3;
    /// `struct ethtool_drvinfo`: the command, the driver's name, and what is not looked at.
    #[repr(C)]
    struct Info {
        command: u32,
        driver: [u8; 32],
        rest: [u8; 160],
    }
    let mut info = Info {
        command: GET_DRIVER,
        driver: [0; 32],
        rest: [0; 160],
    };
    // SAFETY: the structure is the one of the command.
    unsafe { ask_ethtool(interface, (&raw mut info).cast())? };
    let name = info.driver.split(|&byte| byte == 0).next();
    Ok(String::from_utf8_lossy(name.unwrap_or_default()).into_owned())
}

/// Queues of an interface that only receive, and those that also send.
pub fn receive_queues(interface: u32) -> io::Result<(u32, u32)> {
    const GET_CHANNELS: u32 = 0x3c;
    /// `struct ethtool_channels`: the command, four maxima (received, sent, other, combined), four counts.
    const WORDS: usize = 9;
    let mut channels = [0u32; WORDS];
    channels[0] = GET_CHANNELS;
    // SAFETY: the words are as many as the structure of the command has.
    unsafe { ask_ethtool(interface, channels.as_mut_ptr().cast())? };
    Ok((channels[5], channels[8]))
}

/// The number of the clock by which an interface stamps what it sends and receives; none if it does not.
pub fn stamping_clock(interface: u32) -> io::Result<Option<u32>> {
    const GET_TIMESTAMPS: u32 = 0x41;
    const BOTH: u32 = libc::SOF_TIMESTAMPING_TX_HARDWARE
        | libc::SOF_TIMESTAMPING_RX_HARDWARE
        | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
    /// `struct ethtool_ts_info`: command, kinds of timestamps, number of the clock or -1, words of filters.
    const WORDS: usize = 11;
    let mut info = [0u32; WORDS];
    info[0] = GET_TIMESTAMPS;
    // SAFETY: the words are as many as the structure of the command has.
    unsafe { ask_ethtool(interface, info.as_mut_ptr().cast())? };
    let stamps = info[1] & BOTH == BOTH && info[2] as i32 >= 0;
    Ok(stamps.then_some(info[2]))
}

/// Asks `ethtool`'s ioctl about an interface (include/uapi/linux/ethtool.h).
///
/// # Safety
/// `structure` is the one of the command in its first word, and lives.
unsafe fn ask_ethtool(interface: u32, structure: *mut libc::c_char) -> io::Result<()> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    let name = interface_name(interface)?;
    // SAFETY: as promised by the caller.
    unsafe { ask_interface(&name, SIOCETHTOOL, structure) }.map(drop)
}

/// A packet socket that is bound to an interface and gets its card's timestamps: of received frames of a type with
/// them, of sent ones by its error queue (kernel: networking/timestamping.rst).
pub fn stamping_socket(interface: u32, ether_type: u16) -> io::Result<OwnedFd> {
    const FLAGS: u32 = libc::SOF_TIMESTAMPING_TX_HARDWARE
        | libc::SOF_TIMESTAMPING_RX_HARDWARE
        | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
    let socket = sending_packet_socket(interface)?;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
    set_option(socket.as_fd(), level, name, &FLAGS)?;
    bind_packet_socket(socket.as_fd(), interface, ether_type.to_be())?;
    Ok(socket)
}

/// A packet socket that only sends, through one interface and whatever filters its way out has.
pub fn sending_packet_socket(interface: u32) -> io::Result<OwnedFd> {
    // Protocol 0: nothing is received.
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    bind_packet_socket(socket.as_fd(), interface, 0)?;
    Ok(socket)
}

fn bind_packet_socket(socket: BorrowedFd<'_>, interface: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = interface as c_int;
    // SAFETY: the pointer is to a sockaddr_ll that lives across the call, and its size is passed.
    check(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast::<libc::sockaddr>(),
            size_of_val(&address) as socklen_t,
        )
    })
}

/// Frames of equal length that one call sends. What the kernel is told about them never changes, so it is
/// written once.
pub struct Batch {
    socket: OwnedFd,
    frames: Box<[u8]>,
    length: usize,
    headers: Box<[libc::mmsghdr]>,
    // The parts that the headers refer to.
    _parts: Box<[libc::iovec]>,
}

impl Batch {
    /// `count` frames, which all begin as `template`.
    pub fn new(socket: OwnedFd, template: &[u8], count: usize) -> Batch {
        let length = template.len();
        let mut frames = template.repeat(count).into_boxed_slice();
        let mut parts: Box<[libc::iovec]> = frames
            .chunks_exact_mut(length)
            .map(|frame| libc::iovec {
                iov_base: frame.as_mut_ptr().cast::<c_void>(),
                iov_len: length,
            })
            .collect();
        let header = |part: &mut libc::iovec| {
            // SAFETY: all-zero bytes are a valid header of no message.
            let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
            header.msg_hdr.msg_iov = ptr::from_mut(part);
            header.msg_hdr.msg_iovlen = 1;
            header
        };
        let headers = parts.iter_mut().map(header).collect();
        Batch {
            socket,
            frames,
            length,
            headers,
            _parts: parts,
        }
    }

    pub fn frames(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.frames.chunks_exact_mut(self.length)
    }

    /// Sends some of the frames; says how many of them, from the first on, were taken.
    pub fn send(&mut self, frames: std::ops::Range<usize>) -> io::Result<usize> {
        let headers = &mut self.headers[frames];
        // SAFETY: the headers refer to parts, and those to frames, that live as long as this value and
        // do not move with it.
        let sent = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        check(sent)?;
        Ok(sent as usize)
    }
}

/// Has an interface take frames for others too, as long as what is returned lives.
pub fn promiscuous(interface: u32) -> io::Result<OwnedFd> {
    let socket = sending_packet_socket(interface)?;
    make_promiscuous(socket.as_fd(), interface)?;
    Ok(socket)
}

fn make_promiscuous(socket: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    let promiscuous = libc::packet_mreq {
        mr_ifindex: interface as c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let (level, name) = (libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP);
    set_option(socket, level, name, &promiscuous)
}

/// A packet socket on one interface of the calling thread's network namespace: every frame that comes
/// in through it, whatever its destination, with the virtio header in front; and none that goes out.
/// The kernel takes a VLAN tag out of its frame and tells it beside, to [`receive_with`].
pub fn packet_socket(interface: &str) -> io::Result<OwnedFd> {
    const ALL: u16 = (libc::ETH_P_ALL as u16).to_be();
    const RECEIVE_BUFFER_BYTES: c_int = 8 << 20;
    let index = interface_index(interface)?;
    let socket = sending_packet_socket(index)?;
    let set = |level, option, value: c_int| set_option(socket.as_fd(), level, option, &value);
    const PACKET_IGNORE_OUTGOING: c_int = 23;
    const PACKET_VNET_HDR: c_int = 15;
    set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
    set(libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
    set(libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
    // More than the machine's limit needs a capability that a container may lack; then it stays small.
    if set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES).is_err() {
        set(libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER_BYTES)?;
    }
    make_promiscuous(socket.as_fd(), index)?;
    bind_packet_socket(socket.as_fd(), index, ALL)?;
    Ok(socket)
}

/// Packets a socket has dropped because its receive buffer was full, since it was made.
///
/// `SO_MEMINFO` gives the counter that `SO_RXQ_OVFL` attaches to received packets, but without a
/// control message per packet, and including drops after the last packet that was received.
pub fn socket_drops(socket: BorrowedFd<'_>) -> Option<u64> {
    const SO_MEMINFO: c_int = 55;
    const DROPS: usize = 8;
    const WORDS: usize = 9;
    let mut info = [0u32; WORDS];
    let mut length = size_of_val(&info) as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of the array pointed to.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            info.as_mut_ptr().cast::<c_void>(),
            &raw mut length,
        )
    };
    (result == 0 && length as usize == size_of_val(&info)).then(|| u64::from(info[DROPS]))
}

/// Asks the kernel to attach its `CLOCK_REALTIME` reception time to received packets.
pub fn enable_kernel_stamps(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)
}

/// Lets only echo replies into a raw ICMP socket; everything else would wake the probe for nothing.
pub fn accept_only_echo_replies(socket: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    // In both filters a set bit blocks the message type of that number.
    if v6 {
        const ICMP6_FILTER: c_int = 1;
        const ECHO_REPLY: usize = 129;
        let mut blocked = [u32::MAX; 8];
        blocked[ECHO_REPLY / 32] &= !(1 << (ECHO_REPLY % 32));
        set_option(socket, libc::IPPROTO_ICMPV6, ICMP6_FILTER, &blocked)
    } else {
        const SOL_RAW: c_int = 255;
        const ICMP_FILTER: c_int = 1;
        const ECHO_REPLY: u32 = 0;
        let blocked: u32 = !(1 << ECHO_REPLY);
        set_option(socket, SOL_RAW, ICMP_FILTER, &blocked)
    }
}

/// Types whose bytes the kernel may read as an option's value: integers without padding.
pub trait OptionValue {}
impl OptionValue for i32 {}
impl OptionValue for u32 {}
impl<const N: usize> OptionValue for [u32; N] {}
impl OptionValue for libc::packet_mreq {}

pub fn set_option<T: OptionValue>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: pointer and length are those of one live value without padding.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            ptr::from_ref(value).cast::<c_void>(),
            size_of::<T>() as socklen_t,
        )
    })
}

/// A packet with what the kernel tells beside it, where it was asked to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    pub length: usize,
    /// The kernel's stamp in ns of `CLOCK_REALTIME`, or the card's in ns of its clock.
    pub stamp: Option<u64>,
    /// The type and the content of a VLAN tag that the kernel took out.
    pub tag: Option<(u16, u16)>,
}

/// Receives one packet and what the kernel tells beside it. The stamp is missing when neither [`enable_kernel_stamps`] nor
/// [`stamping_socket`] asked for it before the packet came in, or the card has none.
pub fn receive_with(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> io::Result<Received> {
    // u64 words, because control messages must be aligned; room for timestamps, a tag and some.
    let mut control = [0u64; 16];
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast::<c_void>(),
        iov_len: buffer.len(),
    };
    // SAFETY: an all-zero msghdr is valid: no name, no parts, no control data.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast::<c_void>();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: every pointer in the message is to live, writable memory of the length given with it.
    let length =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags.bits() as c_int) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut received = Received {
        length: length as usize,
        ..Received::default()
    };
    // SAFETY: the kernel has set msg_controllen to what it wrote; the header is inside `control` or
    // null.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: not null, so CMSG_FIRSTHDR or CMSG_NXTHDR found a whole header inside `control`.
        unsafe { read_control(header, &mut received) };
        // SAFETY: `header` is a header inside the message's control data.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok(received)
}

/// # Safety
/// `header` is that of a whole control message which the kernel wrote.
unsafe fn read_control(header: *const libc::cmsghdr, received: &mut Received) {
    // SAFETY: as promised by the caller.
    let (level, kind, data) = unsafe {
        let (level, kind) = ((*header).cmsg_level, (*header).cmsg_type);
        (level, kind, libc::CMSG_DATA(header))
    };
    let place = match (level, kind) {
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => 0,
        // Three times: of the kernel, one that is no longer used, of the card.
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => 2,
        (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
            // SAFETY: a message of this kind carries this structure; read_unaligned asks no alignment.
            let beside = unsafe { data.cast::<libc::tpacket_auxdata>().read_unaligned() };
            received.tag = tag(&beside);
            return;
        }
        _ => return,
    };
    // SAFETY: a message of this kind carries one or three timespecs; read_unaligned asks no alignment.
    let time: libc::timespec = unsafe { data.cast::<libc::timespec>().add(place).read_unaligned() };
    let stamp = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    // All zeros: there is none of this kind.
    received.stamp = Some(stamp).filter(|stamp| *stamp > 0);
}

fn tag(beside: &libc::tpacket_auxdata) -> Option<(u16, u16)> {
    const CUSTOMER_TAG: u16 = 0x8100;
    let has = |flag| beside.tp_status & flag != 0;
    let kind = match has(libc::TP_STATUS_VLAN_TPID_VALID) {
        true => beside.tp_vlan_tpid,
        false => CUSTOMER_TAG,
    };
    has(libc::TP_STATUS_VLAN_VALID).then_some((kind, beside.tp_vlan_tci))
}

pub fn check(result: c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_full_receive_buffer_counts_as_drops() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&receiver, 1).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(socket_drops(receiver.as_fd()), Some(0));
        for _ in 0..100 {
            sender
                .send_to(&[0; 1000], receiver.local_addr().unwrap())
                .unwrap();
        }
        let drops = socket_drops(receiver.as_fd()).unwrap();
        assert!((1..100).contains(&drops), "{drops}");
    }

    #[test]
    fn a_kernel_stamp_comes_only_when_asked_for() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut buffer = [0; 64];
        let mut exchange = || {
            sender
                .send_to(b"hello", receiver.local_addr().unwrap())
                .unwrap();
            let flags = RecvFlags::empty();
            let received = receive_with(receiver.as_fd(), &mut buffer, flags).unwrap();
            (received.length, received.stamp)
        };
        assert_eq!(exchange(), (5, None));
        enable_kernel_stamps(receiver.as_fd()).unwrap();
        let (length, stamp) = exchange();
        assert_eq!(length, 5);
        // Some time after 2020: a wrong offset in the control data would give anything else.
        assert!(stamp.unwrap() > 1_577_836_800_000_000_000);
    }

    #[test]
    fn usage_only_grows() {
        let before = usage(Who::Thread).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let after = usage(Who::Thread).unwrap();
        assert!(after.voluntary_switches > before.voluntary_switches);
        assert!(usage(Who::Process).unwrap().user_ns >= before.user_ns);
    }
}
