//! Where a frame goes.
//!
//! The configuration is compiled into a [`Table`], which never changes; a change of configuration is
//! a new table, which the dispatchers take between two batches. Where addresses are is learned into
//! [`Learned`], which all dispatchers share. In front of both, each dispatcher has a cache of its
//! own, bounded, so that the usual frame costs one look (VNET/P's routing cache, Cui 2013, 5.1.2).
//! [`Decider`] is the three together.
//!
//! In a network that learns, in this order: a route for exactly this destination; where the address
//! is bound or was learned; a route for many; flooding; a route for what nobody else wants. In one that does not
//! learn, routes alone. Never back to where a frame came from, and never from one link to another
//! unless a route names the link it came from (split horizon).

mod cache;
mod decider;
mod learned;
mod limit;
mod matrix;
mod table;

pub use cache::Carried;
pub use decider::{Decider, Verdict};
pub use learned::Learned;
pub use matrix::Matrix;
pub use table::{PortKind, Table};
