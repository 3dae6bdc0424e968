//! The client of a daemon, as `latlab overlay` uses it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustls::StreamOwned;

use crate::tls::{self, Credentials};

/// Timeout of an answer; a live daemon answers at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of a connection to another host, and of its handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

pub struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Column of the error in the line, from 1.
    pub column: usize,
    pub message: String,
    pub hint: String,
}

impl Client {
    /// Connects to a daemon on this host.
    pub fn connect(socket: &Path) -> io::Result<Client> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Client::over(stream))
    }

    /// Connects to a daemon on another host, and authenticates.
    pub fn connect_tls(address: SocketAddr, credentials: &Credentials) -> io::Result<Client> {
        let socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        let mut tls = credentials.connect(address.ip())?;
        tls::handshake(&mut tls, &socket, CONNECT_TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let mut client = Client::over(StreamOwned::new(tls, socket));
        // In TLS 1.3 a client learns only from the first answer whether it was accepted (RFC 8446, 2): an empty line
        // requests one.
        let accepted = client.say("")?;
        accepted.map_err(|refusal| io::Error::other(refusal.message))?;
        Ok(client)
    }

    fn over(stream: impl Stream + 'static) -> Client {
        Client {
            stream: BufReader::new(Box::new(stream)),
        }
    }

    /// Sends a line; returns the lines of the answer.
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
    fn refusals_are_parsed_as_they_are_formatted() {
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
