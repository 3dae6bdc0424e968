//! A host's agent: it keeps the host's lease, and its daemon as the store says.

mod applied;
mod event;
mod lease;
mod member;
mod taking;
mod watcher;

pub use event::Event;
pub use member::{Error, Member, Options};
