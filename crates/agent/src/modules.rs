//! The kernel's modules in the guest's first file system.

use std::fs::{self, File};
use std::io;

use crate::step::{StepError, step};

/// The modules packed by the host, named in load order.
const MODULES: &str = "/modules";

pub fn load() -> Result<(), StepError> {
    let entries = step(fs::read_dir(MODULES), || format!("list {MODULES}"))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let load = || -> io::Result<()> {
            match rustix::system::finit_module(&File::open(&path)?, c"", 0) {
                // Built in, or named twice.
                Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
                Err(error) => Err(error.into()),
            }
        };
        step(load(), || format!("load module {}", path.display()))?;
    }
    Ok(())
}
