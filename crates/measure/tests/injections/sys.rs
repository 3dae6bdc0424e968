//! System calls that neither std nor rustix wraps.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

pub fn set_fifo(priority: i32) {
    let param = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: 0 is the calling thread; the pointer is to a sched_param that lives across the call.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

pub fn timer() -> OwnedFd {
    timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).unwrap()
}

pub fn expire_at(timer: &OwnedFd, ns: u64) {
    let once = Itimerspec {
        it_interval: Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as _,
        },
    };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once).unwrap();
}

/// Sets RPS of an interface to these CPUs. The setting is a file of the namespace's sysfs, which has to be
/// mounted for that.
pub fn steer(interface: &str, cpus: u64) {
    // SAFETY: this thread alone gets a new mount namespace, and ends soon.
    unsafe {
        rustix::thread::unshare_unsafe(
            rustix::thread::UnshareFlags::NEWNS | rustix::thread::UnshareFlags::FS,
        )
    }
    .unwrap();
    let nothing = rustix::mount::MountFlags::empty();
    rustix::mount::mount_change(
        "/",
        rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC,
    )
    .unwrap();
    rustix::mount::mount("steer", "/sys", "sysfs", nothing, None).unwrap();
    let file = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
    std::fs::write(file, format!("{cpus:x}")).unwrap();
}

/// A socket with a shared port, so that each of its kind gets a broadcast.
pub fn listen_together(port: u16) -> UdpSocket {
    use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port)).unwrap();
    socket.into()
}

/// A packet socket of an interface, for frames that come in.
pub fn packet_socket(interface: &str) -> std::io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    let check = |result: i32| match result {
        0.. => Ok(result),
        _ => Err(std::io::Error::last_os_error()),
    };
    let name = std::ffi::CString::new(interface)?;
    let all = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: the descriptor is new and has one owner; pointers are to values that live across the calls,
    // with their sizes.
    unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let socket = OwnedFd::from_raw_fd(check(libc::socket(libc::AF_PACKET, kind, all.into()))?);
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = all;
        address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        let length = size_of::<libc::sockaddr_ll>() as u32;
        check(libc::bind(fd, (&raw const address).cast(), length))?;
        let mut member: libc::packet_mreq = std::mem::zeroed();
        member.mr_ifindex = address.sll_ifindex;
        member.mr_type = libc::PACKET_MR_PROMISC as u16;
        let set = |level, option, value: *const libc::c_void, length: usize| {
            check(libc::setsockopt(fd, level, option, value, length as u32))
        };
        let (level, one) = (libc::SOL_PACKET, 1i32);
        let length = size_of::<libc::packet_mreq>();
        set(
            level,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const member).cast(),
            length,
        )?;
        set(
            level,
            libc::PACKET_IGNORE_OUTGOING,
            (&raw const one).cast(),
            4,
        )?;
        // Room for what comes while a frame is held.
        let bytes = 8i32 << 20;
        set(
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const bytes).cast(),
            4,
        )?;
        Ok(socket)
    }
}

/// The next frame, if there is one.
pub fn receive(socket: &OwnedFd, frame: &mut [u8]) -> Option<usize> {
    let got = rustix::net::recv(socket, frame, rustix::net::RecvFlags::DONTWAIT);
    got.ok().map(|(length, _)| length)
}

/// Sends a frame, which is lost if there is no room.
pub fn send(socket: &OwnedFd, frame: &[u8]) {
    rustix::net::send(socket, frame, rustix::net::SendFlags::DONTWAIT).ok();
}

/// Runs when nothing else does.
pub fn be_idle() {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: as above.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Timers of this thread are not put off to be handled with others.
pub fn exact_timers() {
    // SAFETY: the call takes no pointer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}

/// The system call of that name; libc's function is another.
pub fn nanosleep(ns: u64) {
    let time = timespec(ns);
    // SAFETY: the pointer is to a timespec that lives across the call; the second may be null.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, 0usize) };
}

/// Waits for a word that stays as it is, until a time of the monotonic clock.
pub fn wait_on_futex(until_ns: u64) {
    let (word, time) = (0u32, timespec(until_ns));
    let wait = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the pointers are to values that live across the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            &raw const word,
            wait,
            0u32,
            &raw const time,
            0usize,
            u32::MAX,
        )
    };
}

/// Fills the bytes in one system call.
pub fn random(bytes: &mut [u8]) {
    // SAFETY: the kernel writes to these bytes only.
    unsafe { libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), bytes.len(), 0u32) };
}
