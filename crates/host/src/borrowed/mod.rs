//! Programs of another version than the machine's: found, or fetched from the distribution's archive and never installed.
//!
//! A program that is in `PATH` and new enough is used as it is. Otherwise its packages are unpacked into the cache:
//!
//! ```text
//! <cache>/borrowed/TOOL/apt/            settings and package lists of the suite, apart from the machine's
//! <cache>/borrowed/TOOL/VERSION/root    the packages, unpacked
//! <cache>/borrowed/TOOL/chosen.json     which version is used
//! ```
//!
//! The lists' signatures are checked with the machine's keys of Debian's archive. A version appears whole or not at all:
//! all work is done in a directory beside it, renamed at the end, under a lock. What is chosen stays until the file is
//! removed: two days apart the same program runs, without network.
//!
//! Where a program is newer than the machine's C library, it is run by the loader that came with it, which looks for
//! libraries only among those that came with it.

mod catalogue;
pub mod criu;
mod fetch;
mod find;
mod program;
mod proof;

pub use catalogue::Tool;
pub use fetch::Error;
pub use find::{find, get};
pub use program::Borrowed;
pub use proof::{VERDICT_FILE, Verdict, prove};
