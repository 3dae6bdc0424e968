//! Transactions over UDP and over ICMP echo: one datagram each way, which may get lost.
//!
//! An answer is matched by its sequence number. One that comes after its transaction was given up
//! is *late* and stays lost in the records: the client had moved on, as an application would have.

use std::net::SocketAddr;

use latlab_wire::probe::{TransactionKind, TransactionRepr, set_sequence};
use latlab_wire::samples::{Record, flags};
use rustix::io::Errno;

use super::transaction::{Tally, Times, Transport, write_header};
use crate::error::{Error, Result};
use crate::icmp::{self, Echo};
use crate::net::{self, Sent, Socket};
use crate::setup::Poll;
use crate::time;

#[derive(Debug, Clone, Copy)]
pub enum Framing {
    /// Nothing: it is the UDP payload. The socket is connected, unless it is told whom to send to.
    Udp(Option<SocketAddr>),
    /// The header of an ICMP echo; the peer's kernel sends the same data back.
    Icmp(Echo, &'static str),
}

impl Framing {
    fn header_bytes(&self) -> usize {
        match self {
            Framing::Udp(_) => 0,
            Framing::Icmp(..) => icmp::HEADER_BYTES,
        }
    }

    /// The sequence number of an answer; None if it is none.
    fn answered(&self, received: &[u8]) -> Option<u32> {
        let (message, expected) = match self {
            Framing::Udp(_) => (received, TransactionKind::Response),
            // An echo is the request itself.
            Framing::Icmp(echo, _) => (echo.reply_data(received)?, TransactionKind::Request),
        };
        let repr = TransactionRepr::parse(message).ok()?;
        let whole = repr.message_bytes as usize == message.len();
        (repr.kind == expected && whole).then_some(repr.sequence)
    }
}

pub struct Datagram {
    socket: Socket,
    framing: Framing,
    poll: Poll,
    timeout_ns: u64,
    /// The receive timeout the socket has now; changed only after a stray message.
    socket_timeout_ns: u64,
    request: Vec<u8>,
    received: Vec<u8>,
}

impl Datagram {
    /// Prepares requests of `request_bytes` asking for `response_bytes`.
    pub fn new(
        socket: Socket,
        framing: Framing,
        poll: Poll,
        timeout_ns: u64,
        request_bytes: u32,
        response_bytes: u32,
    ) -> Result<Datagram> {
        let header_bytes = framing.header_bytes();
        let mut request = vec![0; header_bytes + request_bytes as usize];
        let message = &mut request[header_bytes..];
        write_header(message, TransactionKind::Request, 0, response_bytes);
        net::set_receive_timeout(&socket, timeout_ns)?;
        // Not zero, so that its pages are touched; longer than any datagram with its IP header.
        let received = vec![0xff; 1 << 16];
        let socket_timeout_ns = timeout_ns;
        Ok(Datagram {
            socket,
            framing,
            poll,
            timeout_ns,
            socket_timeout_ns,
            request,
            received,
        })
    }

    /// Sends a request, whether earlier ones were answered or not. Returns whether the kernel took it.
    pub fn send(&mut self, sequence: u32, tally: &mut Tally) -> Result<bool> {
        self.prepare(sequence);
        self.send_prepared(sequence, tally)
    }

    fn send_prepared(&mut self, sequence: u32, tally: &mut Tally) -> Result<bool> {
        let to = match &self.framing {
            Framing::Udp(to) => to.as_ref(),
            Framing::Icmp(..) => None,
        };
        let sent = net::send_datagram(&self.socket, &self.request, to, &mut tally.network_errors)
            .map_err(|error| Error::Peer(format!("send request {sequence}: {error}")))?;
        Ok(sent == Sent::Yes)
    }

    /// Takes a datagram that is there: the number of the request that it answers, and when it was received.
    pub fn take(&mut self, tally: &mut Tally) -> Result<Option<(Option<u32>, u64)>> {
        match net::receive(&self.socket, &mut self.received, Poll::Busy) {
            Ok(None) => Ok(None),
            Ok(Some(length)) => {
                let received_ns = time::now_ns();
                Ok(Some((
                    self.framing.answered(&self.received[..length]),
                    received_ns,
                )))
            }
            Err(error) if is_network_error(&error) => {
                tally.network_errors += 1;
                Ok(None)
            }
            Err(error) => Err(Error::Peer(format!("receive a response: {error}"))),
        }
    }

    pub fn poll(&self) -> Poll {
        self.poll
    }

    fn prepare(&mut self, sequence: u32) {
        let message = &mut self.request[self.framing.header_bytes()..];
        set_sequence(message, sequence);
        if let Framing::Icmp(echo, _) = self.framing {
            echo.prepare(&mut self.request, sequence as u16);
        }
    }

    /// Waits for the next datagram, whatever it is; gives its length and when it was received.
    fn receive(&mut self, deadline_ns: u64, tally: &mut Tally) -> Result<Option<(usize, u64)>> {
        loop {
            match net::receive(&self.socket, &mut self.received, self.poll) {
                Ok(Some(length)) => return Ok(Some((length, time::now_ns()))),
                Ok(None) => {}
                Err(error) if is_network_error(&error) => tally.network_errors += 1,
                Err(error) => return Err(Error::Peer(format!("receive a response: {error}"))),
            }
            let now_ns = time::now_ns();
            if now_ns >= deadline_ns {
                return Ok(None);
            }
            if self.poll == Poll::Block {
                self.wait_at_most(deadline_ns - now_ns)?;
            }
        }
    }

