//! An interface whose card stamps packets of both directions, and a socket that gets the stamps.

use std::io;

use super::frame;
use crate::error::{Error, Result};
use crate::sys;

/// A packet of a sender: its record, and that of the stamp.
pub(super) const BYTES_PER_PACKET: u64 = 2 * size_of::<latlab_wire::samples::Record>() as u64;

/// An interface whose card stamps.
pub(super) struct Interface {
    index: u32,
    name: String,
    pub(super) address: [u8; 6],
    /// Number of its clock.
    pub(super) clock: u32,
}

impl Interface {
    pub(super) fn open(name: String) -> Result<Interface> {
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
    pub(super) fn socket(&self) -> Result<std::os::fd::OwnedFd> {
        sys::stamping_socket(self.index, frame::ETHER_TYPE).map_err(|error| {
            Error::machine(format!("open a packet socket on {}", self.name), error)
        })
    }
}
