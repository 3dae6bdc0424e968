//! A run directory of two captures of the same packets, before and behind a device of any kind.
//!
//! A packet is known again by its bytes. Its time at the first point takes the place of the moment of sending, that at the
//! second of the moment of arrival.

mod capture;
mod error;
mod identity;
mod imported;
mod matching;
mod pair;
mod source;
#[cfg(test)]
mod tests;

pub use error::ImportError;
pub use identity::By;
pub use imported::{Import, Imported};
pub use source::Source;
