//! One client's byte stream: frames in, frames out, and a bound on what waits to go out.
//!
//! **Whose end?** The kernel learns by separate queues that a port's client came or went, and what it said; the queues
//! are not in step. So a new client's greeting can be read *before* its coming is known, and then the next read still
//! reports the end of the former client, and writes are refused until the news is through. An end that is seen while
//! an answer to a greeting waits is therefore the former client's, and the answer stays.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use latlab_wire::channel::{Decoder, Message, encode};

/// Data is only taken from processes while less than this waits for the client, so a client that does
/// not read costs this much memory and no more.
const OUT_LIMIT_BYTES: usize = 128 * 1024;
/// How much is read from the client in one turn.
const READ_BYTES: usize = 64 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub enum Input {
    /// Bytes came and are in the decoder.
    Some,
    None,
    Ended,
}

pub struct Port {
    fd: OwnedFd,
    /// Whether the poller announced something that has not been read yet.
    pub readable: bool,
    pub inbox: Decoder,
    pub outbox: Outbox,
    /// The answer to a greeting is in the outbox, not yet wholly sent.
    answering: bool,
}

impl Port {
    pub fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            readable: true,
            inbox: Decoder::default(),
            outbox: Outbox::default(),
            answering: false,
        }
    }

    /// Begins with a new client: nothing that was meant for the former one goes out any more, only the
    /// answer to the new one's greeting.
    pub fn answer(&mut self, greeting: &Message) -> io::Result<()> {
        self.outbox.clear();
        self.answering = true;
        self.outbox.push(greeting)
    }

    /// The kernel says that the client is gone. What it had half said stays in the inbox: a preamble
    /// spoils it, and it may be the next client's.
    pub fn client_gone(&mut self) {
        if !self.answering {
            self.outbox.clear();
        }
    }

    pub fn read(&mut self, buffer: &mut Vec<u8>) -> Input {
        buffer.resize(READ_BYTES, 0);
        match rustix::io::read(&self.fd, &mut buffer[..]) {
            Ok(0) => {
                self.readable = false;
                Input::Ended
            }
            Ok(count) => {
                self.inbox.push(&buffer[..count]);
                Input::Some
            }
            Err(rustix::io::Errno::INTR) => Input::Some,
            Err(rustix::io::Errno::AGAIN) => {
                self.readable = false;
                Input::None
            }
            Err(_) => {
                self.readable = false;
                Input::Ended
            }
        }
    }

    /// Writes as much as the stream takes. True if anything went out. A dead stream shows as the end of
    /// its input, so errors need no path of their own here.
    pub fn flush(&mut self) -> bool {
        let mut progress = false;
        while let Some(frame) = self.outbox.frames.front() {
            match rustix::io::write(&self.fd, &frame[self.outbox.sent..]) {
                Ok(count) if count > 0 => {
                    progress = true;
                    self.outbox.advance(count);
                }
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) | Err(_) => break,
            }
        }
        self.answering &= !self.outbox.frames.is_empty();
        progress
    }
}

#[derive(Debug, Default)]
pub struct Outbox {
    frames: VecDeque<Vec<u8>>,
    /// Bytes of the first frame already written.
    sent: usize,
    waiting_bytes: usize,
}

impl Outbox {
    pub fn push(&mut self, message: &Message) -> io::Result<()> {
        let mut frame = Vec::new();
        encode(message, &mut frame).map_err(io::Error::other)?;
        self.waiting_bytes += frame.len();
        self.frames.push_back(frame);
        Ok(())
    }

    pub fn has_room(&self) -> bool {
        self.waiting_bytes < OUT_LIMIT_BYTES
    }

    /// Forgets what was meant for a client that is gone. A frame that is half out stays: the next
    /// client can skip it whole, but not half of it.
    pub fn clear(&mut self) {
        self.frames.truncate(usize::from(self.sent > 0));
        self.waiting_bytes = self
            .frames
            .front()
            .map_or(0, |frame| frame.len() - self.sent);
    }

    fn advance(&mut self, count: usize) {
        self.sent += count;
        self.waiting_bytes -= count;
        if self
            .frames
            .front()
            .is_some_and(|frame| frame.len() == self.sent)
        {
            self.frames.pop_front();
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn bytes_of(message: &Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(message, &mut bytes).unwrap();
        bytes
    }

    /// On a virtio-serial port: greeting, late news of the former client's end, news of our coming.
    #[test]
    fn the_answer_to_a_greeting_outlives_the_former_clients_end() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut port = Port::new(ours.into());
        port.outbox.push(&Message::Done { session: 1 }).unwrap();
        let answer = Message::Done { session: 2 };
        port.answer(&answer).unwrap();
        port.client_gone();
        assert!(port.flush());
        // From now on an end is this client's own.
        port.outbox.push(&Message::Done { session: 4 }).unwrap();
        port.client_gone();
        assert!(!port.flush());
        drop(port);
        let mut received = Vec::new();
        io::Read::read_to_end(&mut theirs, &mut received).unwrap();
        assert_eq!(received, bytes_of(&answer));
    }

    #[test]
    fn a_half_written_frame_outlives_its_client_and_the_rest_does_not() {
        let mut outbox = Outbox::default();
        for session in 0..3 {
            outbox.push(&Message::Done { session }).unwrap();
        }
        let length = outbox.frames[0].len();
        assert_eq!(outbox.waiting_bytes, 3 * length);
        outbox.advance(5);
        outbox.clear();
        assert_eq!((outbox.frames.len(), outbox.waiting_bytes), (1, length - 5));
        outbox.advance(length - 5);
        outbox.clear();
        assert_eq!((outbox.frames.len(), outbox.waiting_bytes), (0, 0));
    }
}
