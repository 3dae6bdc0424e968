//! The other side of a conversation: what `latlab overlay` speaks with.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustls::StreamOwned;

use crate::tls::{self, Credentials};

/// A daemon answers at once; one that does not has died in the middle.
const PATIENCE: Duration = Duration::from_secs(60);

/// To reach another host, and for its part of a handshake.
const REACH: Duration = Duration::from_secs(5);

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A conversation with a daemon.
pub struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

/// What the daemon did not do, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Where in the line it went wrong, from 1.
    pub column: usize,
    /// What went wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl Client {
    /// Speaks with a daemon on this host.
    ///
    /// # Errors
    ///
    /// Nobody listens at the socket, or this user may not open it.
    pub fn connect(socket: &Path) -> io::Result<Client> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client::over(stream))
    }

    /// Speaks with a daemon on another host.
    ///
    /// # Errors
    ///
    /// Nobody listens there; one side is not who the other's authority has signed.
    pub fn connect_tls(address: SocketAddr, credentials: &Credentials) -> io::Result<Client> {
        let socket = TcpStream::connect_timeout(&address, REACH)?;
        let mut tls = credentials.connect(address.ip())?;
        tls::shake(&mut tls, &socket, REACH)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut client = Client::over(StreamOwned::new(tls, socket));
        // In TLS 1.3 a client learns only from the first answer whether it was let in (RFC 8446, 2):
        // an empty line asks for one.
        let let_in = client.say("")?;
        let_in.map_err(|refusal| io::Error::other(refusal.message))?;
        Ok(client)
    }

    fn over(stream: impl Stream + 'static) -> Client {
        Client {
            stream: BufReader::new(Box::new(stream)),
        }
    }

    /// Says a line; the lines of the answer, or why not.
    ///
    /// # Errors
    ///
    /// The daemon hung up or is silent.
    pub fn say(&mut self, line: &str) -> io::Result<Result<Vec<String>, Refusal>> {
        let stream = self.stream.get_mut();
        stream.write_all(format!("{line}\n").as_bytes())?;
        stream.flush()?;
        let mut lines = Vec::new();
        loop {
            let mut answer = String::new();
            if self.stream.read_line(&mut answer)? == 0 {
                let hung_up = "the daemon hung up";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, hung_up));
            }
            let answer = answer.trim_end_matches('\n');
            match answer.strip_prefix(' ') {
                Some(data) => lines.push(data.to_owned()),
                None if answer == "ok" => return Ok(Ok(lines)),
                None => return Ok(Err(Refusal::read(answer))),
            }
        }
    }
}

impl Refusal {
    /// From `error COLUMN: MESSAGE (HINT)`.
    fn read(answer: &str) -> Refusal {
        let said = answer.strip_prefix("error ").unwrap_or(answer);
        let (column, said) = said.split_once(": ").unwrap_or(("1", said));
        let parts = said
            .strip_suffix(')')
            .and_then(|said| said.rsplit_once(" ("));
        let (message, hint) = parts.unwrap_or((said, ""));
        Refusal {
            column: column.parse().unwrap_or(1),
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (column, message, hint) = (self.column, &self.message, &self.hint);
        write!(f, "error {column}: {message} ({hint})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_as_it_is_written() {
        for text in [
            "error 5: no link `x` (`list links` says which)",
            "error 1: it (the daemon) is gone (restart it)",
        ] {
            assert_eq!(Refusal::read(text).to_string(), text);
        }
        let bare = Refusal::read("error 1: too many clients");
        assert_eq!((bare.column, bare.hint.as_str()), (1, ""));
    }
}
