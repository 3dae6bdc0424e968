//! Overlayfs: the machine's own root, read-only, under a writable layer, as container nodes have it,
//! in a mount namespace of the thread's own.

use std::fs;
use std::io;
use std::path::Path;

use latlab_model::facts::Facts;

use super::report::{Report, outcome};
use crate::sys::{Error, inside, mount};

/// Enough for three directories and an empty file.
const SCRATCH_BYTES: u64 = 1 << 20;
/// Covered while the proof lasts, for its own eyes only.
const SCRATCH: &str = "/tmp";

pub(super) fn run(report: &Report) {
    let how = "the root mounted under a writable layer, in a mount namespace of its own";
    let shown = inside::with_own_mounts(Path::new(SCRATCH), overlay);
    report.note(Facts::OVERLAYFS, outcome(&shown, how));
}

fn overlay() -> Result<(), Error> {
    let scratch = Path::new(SCRATCH);
    // No other thread sees this: the mounts end with this one.
    mount::tmpfs(scratch, SCRATCH_BYTES)?;
    let [upper, work, merged] = ["upper", "work", "merged"].map(|name| scratch.join(name));
    for directory in [&upper, &work, &merged] {
        fs::create_dir(directory).map_err(Error::of("make", directory.display()))?;
    }
    mount::overlay(&["/".as_ref()], &upper, &work, &merged)?;
    let proof = merged.join("proof");
    fs::write(&proof, "").map_err(Error::of("write", proof.display()))?;
    if upper.join("proof").exists() {
        return Ok(());
    }
    let lost = io::Error::other("what is written does not reach the writable layer");
    Err(Error::of("prove", "overlayfs")(lost))
}
