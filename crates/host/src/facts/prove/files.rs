//! The holders of files. Overlayfs: the machine's own root, read-only, under a writable layer, as container nodes have
//! it, in a mount namespace of the thread's own. Disks of images, and the ways to them.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use latlab_model::facts::Facts;

use super::report::{Report, outcome};
use crate::sys::loop_device::LoopDevice;
use crate::sys::{Error, feature, inside, mount, sealed};

/// Enough for three directories and an empty file.
const SCRATCH_BYTES: u64 = 1 << 20;
/// Covered while the proof lasts, for its own eyes only.
const SCRATCH: &str = "/tmp";
/// 1 keeps io_uring from users without privilege, 2 from all (Linux 6.6).
const IO_URING_DISABLED: &str = "/proc/sys/kernel/io_uring_disabled";

pub(super) fn run(report: &Report) {
    let how = "the root mounted under a writable layer, in a mount namespace of its own";
    let shown = inside::with_own_mounts(Path::new(SCRATCH), overlay);
    report.note(Facts::OVERLAYFS, outcome(&shown, how));
}

/// A disk over a file in memory, which goes with its descriptors. Whether it can go past the page cache depends on the
/// file system of an image and is seen when that is there.
pub(super) fn loop_device(report: &Report) {
    let made =
        sealed::shared_memory(SCRATCH_BYTES).and_then(|file| LoopDevice::new(file.as_fd(), false));
    report.note(Facts::LOOP, outcome(&made, "a disk over a file"));
}

/// QEMU is no user that may have what the kernel keeps from others.
pub(super) fn io_uring(report: &Report) {
    let disabled = fs::read_to_string(IO_URING_DISABLED).unwrap_or_default();
    let disabled = disabled.trim();
    let proof = match disabled {
        "" | "0" => feature::try_io_uring(),
        value => Err(io::Error::other(format!(
            "kernel.io_uring_disabled is {value}"
        ))),
    };
    report.note(
        Facts::IO_URING,
        outcome(&proof, "a ring was made, and every user may"),
    );
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
