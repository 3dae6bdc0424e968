//! An open connection, plain or under TLS, with its unsent bytes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustls::Connection;

use crate::frames::Arena;
use crate::links::sys;

/// Bytes encrypted at once.
const CHUNK: usize = 16 << 10;

#[derive(Debug)]
pub(super) struct Stream {
    socket: Arc<TcpStream>,
    tls: Option<Box<Connection>>,
    /// The record that the socket took a part of (plain only; TLS has a buffer of its own).
    unsent: Vec<u8>,
    sent: usize,
    scratch: Vec<u8>,
    pub epoch: u64,
}

impl Stream {
    pub fn new(socket: TcpStream, tls: Option<Connection>) -> io::Result<Stream> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(None)?;
        socket.set_write_timeout(None)?;
        let tls = tls.map(|mut tls| {
            // Bounded by `write`, which stops when the socket takes no more.
            tls.set_buffer_limit(None);
            Box::new(tls)
        });
        Ok(Stream {
            socket: Arc::new(socket),
            tls,
            unsent: Vec::new(),
            sent: 0,
            scratch: Vec::new(),
            epoch: 0,
        })
    }

    pub fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    pub fn has_unsent(&self) -> bool {
        match &self.tls {
            Some(tls) => tls.wants_write(),
            None => self.sent < self.unsent.len(),
        }
    }

    /// Reads some bytes; zero at the end of the connection.
    pub fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut socket = &*self.socket;
        let Some(tls) = &mut self.tls else {
            return socket.read(to);
        };
        loop {
            match tls.reader().read(to) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            if tls.read_tls(&mut socket)? == 0 {
                return Ok(0);
            }
            tls.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// Sends unsent bytes, then the pieces of the arena; returns how many pieces were taken. A piece is taken if it is
    /// sent, or its rest is stored.
    pub fn write(&mut self, arena: &Arena) -> io::Result<usize> {
        if !self.flush()? {
            return Ok(0);
        }
        if self.tls.is_some() {
            return self.write_tls(arena);
        }
        let mut piece = 0;
        while piece < arena.len() {
            let (end, mut sent) = match sys::write_pieces(self.socket.as_fd(), arena, piece) {
                Ok(done) => done,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(piece),
                Err(error) => return Err(error),
            };
            while piece < end && sent >= arena.bytes(piece) {
                sent -= arena.bytes(piece);
                piece += 1;
            }
            if piece < end {
                if sent == 0 {
                    return Ok(piece);
                }
                copy(arena, piece, &mut self.unsent);
                self.sent = sent;
                return Ok(piece + 1);
            }
        }
        Ok(piece)
    }

    fn write_tls(&mut self, arena: &Arena) -> io::Result<usize> {
        for piece in 0..arena.len() {
            copy(arena, piece, &mut self.scratch);
            if let Some(tls) = &mut self.tls {
                for chunk in self.scratch.chunks(CHUNK) {
                    tls.writer().write_all(chunk)?;
                }
            }
            if !self.flush()? {
                return Ok(piece + 1);
            }
        }
        Ok(arena.len())
    }

    /// Sends unsent bytes; returns whether all are sent.
    pub fn flush(&mut self) -> io::Result<bool> {
        let mut socket = &*self.socket;
        while self.has_unsent() {
            let done = match &mut self.tls {
                Some(tls) => tls.write_tls(&mut socket).map(|_| 0),
                None => socket.write(&self.unsent[self.sent..]),
            };
            match done {
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.unsent.clear();
        self.sent = 0;
        Ok(true)
    }
}

fn copy(arena: &Arena, piece: usize, to: &mut Vec<u8>) {
    to.clear();
    to.extend_from_slice(arena.head(piece));
    for segment in arena.rest(piece) {
        segment.append_to(to);
    }
}
