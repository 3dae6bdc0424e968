//! Transactions over a TCP connection, and cutting its stream into messages, for both ends.

use std::io;

use latlab_wire::probe::{HEADER_BYTES, TransactionKind, TransactionRepr, set_sequence};
use latlab_wire::samples::Record;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::transaction::{MAX_STREAM_MESSAGE_BYTES, Tally, Times, Transport, write_header};
use crate::error::{Error, Result};
use crate::net::{self, Socket};
use crate::setup::Poll;
use crate::time;

#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    /// A whole message came; its header.
    Message(TransactionRepr),
    Closed,
    /// The caller did not want to wait any longer.
    GivenUp,
    Malformed,
}

pub struct Messages {
    poll: Poll,
    buffer: Vec<u8>,
    filled: usize,
}

impl Messages {
    pub fn new(poll: Poll) -> Messages {
        // Enough for a message of usual size in one read; not zero, so that it is touched.
        Messages {
            poll,
            buffer: vec![0xff; 1 << 16],
            filled: 0,
        }
    }

    /// Reads one message. Whenever nothing is there, asks `go_on` whether to keep waiting.
    pub fn read(&mut self, socket: &Socket, go_on: impl Fn() -> bool) -> io::Result<Read> {
        let mut needed = HEADER_BYTES;
        loop {
            if self.filled >= needed {
                let Ok(message) = TransactionRepr::parse(&self.buffer[..self.filled]) else {
                    return Ok(Read::Malformed);
                };
                needed = message.message_bytes as usize;
                if needed > MAX_STREAM_MESSAGE_BYTES {
                    return Ok(Read::Malformed);
                }
                if self.filled >= needed {
                    self.buffer.copy_within(needed..self.filled, 0);
                    self.filled -= needed;
                    return Ok(Read::Message(message));
                }
                if self.buffer.len() < needed {
                    self.buffer.resize(needed, 0);
                }
            }
            match net::receive(socket, &mut self.buffer[self.filled..], self.poll)? {
                Some(0) => return Ok(Read::Closed),
                Some(length) => self.filled += length,
                None if go_on() => {}
                None => return Ok(Read::GivenUp),
            }
        }
    }
}

/// Writes a whole message. The socket blocks, for as long as its send timeout allows.
pub fn write(socket: &Socket, mut message: &[u8]) -> io::Result<()> {
    while !message.is_empty() {
        match send(socket, message, SendFlags::NOSIGNAL) {
            Ok(sent) => message = &message[sent..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub struct Stream {
    socket: Socket,
    timeout_ns: u64,
    request: Vec<u8>,
    response_bytes: u32,
    messages: Messages,
}

impl Stream {
    pub fn new(
        socket: Socket,
        poll: Poll,
        timeout_ns: u64,
        request_bytes: u32,
        response_bytes: u32,
    ) -> Result<Stream> {
        let mut request = vec![0; request_bytes as usize];
        write_header(&mut request, TransactionKind::Request, 0, response_bytes);
        net::set_receive_timeout(&socket, timeout_ns)?;
        let messages = Messages::new(poll);
        Ok(Stream {
            socket,
            timeout_ns,
            request,
            response_bytes,
            messages,
        })
    }
}

impl Transport for Stream {
    /// TCP itself repeats what gets lost, so no answer in time means that the connection is stuck,
    /// and every error ends the run: there is no next transaction on this stream.
    fn exchange(&mut self, sequence: u32, _: &[Record], _: &mut Tally) -> Result<Times> {
        set_sequence(&mut self.request, sequence);
        let failed = |why: String| Error::Peer(format!("TCP transaction {sequence}: {why}"));
        let sent_ns = time::now_ns();
        write(&self.socket, &self.request).map_err(|error| failed(error.to_string()))?;
        let deadline_ns = sent_ns + self.timeout_ns;
        let read = self
            .messages
            .read(&self.socket, || time::now_ns() < deadline_ns);
        let received_ns = time::now_ns();
        let answer = match read.map_err(|error| failed(error.to_string()))? {
            Read::Message(answer) => answer,
            Read::Closed => return Err(failed("the peer closed the connection".into())),
            Read::Malformed => return Err(failed("the peer does not speak rr".into())),
            Read::GivenUp => {
                let timeout_ms = self.timeout_ns / 1_000_000;
                return Err(failed(format!("no answer within {timeout_ms} ms")));
            }
        };
        let wanted = self.response_bytes == 0 || answer.message_bytes == self.response_bytes;
        if answer.kind != TransactionKind::Response || answer.sequence != sequence || !wanted {
            return Err(failed(format!("the peer answered with {answer:?}")));
        }
        Ok(Times {
            sent_ns,
            received_ns: Some(received_ns),
            sent: true,
        })
    }

    fn socket(&self) -> &Socket {
        &self.socket
    }

    fn socket_name(&self) -> &'static str {
        "tcp"
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use super::*;

    fn pair() -> (TcpStream, Socket) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let writer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (reader, _) = listener.accept().unwrap();
        (writer, Arc::new(OwnedFd::from(reader)))
    }

    fn message(sequence: u32, message_bytes: u32) -> Vec<u8> {
        let mut bytes = vec![0; message_bytes.max(HEADER_BYTES as u32) as usize];
        TransactionRepr {
            kind: TransactionKind::Request,
            sequence,
            message_bytes,
            reply_bytes: 0,
        }
        .emit(&mut bytes);
        bytes
    }

    fn sequence(read: &Read) -> u32 {
        match read {
            Read::Message(message) => message.sequence,
            other => panic!("expected a message, got {other:?}"),
        }
    }

    #[test]
    fn a_stream_is_cut_into_messages() {
        let (mut writer, reader) = pair();
        let mut messages = Messages::new(Poll::Block);
        // Two at once and half a third, then the rest, larger than the buffer's first size.
        let large = message(3, 100_000);
        let mut first = [message(1, 16), message(2, 50)].concat();
        first.extend_from_slice(&large[..20]);
        writer.write_all(&first).unwrap();
        assert_eq!(sequence(&messages.read(&reader, || true).unwrap()), 1);
        assert_eq!(sequence(&messages.read(&reader, || true).unwrap()), 2);
        writer.write_all(&large[20..]).unwrap();
        drop(writer);
        assert_eq!(sequence(&messages.read(&reader, || true).unwrap()), 3);
        assert_eq!(messages.read(&reader, || true).unwrap(), Read::Closed);
    }

    #[test]
    fn nonsense_and_giants_are_malformed() {
        for bytes in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), message(1, 15), giant()] {
            let (mut writer, reader) = pair();
            writer.write_all(&bytes).unwrap();
            let read = Messages::new(Poll::Block).read(&reader, || true).unwrap();
            assert_eq!(read, Read::Malformed);
        }
    }

    fn giant() -> Vec<u8> {
        let mut bytes = message(1, 16);
        bytes[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
        bytes
    }

    #[test]
    fn waiting_ends_when_the_caller_says_so() {
        let (_writer, reader) = pair();
        let read = Messages::new(Poll::Busy).read(&reader, || false).unwrap();
        assert_eq!(read, Read::GivenUp);
    }
}
