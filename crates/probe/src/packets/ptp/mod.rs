//! Packets that cards stamp by hardware: when they leave, and when they come in.
//!
//! Nearly every card with a clock of its own (PHC) stamps event messages of the Precision Time Protocol, and many stamp
//! nothing else that they receive. So the packets are such messages ([`frame`]). They pass no router: both cards are on one
//! Ethernet.
//!
//! A card with one register for stamps skips packets that come before it was read. They are counted.
//!
//! Stamps are on the clocks of their cards. Nothing is converted here: that takes a comparison of both clocks.

mod frame;
pub mod sink;
pub mod source;

use std::io;

use crate::error::{Error, Result};
use crate::sys;

/// A packet of a sender: its record, and that of the stamp.
const BYTES_PER_PACKET: u64 = 2 * size_of::<latlab_wire::samples::Record>() as u64;

/// An interface whose card stamps.
struct Interface {
    index: u32,
    name: String,
    address: [u8; 6],
    /// Number of its clock.
    clock: u32,
}

impl Interface {
    fn open(name: String) -> Result<Interface> {
        let failed = |what: &str| {
            let what = format!("{what} {name}");
            move |error| Error::machine(what, error)
        };
        let index = sys::interface_index(&name).map_err(failed("find"))?;
        let address = sys::hardware_address(&name).map_err(failed("ask for the address of"))?;
        let clock = sys::stamping_clock(index).map_err(failed("ask for the timestamps of"))?;
        let clock = clock.ok_or_else(|| {
            let none = io::Error::other("its card does not stamp packets of both directions");
            Error::machine(format!("take timestamps of {name}"), none)
        })?;
        Ok(Interface {
            index,
            name,
            address,
            clock,
        })
    }

    /// A packet socket that gets the card's stamps.
    fn socket(&self) -> Result<std::os::fd::OwnedFd> {
        sys::stamping_socket(self.index, frame::ETHER_TYPE).map_err(|error| {
            Error::machine(format!("open a packet socket on {}", self.name), error)
        })
    }
}
