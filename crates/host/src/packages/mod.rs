//! Packages of a distribution's archive: downloaded, checked and unpacked, never installed.
//!
//! `apt-get download` checks the archive's signatures and the package's checksum. `dpkg-deb -x` runs none of a package's
//! scripts.

mod archive;
mod error;
pub mod kernel;
mod progress;
mod tool;
mod whole;

pub use archive::{Archive, unpack};
pub use error::Error;
pub(crate) use error::{explain, io_error};
pub use progress::Progress;
pub(crate) use tool::run;
pub(crate) use whole::make_whole;
