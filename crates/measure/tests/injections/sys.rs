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
