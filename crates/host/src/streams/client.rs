//! A client of the supervisor's control socket.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use latlab_wire::streams::{Answer, Demoted, MESSAGE_BYTES, Request, Status};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};

use super::error::Error;

/// The name of the control socket in the directory of a lab's streams.
pub(super) const CONTROL: &str = "control";
/// The supervisor answers at once, unless it exchanges thousands of streams or the machine is overloaded.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    path: PathBuf,
}

impl Client {
    /// Connects to the supervisor whose files are in this directory.
    pub fn connect(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(CONTROL);
        let flags = SocketFlags::CLOEXEC;
        let connected = || {
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            set_socket_timeout(&socket, Timeout::Recv, Some(TIMEOUT))?;
            connect(&socket, &SocketAddrUnix::new(&path)?)?;
            Ok(socket)
        };
        let socket = connected().map_err(failed("connect to", &path))?;
        Ok(Self { socket, path })
    }

    pub fn status(&self) -> Result<Status, Error> {
        match self.ask(&Request::Status)? {
            Answer::Status(status) => Ok(status),
            other => Err(unexpected(other)),
        }
    }

    /// Has new connections be streams, or stay plain: those to ports of a node or of all, or else all of a node, or else
    /// all.
    pub fn set(&self, on: bool, node: Option<&str>, ports: &[u16]) -> Result<(), Error> {
        let (node, ports) = (node.map(str::to_owned), ports.to_vec());
        match self.ask(&Request::Set { on, node, ports })? {
            Answer::Done => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Has a port of a server do as all others do.
    pub fn unset(&self, server: &str, port: u16) -> Result<(), Error> {
        let node = server.to_owned();
        match self.ask(&Request::Unset { node, port })? {
            Answer::Done => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Has connections of a node stay plain, whatever [`Self::set`] says, or no longer. Whether they did before.
    pub(crate) fn exclude(&self, node: &str, on: bool) -> Result<bool, Error> {
        let node = node.to_owned();
        match self.ask(&Request::Exclude { node, on })? {
            Answer::Done => Ok(false),
            Answer::Excluded => Ok(true),
            other => Err(unexpected(other)),
        }
    }

    /// Has open streams of a node, or all, be plain connections; with ports, those to them alone.
    pub fn demote(&self, node: Option<&str>, ports: &[u16]) -> Result<Demoted, Error> {
        let (node, ports) = (node.map(str::to_owned), ports.to_vec());
        match self.ask(&Request::Demote { node, ports })? {
            Answer::Demoted(demoted) => Ok(demoted),
            other => Err(unexpected(other)),
        }
    }

    fn ask(&self, request: &Request) -> Result<Answer, Error> {
        let asked = || {
            let text = serde_json::to_vec(request)?;
            send(&self.socket, &text, SendFlags::NOSIGNAL)?;
            let mut buffer = vec![0; MESSAGE_BYTES];
            let (length, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            Ok(serde_json::from_slice(&buffer[..length])?)
        };
        asked().map_err(failed("ask", &self.path))
    }
}

/// Announces a process of a node. The socket is for its listener; `None` where its connections stay plain: the node is
/// excluded, or the supervisor has ended.
pub(crate) fn open_session(directory: &Path, node: &str) -> Result<Option<OwnedFd>, Error> {
    let Ok(client) = Client::connect(directory) else {
        return Ok(None);
    };
    match client.ask(&Request::Session { node: node.into() }) {
        Ok(Answer::Done) => Ok(Some(client.socket)),
        Ok(Answer::Excluded) | Err(_) => Ok(None),
        Ok(other) => Err(unexpected(other)),
    }
}

fn unexpected(answer: Answer) -> Error {
    match answer {
        Answer::Refused(reason) => Error::Refused(reason),
        other => Error::Refused(format!("unexpected answer {other:?}")),
    }
}

pub(super) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io {
        action,
        path,
        source,
    }
}
