//! The facts of this machine, for the planner, `latlab doctor`, and the record of every run.
//!
//! Reading is cheap and proving is not, so the caller names what must be proven: `doctor` everything,
//! `deploy` only what its lab uses (see [`ReadOptions::for_lab`]). A capability is in the facts because
//! it was tried. Where trying takes seconds, the verdict is kept.
//!
//! Proofs change nothing: they run in fresh namespaces and leave with them. The kernel may load a
//! module on the way, as it would for the lab itself.

pub mod catalogue;
mod file;
mod machine;
mod nics;
mod observed;
mod options;
mod prove;
mod quiet;
mod read;
pub mod texts;
pub mod tools;

pub use file::{Error, load};
pub use nics::pci_driver;
pub use options::{CpusInUse, ReadOptions};
pub use prove::{NEEDS_ROOT, fetches_kernel};
pub use read::{online_cpus, read};
