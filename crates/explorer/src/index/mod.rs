//! The index in SQLite.

mod compare;
mod error;
mod open;
mod scan;
mod search;
mod trend;
mod write;

pub use compare::{Comparison, MAX_RUNS, compare};
pub use error::IndexError;
pub use open::{file, open};
pub use scan::{Progress, Scanner};
pub use search::{Found, Order, Page, run, search};
pub use trend::{Choices, Trend, Wanted, choices, trend};
