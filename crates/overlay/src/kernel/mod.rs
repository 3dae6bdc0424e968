//! The path inside the kernel, for containers.
//!
//! Without it, a container's frames would cross into user space and back only to repeat the last decision. So the
//! daemon's decisions are also stored in a bounded map of the kernel, by origin (interface, or network of a tunnel),
//! source and destination. Small programs at the interfaces follow them:
//!
//! - into another container of this host (`bpf_redirect_peer`),
//! - out of an uplink unencapsulated (a direct link),
//! - out of an uplink in VXLAN, whose headers the programs write and remove.
//!
//! Large frames stay whole and checksums uncomputed all the way (Cui 2013, 4.3, one step further: no copy at all).
//!
//! ```text
//! container ─ cable ─► from_container ┬─ route known ─► the other container, or the uplink
//! uplink, direct link ► from_direct ──┴─ else ─► tap of the port ─► the daemon decides, and stores the route here
//!                                       └─ at an uplink also the host's stack: the host may use it too
//! uplink, VXLAN ──────► from_tunnel ──┬─ route known ─► the container
//!                                     └─ else ─► the stack ─► the daemon's socket of that link
//! the daemon ─► tap of the port ─► from_daemon ─► the container, or the uplink of a direct link
//! ```
//!
//! Routes stay in force when the daemon dies: programs and maps belong to the interfaces. A restarted daemon finds them
//! by name and continues ([`KernelPath::open`]).
//!
//! A container's cable is a veth pair or, better where the kernel supports it, a netkit pair (`cable`): the sender runs
//! the program there, so a frame is queued only once before the uplink.
//!
//! Left to the daemon: broadcasts and multicasts (up to a rate), frames from one link to another, VLAN tags into a
//! tunnel, UDP GSO datagrams into a tunnel, and frames longer than the path takes.

mod attach;
mod cable;
mod error;
mod headroom;
mod layout;
mod map;
mod object;
mod pairs;
mod path;
mod sys;

pub use error::Error;
pub use layout::{
    Action, Counts, KernelPort, KernelPortKind, Mac, Origin, Rate, Route, RouteKey, TunnelEnds,
};
pub use pairs::Pair;
pub use path::{KernelPath, ROUTES, Review};
