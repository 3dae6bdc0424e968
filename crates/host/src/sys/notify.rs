//! A filter that holds calls for another process (seccomp_unotify(2)): those that make, take and name connections.
//!
//! Which of them matter, `latlab-streams` decides. It is installed between fork and exec, so it allocates nothing then.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use libc::{BPF_JEQ, sock_filter};

use super::feature::descriptor;
use super::seccomp::{self, ALLOW, ARGUMENTS, answer, by_argument, for_native, load, rule, unless};

const HOLD: u32 = libc::SECCOMP_RET_USER_NOTIF;

/// Held whatever their arguments.
const CALLS: [libc::c_long; 7] = [
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_listen,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_io_uring_setup,
];

/// Levels whose options are a TCP socket's own.
const LEVELS: [i32; 3] = [libc::IPPROTO_TCP, libc::IPPROTO_IP, libc::IPPROTO_IPV6];

/// `SOL_SOCKET` options that sockets of AF_UNIX have in another way than sockets of TCP. The last is SO_PASSRIGHTS
/// (Linux 6.16), with which descriptors could pass from one container to another.
const OPTIONS: [i32; 8] = [
    libc::SO_DOMAIN,
    libc::SO_PROTOCOL,
    libc::SO_PEERCRED,
    libc::SO_ZEROCOPY,
    libc::SO_LINGER,
    libc::SO_SNDBUF,
    libc::SO_RCVBUF,
    83,
];

/// `ioctl` requests for the bytes that the peer has not acknowledged: SIOCOUTQ and SIOCOUTQNSD (tcp(7)).
const REQUESTS: [u32; 2] = [0x5411, 0x894b];

/// The level is the second argument, the option the third.
const LEVEL: u32 = ARGUMENTS + 8;
const OPTION: u32 = ARGUMENTS + 16;

#[derive(Debug)]
pub struct NotifyFilter(Vec<sock_filter>);

impl Default for NotifyFilter {
    /// Programs for 32-bit CPUs pass: their calls have other numbers, and their connections stay plain.
    fn default() -> Self {
        let mut program = for_native(ALLOW);
        for call in CALLS {
            rule(&mut program, call, &[answer(HOLD)]);
        }
        let mut body = vec![load(LEVEL)];
        for level in LEVELS {
            body.extend([unless(BPF_JEQ, level as u32, 1), answer(HOLD)]);
        }
        body.extend([
            unless(BPF_JEQ, libc::SOL_SOCKET as u32, 2 * OPTIONS.len() + 1),
            load(OPTION),
        ]);
        for option in OPTIONS {
            body.extend([unless(BPF_JEQ, option as u32, 1), answer(HOLD)]);
        }
        body.push(answer(ALLOW));
        for call in [libc::SYS_getsockopt, libc::SYS_setsockopt] {
            rule(&mut program, call, &body);
        }
        by_argument(&mut program, libc::SYS_ioctl, 1, &REQUESTS, (HOLD, ALLOW));
        program.push(answer(ALLOW));
        Self(program)
    }
}

impl NotifyFilter {
    pub fn bytes(&self) -> Vec<u8> {
        seccomp::bytes(&self.0)
    }

    /// A filter of the same length that allows all calls: of a restored process, whose listener cannot be restored.
    pub fn bytes_without_listener(&self) -> Vec<u8> {
        let hold = answer(HOLD);
        let all = self.0.iter().map(|instruction| {
            let holds = (instruction.code, instruction.k) == (hold.code, hold.k);
            if holds { answer(ALLOW) } else { *instruction }
        });
        seccomp::bytes(&all.collect::<Vec<_>>())
    }

    /// Puts the calling thread, and what it starts, under the filter, and sends the listener over a connected socket. It
    /// must have given up new privileges, or be root. Makes system calls only.
    pub(super) fn install(&self, socket: RawFd) -> io::Result<()> {
        let result = seccomp::install(&self.0, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
        // The kernel has it closed by execve.
        send(socket, &descriptor(result)?)
    }
}

/// Sends one byte with a descriptor.
fn send(socket: RawFd, descriptor: &OwnedFd) -> io::Result<()> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::os::fd::{AsFd, BorrowedFd};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    // SAFETY: the caller's socket, open for as long as this call.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    let bytes = [io::IoSlice::new(b"x")];
    sendmsg(socket, &bytes, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
