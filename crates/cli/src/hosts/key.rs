//! `latlab host-key`: the key of this machine for sealed links. It is made at the first call, and never leaves the machine.

use std::fs;
use std::io;
use std::path::Path;

use latlab_host::dirs::Dirs;
use latlab_overlay::links::udp::sealed::{Identity, hexadecimal};

use crate::failure::{Failure, Hint, Outcome, need_root};
use crate::print;

pub fn run() -> Outcome {
    need_root("host-key", "only root may read the machine's private key")?;
    let identity = of_machine(&Dirs::from_env().host_key())?;
    print::document(&(hexadecimal(&identity.public()) + "\n"))
}

/// The key in this file, which is made if there is none.
pub fn of_machine(path: &Path) -> Result<Identity, Failure> {
    read_or_make(path).hint(format!("{} holds the key", path.display()))
}

fn read_or_make(path: &Path) -> io::Result<Identity> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    match Identity::create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Identity::read(path),
        made => made,
    }
}
