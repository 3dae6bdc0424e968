//! State that the overlay daemons of many hosts share: networks, hosts with their links, and the place of each address.
//!
//! The store is [etcd](https://etcd.io). Each host runs `latlab fabric join` beside its daemon: it tells who the host is,
//! keeps a lease, watches the store, and says to the daemon what has changed. An address moves by one transaction, and the
//! revision of the store that this makes is the revision of the move: a host that learns of it late, or again, changes
//! nothing ([`latlab_overlay`] refuses revisions that are not newer).
//!
//! No frame depends on the store. A host that cannot reach it keeps its links and places as they are.

pub mod change;
pub mod etcd;
pub mod join;
pub mod keys;
pub mod orders;
pub mod state;
pub mod switch;
