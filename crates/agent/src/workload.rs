//! Commands that a container's first process starts for the host.
//!
//! Each request brings a pipe of its own for the answer, so that two latlabs never read each other's. A latlab that dies
//! leaves a whole request or none.

use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use latlab_wire::channel::{Decoded, Exec, Message, decode};
use latlab_wire::workload::{Answer, HOST_FD, REQUEST_BYTES};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};

use crate::os;

/// Makes the pair of sockets, in this process's own network namespace: a checkpoint looks for it there. No name leads to
/// the host's end, which stays open here.
pub fn socket() -> io::Result<OwnedFd> {
    let kind = SocketType::SEQPACKET;
    let (requests, hosts_end) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    os::keep_as(hosts_end, HOST_FD)?;
    Ok(requests)
}

/// Takes one request and answers it.
pub fn answer(requests: &OwnedFd) {
    let mut bytes = vec![0; REQUEST_BYTES];
    let Some((length, files)) = receive(requests, &mut bytes) else {
        return;
    };
    let mut files = files.into_iter();
    // A message without its descriptors has no way back.
    let (Some(output), Some(reply)) = (files.next(), files.next()) else {
        return;
    };
    let held = files.next().zip(files.next());
    let answer = match decode(&bytes[..length]) {
        Decoded::Message(Message::Exec { exec, .. }, _) => start(&exec, output, held),
        _ => Answer::NotExecuted(libc::EBADMSG),
    };
    // The latlab that asked may have gone; the command runs all the same.
    let _ = File::from(reply).write_all(&answer.to_bytes());
}

fn receive(requests: &OwnedFd, bytes: &mut [u8]) -> Option<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(requests, &mut [IoSliceMut::new(bytes)], &mut control, flags);
    let length = received.ok()?.bytes;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(given) = message {
            files.extend(given);
        }
    }
    Some((length, files))
}

/// The program is a path; the environment is all it gets. Rights and limits are this process's own, which the host set.
/// `held` are a filter that holds its connections, and the socket for the listener.
fn start(exec: &Exec, output: OwnedFd, held: Option<(OwnedFd, OwnedFd)>) -> Answer {
    let Some((program, arguments)) = exec.argv.split_first() else {
        return Answer::NotExecuted(libc::ENOENT);
    };
    let errno = |error: &io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    let directory = exec.cwd.as_deref().unwrap_or("/");
    if let Err(error) = std::fs::read_dir(directory) {
        return Answer::NoDirectory(errno(&error));
    }
    let Ok(errors) = output.try_clone() else {
        return Answer::NotExecuted(libc::EMFILE);
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .envs(exec.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    os::in_a_session(&mut command);
    if let Some((filter, socket)) = held {
        let mut bytes = Vec::new();
        if let Err(error) = File::from(filter).read_to_end(&mut bytes) {
            return Answer::NotExecuted(errno(&error));
        }
        os::hold_calls(&mut command, &bytes, socket);
    }
    // Its end is collected with all others'.
    match command.spawn() {
        Ok(child) => Answer::Started(child.id()),
        Err(error) => Answer::NotExecuted(errno(&error)),
    }
}
