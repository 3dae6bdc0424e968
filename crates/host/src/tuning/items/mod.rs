//! The items that knobs set: one kind per file, each read, written, compared and restored the same way.
//!
//! An item is data: it goes into the journal and must be found again by another process, after a crash, in a
//! machine that moved on. The journal holds values as text, whatever the kernel's own form.

mod file;
mod group;
mod holder;
mod item;
mod nic;
mod task;
mod trust;
mod value;

pub use file::Form;
pub use item::Item;
pub use nic::Setting;
pub use task::{Attribute, Task};
pub use value::Value;

pub(super) use file::{NONE, only_read};
