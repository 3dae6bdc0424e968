//! From a run directory to the causes of its slow packets.
//!
//! Reads the tables of taps and flight recorder, attributes, and renders: in the terminal, as JSON, as a timeline for
//! Perfetto, as packets for Wireshark. Nothing is read from the machine, so the answer is the same everywhere.

pub mod code;
mod drawn;
mod error;
mod explanation;
mod json;
pub mod pcapng;
pub mod perfetto;
mod run;
mod scenes;
mod tables;
pub mod terminal;

pub use code::Code;
pub use drawn::tails;
pub use error::ExplainError;
pub use explanation::{Explanation, Part, QUANTILES};
pub use run::{explain, explain_readable};
pub use tables::{Choice, HopAttribution, Tables, each};
