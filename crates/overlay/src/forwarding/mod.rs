//! Forwarding decisions.
//!
//! The configuration is compiled into an immutable [`Table`]. A change of configuration makes a new table, which the
//! dispatchers take between two batches. Addresses are learned into [`Learned`], which all dispatchers share. In front
//! of both, each dispatcher has a private, bounded cache, so that most frames cost one lookup (VNET/P's routing cache,
//! Cui 2013, 5.1.2). [`Decider`] combines the three.
//!
//! Precedence in a learning network: a route for exactly this destination; the port that the address was moved to
//! (`moved`), is bound to, or was learned at; a general route; flooding; a fallback route. In a network without learning, routes alone decide. Frames
//! never return to the port they came from, and never go from one link to another unless a route names the link they
//! came from (split horizon). Frames for an address that is held wait before any of this is asked (`hold`).

mod address;
mod cache;
mod decider;
mod flow;
mod hold;
mod learned;
mod limit;
mod matrix;
mod moved;
mod table;
mod verdict;

pub use cache::FlowCounters;
pub use decider::Decider;
pub use flow::{Flow, FlowSink};
pub use hold::{Held, HeldCounters, Hold, HoldBudget, Holds, Release};
pub use learned::Learned;
pub use matrix::Matrix;
pub use moved::{MoveError, MovedAddress};
pub use table::{PortKind, Table};
pub use verdict::{Verdict, Waiting};
