//! When a guest has to kick: a real daemon, and a driver that kicks only if it is asked to.

mod common;
mod vm;

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use common::run;
use vm::{PLAIN, Vm};

/// Coalescing window: long enough that a daemon without coalescing sleeps within it.
const WINDOW: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_millis(50);

/// A one-way sender kicks for each of its first 64 frames, and for 8 after each pause.
const FRAMES: u32 = 120;
const MIN_MANY: u32 = 110;
const MAX_FEW: u32 = 100;
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// Sends a frame as a driver does, once the daemon has had time to sleep; true if that took a kick.
fn send(from: &mut Vm, to_other: bool, number: u32) -> bool {
    let [own, other] = match to_other {
        true => MACS,
        false => [MACS[1], MACS[0]],
    };
    let end = Instant::now() + TIMEOUT;
    while !from.from_guest.asks_for_kicks(&from.guest) && Instant::now() < end {
        std::thread::yield_now();
    }
    let body = [&other[..], &own, &[0x88, 0xb5], &number.to_be_bytes()].concat();
    from.send(&body);
    // The frame must be out before the wish is read.
    fence(Ordering::SeqCst);
    let asks = from.from_guest.asks_for_kicks(&from.guest);
    if asks {
        from.kick.write(1).unwrap();
    }
    asks
}

/// Waits for this frame, and takes nothing else.
fn wait_for(guest: &mut Vm, number: u32) {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some((_, frame)) = guest.receive() {
            assert_eq!(frame[14..18], number.to_be_bytes(), "in order");
            return;
        }
        assert!(Instant::now() < end, "frame {number} did not come");
        std::thread::yield_now();
    }
}

/// Frames one by one, each when the last one has come; with answers or without. Returns the kicks that the frames took,
/// not the answers.
fn kicks(guests: &mut [Vm; 2], answered: bool) -> u32 {
    let [a, b] = guests;
    let mut kicks = 0;
    for number in 0..FRAMES {
        kicks += u32::from(send(a, true, number));
        wait_for(b, number);
        if answered {
            send(b, false, number);
            wait_for(a, number);
        }
    }
    kicks
}

#[test]
fn one_way_senders_are_coalesced_and_requests_are_not() {
    run("overlay-gathering", |world| {
        let sockets = ["a", "b"].map(|name| world.path(&format!("{name}.sock")));
        let mut config = String::from("add network lan vni 7\n");
        for (name, socket) in ["a", "b"].iter().zip(&sockets) {
            config += &format!(
                "add interface {name} network lan vhost-user {} kick-coalesce {}ms\n",
                socket.display(),
                WINDOW.as_millis()
            );
        }
        let daemon = world.daemon("control", &config);
        let mut guests = sockets.each_ref().map(|socket| Vm::connect(socket, PLAIN));
        let mut kicks = |answered| kicks(&mut guests, answered);
        let many = |kicks: u32, what: &str| assert!(kicks >= MIN_MANY, "{kicks} kicks, {what}");
        // Both are known from here on.
        many(kicks(true), "of one who waits");
        let few = kicks(false);
        assert!(few <= MAX_FEW, "{few} kicks, gathered");
        many(kicks(true), "of one who waits again");
        daemon.tell("set dispatch mode guest");
        many(kicks(false), "guest-driven");
        daemon.tell("set dispatch mode adaptive");
        daemon.tell("set interface a kick-coalesce 0s");
        many(kicks(false), "switched off");
        assert_eq!(daemon.counter("b", "dropped_no_buffer"), 0);
    });
}
