//! The server: HTTP/1 on one thread, requests on others.

mod answers;
mod error;
mod guard;
mod page;
mod refusal;
mod serve;
mod token;

pub use error::ServeError;
pub use serve::{Server, Settings};
