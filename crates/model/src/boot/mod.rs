//! Settings that the kernel takes only at boot: from a profile and a division of the CPUs to the exact parameters of
//! its command line (kernel, Documentation/admin-guide/kernel-parameters.txt), each with its evidence and its risk.
//!
//! For the host they are exported, as a line, a GRUB drop-in or a tuned profile: latlab does not edit the
//! boot loader's configuration of this machine. Hosts behind a controller boot with them. Lab VMs are booted with those that mean something in a guest.

mod catalogue;
mod grub;
mod parameters;
mod tuned;
mod words;

pub use grub::{drop_in, drop_in_of, words_of_drop_in};
pub use parameters::{Parameter, command_line, cores, of_guest, parameters};
pub use tuned::tuned_conf;
pub use words::words;
