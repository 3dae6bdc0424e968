//! Overlayfs: the machine's own root, read-only, under a writable layer, as container nodes have it,
//! in a mount namespace of the thread's own.

use std::fs;
use std::io;
use std::path::Path;

use latlab_model::facts::Facts;

use super::{Report, outcome, refused};
use crate::sys::{feature, mount};

/// Enough for three directories and an empty file.
const SCRATCH_BYTES: u64 = 1 << 20;

pub(super) fn run(report: &Report) {
    if let Err(error) = feature::enter_private_mounts() {
        return report.note(Facts::OVERLAYFS, refused(&error));
    }
    let how = "the root mounted under a writable layer, in a mount namespace of its own";
    report.note(Facts::OVERLAYFS, outcome(&overlay(), how));
}

fn overlay() -> io::Result<()> {
    let scratch = Path::new("/tmp");
    // Nobody else sees this: the mounts end with the thread.
    mount::tmpfs(scratch, SCRATCH_BYTES).map_err(|error| error.source)?;
    let [upper, work, merged] = ["upper", "work", "merged"].map(|name| scratch.join(name));
    for directory in [&upper, &work, &merged] {
        fs::create_dir(directory)?;
    }
    mount::overlay("/".as_ref(), &upper, &work, &merged).map_err(|error| error.source)?;
    fs::write(merged.join("proof"), "")?;
    if upper.join("proof").exists() {
        return Ok(());
    }
    Err(io::Error::other(
        "what is written does not reach the writable layer",
    ))
}
