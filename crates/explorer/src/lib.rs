//! The explorer: a local web page over a directory of runs.
//!
//! The run directories hold all state: what latlab measured, and the annotations that people wrote. The index is computed
//! from them and can be removed at any time. Requests read the index; only one run's page reads that run's summary.
//!
//! ```text
//! runs/*/summary.json ─ index/scan ─► SQLite ─ index/search, compare, trend ─► server ─► web/dist/explorer.html
//! ```

mod entry;
mod index;
mod query;
mod server;

pub use index::IndexError;
pub use server::{ServeError, Server, Settings};
