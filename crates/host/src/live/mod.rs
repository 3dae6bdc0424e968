//! Live systems: a kernel and an image that a machine starts from the network or a medium, and that leave its disks alone.
//!
//! ```text
//! DIR/vmlinuz      the kernel, as its package has it: firmware and iPXE start nothing else
//! DIR/initrd.img   the agent as first process, the modules that it needs, the image and its modules (squashfs)
//! DIR/boot.ipxe    what iPXE is to do: load both, with the command line
//! DIR/live.json    what latlab made, and the part of the command line that stays
//! FILE.iso         the same on a medium
//! ```
//!
//! The image is in the memory of the machine, compressed, with a writable layer on top: no server is needed once it runs, and
//! the next start is as the first. The agent tells the command line on the console before it starts the image's own `init`,
//! so that the one who asked for it hears the answer without a network.

mod directory;
mod error;
pub mod iso;
mod pack;

pub use directory::Live;
pub use error::Error;
pub use pack::{Wish, make};