    /// Sets the socket's timeout, a system call that the usual transaction does without.
    fn wait_at_most(&mut self, timeout_ns: u64) -> Result<()> {
        if self.socket_timeout_ns != timeout_ns {
            net::set_receive_timeout(&self.socket, timeout_ns)?;
            self.socket_timeout_ns = timeout_ns;
        }
        Ok(())
    }
}

impl Transport for Datagram {
    fn exchange(&mut self, sequence: u32, history: &[Record], tally: &mut Tally) -> Result<Times> {
        if self.poll == Poll::Block {
            self.wait_at_most(self.timeout_ns)?;
        }
        self.prepare(sequence);
        let sent_ns = time::now_ns();
        let sent = self.send_prepared(sequence, tally)?;
        let deadline_ns = sent_ns + self.timeout_ns;
        let mut times = Times {
            sent_ns,
            received_ns: None,
            sent,
        };
        while let Some((length, received_ns)) = self.receive(deadline_ns, tally)? {
            match self.framing.answered(&self.received[..length]) {
                Some(answered) if answered == sequence && received_ns < deadline_ns => {
                    times.received_ns = Some(received_ns);
                    break;
                }
                // The receive timeout is coarse: this one is too late by a little.
                Some(answered) if answered == sequence => {
                    tally.late += 1;
                    break;
                }
                stray => count_stray(stray, history, tally),
            }
            if self.poll == Poll::Block {
                self.wait_at_most(deadline_ns.saturating_sub(time::now_ns()).max(1))?;
            }
        }
        Ok(times)
    }

    fn socket(&self) -> &Socket {
        &self.socket
    }

    fn socket_name(&self) -> &'static str {
        match self.framing {
            Framing::Udp(None) => "udp-connected",
            Framing::Udp(Some(_)) => "udp",
            Framing::Icmp(_, name) => name,
        }
    }
}

fn count_stray(answered: Option<u32>, history: &[Record], tally: &mut Tally) {
    match answered.and_then(|sequence| history.get(sequence as usize)) {
        Some(earlier) if earlier.has(flags::LOST) => tally.late += 1,
        Some(_) => tally.duplicates += 1,
        None => tally.unmatched += 1,
    }
}

fn is_network_error(error: &std::io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(net::is_network_error)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::thread;

    use latlab_wire::probe::HEADER_BYTES;

    use super::*;

    /// The response to request `sequence`.
    fn response(sequence: u32) -> Vec<u8> {
        let mut bytes = vec![0; 20];
        TransactionRepr {
            kind: TransactionKind::Response,
            sequence,
            message_bytes: 20,
            reply_bytes: 0,
        }
        .emit(&mut bytes);
        bytes
    }

    fn client(server: &UdpSocket, poll: Poll, timeout_ms: u64) -> Datagram {
        let socket = net::udp_to(server.local_addr().unwrap(), None).unwrap();
        Datagram::new(
            socket,
            Framing::Udp(None),
            poll,
            timeout_ms * 1_000_000,
            16,
            20,
        )
        .unwrap()
    }

    #[test]
    fn strays_are_told_apart_and_the_answer_is_found_among_them() {
        for poll in [Poll::Block, Poll::Busy] {
            let server = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut client = client(&server, poll, 5_000);
            let serve = thread::spawn(move || {
                let mut request = [0; 64];
                let (length, peer) = server.recv_from(&mut request).unwrap();
                assert_eq!(length, HEADER_BYTES);
                let mut short = response(2);
                short.truncate(19);
                let answers = [
                    response(0),
                    response(1),
                    response(9),
                    b"noise".to_vec(),
                    short,
                    response(2),
                ];
                for answer in answers {
                    server.send_to(&answer, peer).unwrap();
                }
            });
            let lost = Record {
                sequence: 0,
                flags: flags::LOST,
                ..Record::default()
            };
            let answered = Record {
                sequence: 1,
                ..Record::default()
            };
            let mut tally = Tally::default();
            let times = client.exchange(2, &[lost, answered], &mut tally).unwrap();
            serve.join().unwrap();
            assert!(times.sent && times.received_ns.unwrap() > times.sent_ns);
            let expected = Tally {
                late: 1,
                duplicates: 1,
                unmatched: 3,
                network_errors: 0,
            };
            assert_eq!(tally, expected, "{poll:?}");
        }
    }

    #[test]
    fn silence_is_a_loss() {
        for poll in [Poll::Block, Poll::Busy] {
            let server = UdpSocket::bind("127.0.0.1:0").unwrap();
            let times = client(&server, poll, 10)
                .exchange(0, &[], &mut Tally::default())
                .unwrap();
            assert_eq!((times.received_ns, times.sent), (None, true));
        }
    }

    #[test]
    fn a_closed_port_is_a_counted_network_error() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut client = client(&server, Poll::Block, 10);
        drop(server);
        let mut tally = Tally::default();
        assert_eq!(
            client.exchange(0, &[], &mut tally).unwrap().received_ns,
            None
        );
        assert_eq!(tally.network_errors, 1);
    }
}
