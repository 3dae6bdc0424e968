//! Memory shared with a guest: mapped, bounded, read and written by address. The only unsafe code of rings.
//!
//! Shared memory never becomes a reference, because the guest may write at any moment. The bounds of an [`Area`] or a [`Region`] are
//! checked once, and every access is inside them.

mod area;
mod handover;
mod instructions;
mod mapping;
mod truncation;

pub use area::Area;
pub use handover::{Handover, Taken};
pub(super) use instructions::{barrier, prefetch, prefetch_write};
pub use mapping::{Place, Region};
