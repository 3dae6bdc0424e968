//! Joins vhost-user ports in pairs on one polling thread: what the rings cost by themselves, without
//! looking anything up. `bench/overlay-vhost` runs it beside the daemon.
//!
//!     vhost_user_pairs CPU SOCKET SOCKET [SOCKET SOCKET]...
//!
//! Ends when its standard input does, and prints every port's counters.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use latlab_model::overlay::Switches;
use latlab_model::units::Nanos;
use latlab_overlay::endpoints::{Counters, DropReason, PortId, Receive, Transmit};
use latlab_overlay::frames::Batch;
use latlab_overlay::ports::vhost_user::{Receiver, Sender, VhostUser, VhostUserConfig};

/// Frames a pass.
const BATCH: usize = 32;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(cpu), sockets) = (
        arguments.first().and_then(|c| c.parse().ok()),
        &arguments[1..],
    ) else {
        eprintln!("usage: vhost_user_pairs CPU SOCKET SOCKET...");
        std::process::exit(2);
    };
    let mut ports = Vec::new();
    for (id, socket) in (0..).zip(sockets) {
        let counters = Arc::new(Counters::default());
        let settings = VhostUserConfig {
            id: PortId(id),
            socket: socket.into(),
            client: false,
            queues: 1,
            mtu: 1500,
            // This example has no clock.
            switches: Switches {
                tx_coalesce: Nanos(0),
                ..Switches::default()
            },
        };
        ports.push((VhostUser::open(settings, Arc::clone(&counters))?, counters));
    }
    let mut ends: Vec<(Receiver, Sender)> = (0..ports.len())
        .map(|here| (ports[here].0.receiver(0), ports[here ^ 1].0.sender()))
        .collect();
    let end = Arc::new(AtomicBool::new(false));
    let ending = Arc::clone(&end);
    let dispatcher = std::thread::spawn(move || {
        pin(cpu);
        while !ending.load(Relaxed) {
            ends.iter_mut().for_each(pass);
        }
    });
    io::stdin().read_to_end(&mut Vec::new())?;
    end.store(true, Relaxed);
    dispatcher.join().expect("the dispatcher ends by itself");
    for ((port, counters), socket) in ports.iter().zip(sockets) {
        let dropped = DropReason::ALL.map(|r| counters.dropped(r));
        println!(
            "{socket}: received {} sent {} batches {} kicks {} interrupts {} dropped {dropped:?} {}",
            counters.received.frames.load(Relaxed),
            counters.sent.frames.load(Relaxed),
            counters.batches.load(Relaxed),
            counters.kicks.load(Relaxed),
            counters.interrupts.load(Relaxed),
            port.trouble().unwrap_or_default(),
        );
    }
    Ok(())
}

fn pass((receiver, sender): &mut (Receiver, Sender)) {
    // One batch for each direction would do too; what matters is that nothing is allocated in a pass.
    thread_local! {
        static BATCHES: std::cell::RefCell<(Batch, Vec<u16>)> =
            std::cell::RefCell::new((Batch::new(BATCH), Vec::with_capacity(BATCH)));
    }
    BATCHES.with_borrow_mut(|(batch, all)| {
        let received = receiver.receive(batch);
        if received > 0 {
            all.clear();
            all.extend(0..received as u16);
            sender.transmit(batch, all);
            sender.flush();
        }
        receiver.complete();
        batch.clear();
    });
}

fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).expect("a CPU that there is");
}
