//! Files that latlab keeps to work faster the next time, and their removal.
//!
//! ```text
//! <cache>/images/DIGEST                  unpacked images
//! <cache>/disks/DIGEST.squashfs          images as file systems, for VMs with `root: disk`
//! <cache>/kernels/PACKAGE_VERSION        kernels with their modules
//! <cache>/kernels/vmlinux-DIGEST         kernels taken out of their wrappers
//! <cache>/initramfs-DIGEST.cpio          guests' first file systems
//! <cache>/templates/DIGEST               guests that others are clones of
//! <cache>/borrowed/PROGRAM/VERSION       programs of other releases
//! <cache>/in-use.lock                    shared by those who take entries, and alone for those who remove them
//! ```
//!
//! An entry's time of change says when it was used last. A deployed lab's state names the entries that it uses, and from before
//! it takes them until that state is written, its latlab shares the lock. So nothing is removed that a lab has or is about to
//! have. Verdicts of `doctor` are small and stay, as do locks.

mod clean;
mod entry;
mod error;
mod find;
mod in_use;

pub use clean::{Choice, Cleaned, clean, keep_bounds};
pub use entry::{Entry, Kind, LabUse};
pub use error::Error;
pub use find::list;
pub use in_use::InUse;
