//! Which kernel a guest boots: `standard`, `rt` or `cloud` from the distribution, a path, or the one that belongs to its image.
//!
//! The distribution's kernels come from its own package archive through `apt-get download`, which checks
//! the archive's signatures, and are unpacked with `dpkg-deb` into a cache: never installed, so the host
//! boots what it booted before. What a flavour stands for is decided when it is first used and then kept
//! (`standard.json` in the cache): two runs a month apart boot the same kernel, without network. Removing
//! the cache, or that file, asks the archive again. Another configuration of apt (`APT_CONFIG`) has a choice of its own.
//!
//! The bare kernel, from any origin, is taken out of the `vmlinuz` once ([`super::bzimage`] says why)
//! and kept beside; where that is impossible the `vmlinuz` itself is booted, and the reason is kept.

use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bzimage;
use super::modules::{self, Modules};
use crate::images::ImageKernel;
use crate::packages::{Archive, kernel as apt};
use crate::sys;
use crate::sys::cached;
use crate::sys::file::{Lock, write_atomically};

pub use crate::packages::Progress;

/// Another latlab that downloads the same kernel is waited for this long.
const LOCK_TIMEOUT: Duration = Duration::from_secs(900);

/// The action that fails when `kernel:` is neither a flavour nor a file.
const READ_KERNEL: &str = "read kernel";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Apt(#[from] apt::Error),
    #[error("cannot boot {}: {source}", path.display())]
    NotAKernel {
        path: PathBuf,
        source: bzimage::Error,
    },
    #[error(
        "cannot find the modules of kernel {release}: looked for {}; put them beside the kernel as \
         lib/modules/{release}",
        looked.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    NoModules {
        /// `uname -r` of the kernel.
        release: String,
        /// Where they were looked for.
        looked: Vec<PathBuf>,
    },
    #[error("kernel {release} can mount neither 9p nor virtiofs, so it cannot reach its image")]
    NoTransport {
        /// `uname -r` of the kernel.
        release: String,
    },
    #[error(transparent)]
    Modules(#[from] modules::Error),
    #[error(transparent)]
    Sys(#[from] sys::Error),
    #[error("another latlab has been fetching a kernel into {} for 15 minutes", dir.display())]
    Locked { dir: PathBuf },
}

impl Error {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Apt(error) => Some(error.hint()),
            Self::NotAKernel { .. }
            | Self::Sys(sys::Error {
                action: READ_KERNEL,
                ..
            }) => Some("`kernel:` takes standard, rt, cloud, or the path of a vmlinuz"),
            Self::NoTransport { .. } => Some("use `kernel: standard`, which has 9p"),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// QEMU's own 9p server: nothing else runs. Preferred.
    #[serde(rename = "9p")]
    NineP,
    /// virtiofs, served by a `virtiofsd` process for each share. For kernels without 9p.
    VirtioFs,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// Where it comes from: package and version, or the path.
    pub origin: String,
    /// As its package has it: what a machine's firmware or boot loader starts.
    pub vmlinuz: PathBuf,
    /// The file that QEMU starts.
    pub image: PathBuf,
    /// Why `image` is the compressed `vmlinuz`, if it is: its boot then takes much longer.
    pub compressed_because: Option<String>,
    /// `lib/modules/RELEASE`; absent when the kernel has all it needs built in.
    pub modules: Option<PathBuf>,
    pub transport: Transport,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chosen {
    package: String,
    version: String,
    directory: String,
}

/// Finds the kernel that `which` names: a flavour of the distribution's, or a path to a `vmlinuz`. What must be
/// fetched is fetched into `cache`, once, however many ask at the same time. Fails when there is none; the error says
/// what to do.
pub fn resolve(
    which: &str,
    cache: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Kernel, Error> {
    let _lock = lock(cache)?;
    if apt::Flavour::named(which).is_some() {
        let chosen = choose(which, cache, progress)?;
        let root = cache.join(&chosen.directory);
        apt::index_modules(&root);
        // Where it cannot be marked, it only looks older than it is.
        let _ = cached::mark_used(&root);
        let release = apt::release_in(&root, &chosen.package)?;
        let vmlinuz = root.join("boot").join(format!("vmlinuz-{release}"));
        let origin = format!("{} {}", chosen.package, chosen.version);
        let looked = |release: &str| vec![root.join("lib/modules").join(release)];
        return kernel(&vmlinuz, origin, cache, &looked, progress);
    }
    let path = Path::new(which);
    let looked = |release: &str| modules_near(path, release);
    kernel(path, which.to_owned(), cache, &looked, progress)
}

/// The kernel that an image has, whose modules are in the image.
pub(crate) fn of_image(
    root: &Path,
    own: &ImageKernel,
    cache: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Kernel, Error> {
    let _lock = lock(cache)?;
    let vmlinuz = own.vmlinuz(root);
    let looked = |_: &str| vec![own.modules(root)];
    kernel(&vmlinuz, own.origin.clone(), cache, &looked, progress)
}

fn lock(cache: &Path) -> Result<Lock, Error> {
    fs::create_dir_all(cache).map_err(sys::Error::of("make directory", cache.display()))?;
    let lock = Lock::take(&cache.join("lock"), LOCK_TIMEOUT)?;
    lock.ok_or_else(|| Error::Locked {
        dir: cache.to_owned(),
    })
}

/// Where the modules of a kernel given by path may be: in the tree it was unpacked in, or installed.
fn modules_near(vmlinuz: &Path, release: &str) -> Vec<PathBuf> {
    let mut looked = Vec::new();
    if let Some(dir) = vmlinuz.parent() {
        looked.push(dir.join("lib/modules").join(release));
        looked.push(dir.join("../lib/modules").join(release));
        looked.push(dir.join("../usr/lib/modules").join(release));
    }
    looked.push(Path::new("/lib/modules").join(release));
    looked
}

/// The package a flavour stands for, unpacked.
fn choose(which: &str, cache: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Chosen, Error> {
    let memory = cache.join(memory_name(
        which,
        std::env::var_os("APT_CONFIG").as_deref(),
    ));
    if let Ok(text) = fs::read(&memory) {
        // A file we cannot read as ours is replaced, as is one whose kernel is gone.
        let chosen = serde_json::from_slice::<Chosen>(&text).ok();
        if let Some(chosen) = chosen.filter(|c| cache.join(&c.directory).is_dir()) {
            return Ok(chosen);
        }
    }
    let archive = Archive::of_the_machine();
    let found = apt::choose(&archive, which)?;
    let directory = apt::fetch(&archive, &found, cache, progress)?;
    let chosen = Chosen {
        package: found.package,
        version: found.version,
        directory,
    };
    let failed = sys::Error::of("write", memory.display());
    let text = serde_json::to_vec_pretty(&chosen).map_err(failed)?;
    write_atomically(&memory, &text, 0o644)?;
    Ok(chosen)
}

/// The file that keeps what a flavour stands for, under a configuration of apt.
fn memory_name(which: &str, apt: Option<&OsStr>) -> String {
    match apt.filter(|path| !path.is_empty()) {
        None => format!("{which}.json"),
        Some(path) => {
            let mut hasher = DefaultHasher::new();
            path.hash(&mut hasher);
            format!("{which}-{:016x}.json", hasher.finish())
        }
    }
}

fn kernel(
    vmlinuz: &Path,
    origin: String,
    cache: &Path,
    looked: &dyn Fn(&str) -> Vec<PathBuf>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Kernel, Error> {
    let bytes = fs::read(vmlinuz).map_err(sys::Error::of(READ_KERNEL, vmlinuz.display()))?;
    let not_a_kernel = |source| Error::NotAKernel {
        path: vmlinuz.to_owned(),
        source,
    };
    let release = bzimage::release(&bytes).map_err(not_a_kernel)?;
    apt::check_age(&release, &release)?;
    let looked = looked(&release);
    let Some(dir) = looked.iter().find(|dir| dir.is_dir()).cloned() else {
        return Err(Error::NoModules { release, looked });
    };
    let found = Modules::open(&dir)?;
    let transport = if found.has("9p") && found.has("9pnet_virtio") {
        Transport::NineP
    } else if found.has("virtiofs") {
        Transport::VirtioFs
    } else {
        return Err(Error::NoTransport { release });
    };
    let (image, compressed_because) = bare(vmlinuz, &bytes, cache, progress)?;
    Ok(Kernel {
        release,
        origin,
        vmlinuz: vmlinuz.to_owned(),
        image,
        compressed_because,
        modules: Some(dir),
        transport,
    })
}

/// The bare kernel from the cache, or taken out now; or the `vmlinuz` and the reason.
fn bare(
    vmlinuz: &Path,
    bytes: &[u8],
    cache: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(PathBuf, Option<String>), Error> {
    let path = cache.join(format!("vmlinux-{}", &bzimage::digest(bytes)[..32]));
    if path.is_file() {
        let _ = cached::mark_read(&path);
        return Ok((path, None));
    }
    progress(Progress::Extracting {
        path: vmlinuz.to_owned(),
    });
    match bzimage::extract(bytes) {
        Ok(kernel) => {
            write_atomically(&path, &kernel, 0o644)?;
            Ok((path, None))
        }
        Err(reason) => Ok((vmlinuz.to_owned(), Some(reason.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("latlab-kernel-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_file_that_is_no_kernel_is_refused_with_a_hint() {
        let cache = cache("none");
        let path = cache.join("vmlinuz");
        fs::write(&path, "#!/bin/sh\n").unwrap();
        let error = resolve(path.to_str().unwrap(), &cache, &mut |_| ()).unwrap_err();
        assert!(matches!(error, Error::NotAKernel { .. }), "{error}");
        assert!(error.hint().unwrap().contains("standard"));
        let error = resolve("/nonexistent/vmlinuz", &cache, &mut |_| ()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot read kernel /nonexistent/vmlinuz"),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("standard"));
        fs::remove_dir_all(cache).unwrap();
    }

    #[test]
    fn a_flavour_is_remembered_and_needs_no_archive_then() {
        let cache = cache("remembered");
        let text =
            r#"{"package": "linux-image-x", "version": "1", "directory": "linux-image-x_1"}"#;
        fs::write(cache.join("standard.json"), text).unwrap();
        fs::create_dir_all(cache.join("linux-image-x_1/boot")).unwrap();
        let error = resolve("standard", &cache, &mut |_| panic!("nothing to fetch")).unwrap_err();
        assert!(error.to_string().contains("vmlinuz-RELEASE"), "{error}");
        fs::remove_dir_all(cache).unwrap();
    }
    #[test]
    fn each_configuration_of_apt_has_a_memory_of_its_own() {
        let of = |apt: Option<&str>| memory_name("standard", apt.map(OsStr::new));
        assert_eq!(of(None), "standard.json");
        assert_eq!(of(Some("")), "standard.json");
        let names = ["standard.json".to_owned(), of(Some("/a")), of(Some("/b"))];
        assert_eq!(std::collections::BTreeSet::from(names).len(), 3);
    }
}
