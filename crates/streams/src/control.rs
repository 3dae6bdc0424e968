//! The control socket: SOCK_SEQPACKET, in a directory that only root enters.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use latlab_wire::streams::MESSAGE_BYTES;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    listen as start_listening, recvmsg, send, sendmsg, socket_with,
};

use crate::registry::NodeId;

const BACKLOG: i32 = 128;

/// A client of the socket.
#[derive(Debug)]
pub struct Client {
    pub(crate) socket: OwnedFd,
    /// The node whose listener is to follow.
    pub(crate) session: Option<NodeId>,
}

/// Makes the socket; nothing may be at its path.
pub fn listen(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    start_listening(&socket, BACKLOG)?;
    Ok(socket)
}

pub(crate) fn accept(socket: &OwnedFd) -> Result<Client, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    accept_with(socket, flags).map(|socket| Client {
        socket,
        session: None,
    })
}

/// The next message and the descriptor that came with it. No bytes are the end.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> Result<(Vec<u8>, Option<OwnedFd>), Errno> {
    let mut bytes = vec![0; MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => rights.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let descriptor = descriptors.next();
    drop(descriptors);
    bytes.truncate(received.bytes);
    Ok((bytes, descriptor))
}

/// Sends a message. A client that does not read loses it.
pub(crate) fn answer(socket: BorrowedFd<'_>, bytes: &[u8]) {
    send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).ok();
}

/// Sends a copy of a descriptor.
pub(crate) fn send_descriptor(
    socket: BorrowedFd<'_>,
    descriptor: BorrowedFd<'_>,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let parts = [IoSlice::new(b"x")];
    sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL).map(drop)
}
