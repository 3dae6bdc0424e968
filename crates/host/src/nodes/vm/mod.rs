//! Virtual machines: QEMU with a directly booted kernel, the host's own root as image, and an agent as
//! init that is reached without any network.
//!
//! The parts, in the order they are used:
//!
//! - [`kernel`] finds what to boot, [`bzimage`] takes it out of its wrapper, [`modules`] and
//!   [`initramfs`] pack what the guest needs before it sees its image;
//! - [`accel`] proves by a boot whether KVM works, or says why not;
//! - [`qemu`] writes the command line, [`nic`] the network cards' part, [`Vm`] starts it and watches it, [`qmp`] controls it;
//! - `confine` says what its servers on the host may see and do;
//! - [`pin`] puts its threads where the blueprint says;
//! - `dpdk` sets a guest's huge pages and ports up;
//! - `start` does all of that for a planned node, `clone` from a saved one (`template`), `copy` from a `snapshot` of a node, and
//!   `tuned` turns the knobs inside;
//! - [`channel`] runs commands in it; [`clock`] compares its clock with the host's.
//!
//! A guest outlives the process that started it. Everything another `latlab` needs is in the guest's
//! directory (sockets, locks, console) and its process (its number, the clock page). Whether a guest lives is
//! asked of its process and its console, never inferred from a silence alone. A kernel that panicked, a
//! QEMU that refused its arguments and an agent that does not answer are different errors, each found
//! early.

pub mod accel;
mod accelerator;
pub mod bzimage;
mod cards;
pub mod channel;
pub(crate) mod channels;
pub mod clock;
pub mod clone;
mod command_line;
mod confine;
mod console;
mod copy;
pub(crate) mod cpio;
mod cpu;
pub mod disk;
mod dpdk;
mod driver;
pub(crate) mod error;
mod fingerprint;
mod guest;
pub mod initramfs;
pub mod kernel;
mod mend;
mod migrate;
pub mod modules;
mod network;
pub mod nic;
mod paths;
pub mod pin;
pub mod qemu;
pub mod qmp;
mod renewal;
pub(crate) mod share;
mod snapshot;
mod start;
mod state;
pub mod template;
pub(crate) mod tuned;
mod virtiofs;

pub use accelerator::{Accelerator, PROGRAM};
pub use error::Error;
pub use guest::Vm;
pub use paths::{console_path, log_path, qmp_path};
pub use share::{Access, GuestDisks, Share};
pub(crate) use start::BOOT_VARIABLE;
