//! The parts of an overlay: networks, interfaces, links and routes (Cui 2013, 5.1.2), and how
//! its dispatchers work. The same document is a file, what the daemon answers to `show`, and what a
//! lab's plan holds; its one written form is the line language of [`language`].
//!
//! - A **network** is one Ethernet, known on the wire by its number (VXLAN's VNI). Nothing ever
//!   passes from one to another.
//! - An **interface** is a place on this host where a guest is plugged in; it is in one network.
//! - A **link** leads to another host and carries all networks, or those that it names (a `direct` one carries one).
//! - A **route** says, for frames of a network from some source to some destination, where they go.

mod change;
mod command;
mod document;
mod headroom;
mod items;
pub mod language;
mod mistake;
mod moves;
mod print;
mod values;
mod words;

pub use change::{Item, ItemName, Refusal};
pub use command::{Command, ListWhat};
pub use document::{
    Dispatch, Interface, InterfaceKind, Interrupts, Link, LinkKind, Mode, Network, Overlay, Peer,
    PortName, Qualifier, Route, Switches, Thresholds, Tls, UDP_PORT, VXLAN_PORT, Yield,
};
pub use headroom::HEADROOM_ALIAS;
pub use mistake::Mistake;
pub use moves::{DEFAULT_HOLD, Hold, MAX_ADDRESSES, MAX_HOLD, MAX_HOLD_TIME, Move};
pub use values::valid_name;
