//! A small synchronous rtnetlink client: links, addresses, routes, neighbours, queueing disciplines.
//!
//! Two programs use it: `latlab-host`, as root in any network namespace of the machine, and
//! `latlab-agent`, statically linked, inside guests. Neither has an async runtime, and neither needs
//! one: the kernel answers a netlink request before `sendmsg` returns. What both need is to make
//! many changes quickly, so the crate separates *describing* a change from *making* it:
//!
//! - a [`Request`] is one change (or one question) as bytes, with a sentence for the error message;
//!   `NewLink`, [`Address`], [`Route`], [`Neighbour`] and [`Qdisc`] build requests;
//! - a [`Handle`] is a socket bound to the network namespace it was opened in. It sends one request
//!   or a thousand, in as few system calls as the kernel's buffers allow, and matches every error to
//!   its request.
//!
//! The byte layouts of requests come from `netlink-packet-route`. Answers are read attribute by attribute and unknown
//! ones are skipped, because a newer kernel must not make a dump unreadable. There is no `unsafe` here.

mod address;
mod attribute;
mod copy;
mod error;
mod handle;
mod link;
mod neighbour;
mod qdisc;
mod request;
mod route;

pub use address::{Address, InterfaceAddress};
pub use copy::Table;
pub use error::Error;
pub use handle::Handle;
pub use link::{
    Interface, Link, LinkChange, LinkKind, LinkStats, MacAddress, NetkitEnd, NewLink,
    VirtualFunction, Vxlan, delete,
};
pub use neighbour::{Neighbour, NeighbourEntry};
pub use qdisc::{Netem, Parent, Qdisc, QdiscEntry, Tbf, delete_root_qdisc};
pub use request::Request;
pub use route::{Route, RouteEntry};
