//! Sending alone: frames that all begin as a template.

use std::io;

use super::port::{CHUNK_BYTES, Port};
use super::sys::{Descriptor, Memory};

/// Bytes that CPUs move between memory and cache at once.
const CACHE_LINE: usize = 64;

pub struct Sender {
    port: Port,
    memory: Memory,
    /// Frames that are not under way.
    free: Vec<u64>,
}

impl Sender {
    /// Frames that can be under way at once.
    const FRAMES: u32 = 2048;

    /// Opens the interface; every frame begins as `template`.
    pub fn open(interface: u32, template: &[u8]) -> io::Result<Sender> {
        assert!(template.len() <= CHUNK_BYTES);
        let mut memory = Memory::new(Self::FRAMES as usize * CHUNK_BYTES)?;
        // Were they all at the beginning of their page, they would share a few lines of the cache.
        let steps = ((CHUNK_BYTES - template.len()) / CACHE_LINE + 1) as u64;
        let place = |frame: u64| frame * CHUNK_BYTES as u64 + frame % steps * CACHE_LINE as u64;
        let free: Vec<u64> = (0..u64::from(Self::FRAMES)).map(place).collect();
        for &address in &free {
            memory
                .bytes(address as usize, template.len())
                .copy_from_slice(template);
        }
        let port = Port::open(interface, &memory, None, Self::FRAMES, false)?;
        Ok(Sender { port, memory, free })
    }

    /// Room for one more frame of `length` bytes in the batch; its bytes are those it was sent with
    /// before. `None` when all are under way.
    pub fn stage(&mut self, length: usize) -> Option<&mut [u8]> {
        if self.free.is_empty() {
            self.reap();
        }
        let address = self.free.pop()?;
        self.port.send.put(Descriptor {
            address,
            length: length as u32,
            options: 0,
        });
        Some(self.memory.bytes(address as usize, length))
    }

    /// Sends the batch; says how many of its frames the kernel has not taken. Those leave with the next.
    pub fn send(&mut self) -> io::Result<u32> {
        self.port.send.submit();
        let left = self.port.flush()?;
        self.reap();
        Ok(left)
    }

    fn reap(&mut self) {
        while let Some(address) = self.port.completion.take() {
            self.free.push(address);
        }
        self.port.completion.release();
    }
}
