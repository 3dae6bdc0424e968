//! KVM: proven by booting a guest under it, once a boot of this machine, as
//! [`accel`](crate::nodes::vm::accel) says and remembers.
//!
//! The guest's kernel is the labs' own when there is one in the cache, else the one this machine was
//! booted from. Only where neither is there, and only for who wants every detail, is one fetched:
//! planning a lab must not begin with a download.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::PathBuf;

use latlab_model::facts::Facts;
use latlab_model::kinds::GuestRoot;

use super::report::{NEEDS_ROOT, Outcome, Report, is_root, refused};
use crate::cache::InUse;
use crate::facts::machine::{self, Source};
use crate::facts::options::ReadOptions;
use crate::nodes::vm::initramfs;
use crate::nodes::vm::kernel::{self, Kernel};
use crate::nodes::vm::{Accelerator, accel};
use crate::programs;

const DEVICE: &str = "/dev/kvm";

pub(super) fn run(report: &Report) {
    report.note(Facts::KVM, kvm(&report.options));
}

fn kvm(options: &ReadOptions) -> Outcome {
    match open() {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Outcome::Fails(format!("there is no {DEVICE}"));
        }
        Err(error) => return refused(&error),
    }
    match boot(options) {
        Ok(outcome) => outcome,
        // Something else than KVM was in the way.
        Err(_) if !is_root() => Outcome::Unproven(NEEDS_ROOT.into()),
        Err(reason) => Outcome::Unproven(reason),
    }
}

fn open() -> io::Result<()> {
    let device = OpenOptions::new().read(true).write(true).open(DEVICE);
    device.map(drop)
}

fn boot(options: &ReadOptions) -> Result<Outcome, String> {
    let cache = options.dirs.cache();
    let agent =
        programs::agent().ok_or("latlab-agent is not beside latlab, so no guest can boot")?;
    // A user who cannot take it removes nothing either.
    let _in_use = InUse::share(cache).ok();
    let kernel = guest_kernel(options)?;
    let initramfs =
        initramfs::prepare(&agent, &kernel, GuestRoot::Share, cache).map_err(|e| e.to_string())?;
    if options.refresh {
        // Absent is as good as removed.
        let _ = fs::remove_file(cache.join(accel::VERDICT_FILE));
    }
    let verdict = accel::prove(&kernel, &initramfs, cache).map_err(|e| e.to_string())?;
    Ok(match verdict.accelerator {
        Accelerator::Kvm => Outcome::Works(verdict.reason),
        Accelerator::Tcg => Outcome::Fails(verdict.reason),
    })
}

fn guest_kernel(options: &ReadOptions) -> Result<Kernel, String> {
    let cache = machine::guest_kernel_cache(&options.dirs);
    let resolve = |which: &str| {
        kernel::resolve(which, &cache, &mut |_| ()).map_err(|error| error.to_string())
    };
    if has_cached(options) {
        return resolve("standard");
    }
    let own = own_kernel().map(|path| resolve(&path.to_string_lossy()));
    match own {
        Some(Ok(kernel)) => Ok(kernel),
        _ if options.detail => resolve("standard"),
        _ => Err("there is no guest kernel here yet; `latlab doctor` fetches one".into()),
    }
}

fn has_cached(options: &ReadOptions) -> bool {
    let mut kernels = machine::guest_kernels(&options.dirs).into_iter();
    kernels.any(|kernel| kernel.flavour.as_deref() == Some("standard"))
}

/// The kernel that this machine was booted from, if the file is still there.
fn own_kernel() -> Option<PathBuf> {
    let release = machine::kernel(&Source::here()).release;
    let path = PathBuf::from(format!("/boot/vmlinuz-{release}"));
    path.is_file().then_some(path)
}

/// Whether reading with these options will fetch a guest kernel to prove KVM with, which takes a
/// while and should be announced.
pub fn fetches_kernel(options: &ReadOptions) -> bool {
    options.detail
        && is_root()
        && options.prove.contains(Facts::KVM)
        && open().is_ok()
        && !has_cached(options)
        && own_kernel().is_none()
}
