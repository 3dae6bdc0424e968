//! Settings that the kernel takes only at boot: from a profile and a division of the CPUs to the exact parameters of
//! its command line (kernel, Documentation/admin-guide/kernel-parameters.txt), each with its evidence and its risk.
//!
//! For the host they are exported, as a line, a GRUB drop-in or a tuned profile: latlab does not edit a
//! boot loader's configuration. Lab VMs are booted with those that mean something in a guest.

mod catalogue;
mod grub;
mod parameters;
mod tuned;

pub use grub::drop_in;
pub use parameters::{Parameter, command_line, cores, of_guest, parameters};
pub use tuned::tuned_conf;
