//! Streams: TCP connections between nodes of one host whose bytes take a socket without a network.
//!
//! Every connection is first made as an ordinary TCP connection through the overlay, the *anchor*. Errors, names, backlog,
//! order and options are the anchor's. When both ends are nodes of the lab, programs get the ends of a *shadow* in the
//! place of their descriptors: a pair of AF_UNIX stream sockets, or a TCP connection over the loopback of an empty
//! namespace. Nothing in a program changes (Cui 2013, 4.6, has the idea as virtual TCP offload).
//!
//! Programs run under a filter of seccomp(2) that has the few calls decided here which make, take and name connections
//! (seccomp_unotify(2)). All others, and all bytes, pass this process by.
//!
//! ```text
//! connect ─► supervisor/connect: the anchor is connected, the client's descriptor exchanged  ─► Offered
//! accept  ─► supervisor/accept:  the anchor is accepted, its offer found, the shadow handed over ─► Claimed
//!            supervisor/rescue:  accepted by a program without filter: its bytes are relayed  ─► Relayed
//!            supervisor/sweep:   both shadows are closed: so is the anchor
//! request ─► supervisor/demote:  programs get their anchors back, which carry what was not read yet
//! ```
//!
//! A connection that cannot be decided safely stays plain: the call is carried out as if there were no filter. Should this process end,
//! [`keeper`] answers every call so.

pub mod control;
mod descriptors;
mod drain;
mod hosts;
pub mod keeper;
pub mod ledger;
mod loopback;
mod options;
mod registry;
mod relay;
mod shadow;
pub mod supervisor;
mod sys;

pub use loopback::{keep_shadows, loopback_up};
