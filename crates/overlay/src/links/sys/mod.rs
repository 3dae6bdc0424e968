//! System calls for datagrams in bulk, and the memory that they read and write.
//!
//! `unsafe`, because the kernel's message headers are made of pointers. Both directions keep them within one call:
//! [`Inbox`] points into its own memory, [`Outbox`] into an arena that it borrows until the call is over.
//!
//! - `socket`, `address`: sockets, their options and addresses
//! - `inbox`: received messages, in their own memory; `buffer`: memory that batches borrow
//! - `outbox`: frames to be sent, gathered from an arena

mod address;
mod buffer;
mod inbox;
mod outbox;
mod socket;

pub use address::Address;
pub use buffer::Buffer;
pub use inbox::Inbox;
pub use outbox::{Outbox, Report, write_pieces};
pub use socket::{MAX_DATAGRAM, get, packet_socket, promiscuous_socket, set};
