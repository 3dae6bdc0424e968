//! A flow of datagrams that must lose nothing while the rest of the world changes.
//!
//! There are never more on their way than any queue holds, and all of them are waited for before the
//! next: a machine that is busy makes the flow slow, only the network makes it lose.

use std::collections::HashSet;
use std::fs::File;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::TIMEOUT;

/// Datagrams in flight.
const BURST: u64 = 32;

/// A flow, until it is ended.
pub struct Flow {
    end: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

/// A socket at an address of a namespace.
fn socket(namespace: &Path, address: &str) -> UdpSocket {
    let namespace = File::open(namespace).unwrap();
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            UdpSocket::bind((address, 0)).unwrap()
        });
        inside.join().unwrap()
    })
}

impl Flow {
    /// Begins to send from one namespace to an address of another.
    pub fn start(from: &Path, to: &Path, address: &str) -> Flow {
        let (sender, receiver) = pair(from, to, address);
        let end = Arc::new(AtomicBool::new(false));
        let ended = end.clone();
        let thread = std::thread::spawn(move || {
            let mut sent = 0;
            while !ended.load(Relaxed) {
                let burst = sent..sent + BURST;
                exchange(&sender, &receiver, burst);
                sent += BURST;
                // The changes need the CPU as well.
                std::thread::sleep(Duration::from_millis(2));
            }
            sent
        });
        Flow { end, thread }
    }

    /// Ends it; how many datagrams were sent, all of which arrived.
    pub fn finish(self) -> u64 {
        self.end.store(true, Relaxed);
        self.thread.join().expect("nothing was lost")
    }
}

/// Sends a burst once, and waits until all of it has arrived.
pub fn passes(from: &Path, to: &Path, address: &str) {
    let (sender, receiver) = pair(from, to, address);
    exchange(&sender, &receiver, 0..BURST);
}

/// A sender in one namespace, connected to a receiver in another.
fn pair(from: &Path, to: &Path, address: &str) -> (UdpSocket, UdpSocket) {
    let (sender, receiver) = (socket(from, "0.0.0.0"), socket(to, address));
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    receiver.set_read_timeout(Some(TIMEOUT)).unwrap();
    (sender, receiver)
}

/// Sends these, and waits until each has arrived.
fn exchange(sender: &UdpSocket, receiver: &UdpSocket, numbers: std::ops::Range<u64>) {
    let mut missing: HashSet<u64> = numbers.clone().collect();
    for number in numbers {
        sender.send(&number.to_be_bytes()).unwrap();
    }
    while !missing.is_empty() {
        let mut bytes = [0; 8];
        match receiver.recv(&mut bytes) {
            Ok(8) => {
                missing.remove(&u64::from_be_bytes(bytes));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("lost: {missing:?}"),
            other => panic!("{other:?}"),
        }
    }
}
