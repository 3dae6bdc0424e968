//! Labs on several hosts: a file per verb, each of which asks the latlab of every host.
//!
//! A host's part is an ordinary lab there: deployed, journaled and destroyed by the latlab of that host, over ssh. The
//! machine where `latlab deploy` was called keeps only the [`record`] of which hosts there are.

mod connected;
pub mod deploy;
pub mod destroy;
pub mod exec;
pub mod inspect;
pub mod key;
pub mod record;
mod remote;
mod session;
pub mod study;
pub mod verbs;
