//! Kernels' packages: which one a word stands for in an archive, and its files, unpacked.

use std::fmt;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::archive::{self, Archive};
use super::error::io_error;
use super::progress::Progress;
use super::tool::run;
use super::whole::make_whole;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// The distribution's default.
    Standard,
    Rt,
    /// Cut down for virtual machines.
    Cloud,
}

impl Flavour {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "standard" => Self::Standard,
            "rt" => Self::Rt,
            "cloud" => Self::Cloud,
            _ => return None,
        })
    }

    /// The packages that may stand for it, whose dependencies name the kernel's own package. The first
    /// that the archive has is taken: Debian's come before Ubuntu's.
    fn metapackages(self) -> &'static [&'static str] {
        match self {
            Self::Standard => &["linux-image-amd64", "linux-image-generic"],
            Self::Rt => &[
                "linux-image-rt-amd64",
                "linux-image-realtime",
                "linux-image-lowlatency",
            ],
            Self::Cloud => &[
                "linux-image-cloud-amd64",
                "linux-image-virtual",
                "linux-image-kvm",
            ],
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot find a kernel package: the package lists have none of {}", wanted.join(", "))]
    NoPackage { wanted: Vec<String> },
    #[error("kernel {kernel} is too old: guests and live systems need Linux {}.{}", OLDEST.0, OLDEST.1)]
    Old {
        /// Its package and version, or its release.
        kernel: String,
    },
    #[error("cannot find boot/vmlinuz-RELEASE in {package}")]
    Empty { package: String },
    #[error(transparent)]
    Package(#[from] super::error::Error),
}

impl Error {
    pub fn hint(&self) -> &'static str {
        use super::error::Error as Package;
        match self {
            Self::Package(Package::Tool { .. }) => {
                "kernels by name come from Debian's or Ubuntu's archive; elsewhere give the path of a \
                 vmlinuz as `kernel:`"
            }
            Self::Old { .. } => "take one of a newer release of the distribution",
            Self::Empty { .. } => "name the package of a kernel, as `linux-image-6.1.0-37-amd64`",
            Self::NoPackage { .. } | Self::Package(Package::Outdated { .. }) => {
                "run `apt-get update` and try again"
            }
            Self::Package(Package::Network { .. }) => {
                "check the network, or give the path of a vmlinuz as `kernel:`"
            }
            Self::Package(_) => {
                "run the command by hand to see more, or give the path of a vmlinuz as `kernel:`"
            }
        }
    }
}

/// The oldest kernel with all that the agent calls: `mount_setattr(2)` came last.
const OLDEST: (u32, u32) = (5, 12);

/// Refuses a kernel that is too old by its version or release; one that tells none is taken.
pub fn check_age(kernel: &str, version: &str) -> Result<(), Error> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse::<u32>().ok();
    match (next(), next()) {
        (Some(major), Some(minor)) if (major, minor) < OLDEST => Err(Error::Old {
            kernel: kernel.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// A kernel's own package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    pub package: String,
    pub version: String,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.package, self.version)
    }
}

/// Chooses the package that a flavour, or the name of a package, stands for in an archive now.
pub fn choose(archive: &Archive, which: &str) -> Result<Chosen, Error> {
    let package = match Flavour::named(which) {
        Some(flavour) => kernel_of(archive, flavour.metapackages())?,
        None if is_kernel(which) => which.to_owned(),
        None => kernel_of(archive, &[which])?,
    };
    let version = archive.version(&package)?;
    let version = version.ok_or_else(|| Error::NoPackage {
        wanted: vec![package.clone()],
    })?;
    let chosen = Chosen { package, version };
    check_age(&chosen.to_string(), &chosen.version)?;
    Ok(chosen)
}

/// Downloads and unpacks a kernel; returns the name of its directory in the cache. The caller holds the cache's lock.
pub fn fetch(
    archive: &Archive,
    chosen: &Chosen,
    cache: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<String, Error> {
    let version = chosen.version.replace([':', '/'], "_");
    let directory = format!("{}_{version}", chosen.package);
    let target = cache.join(&directory);
    if !target.is_dir() {
        make_whole(&target, Error::Package, |work| {
            unpack(archive, chosen, work, progress)
        })?;
    }
    Ok(directory)
}

/// Downloads and unpacks a kernel into a directory in `work`, which is returned.
pub fn unpack(
    archive: &Archive,
    chosen: &Chosen,
    work: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<PathBuf, Error> {
    let package = &chosen.package;
    let root = work.join("root");
    fs::create_dir_all(&root).map_err(io_error("make directory", &root))?;
    // Ubuntu splits a kernel over packages that the image's package depends on.
    let mut packages = vec![package.clone()];
    packages.extend(
        depends(archive, package)?
            .into_iter()
            .filter(|name| name.starts_with("linux-modules-")),
    );
    if let Some(release) = package.strip_prefix("linux-image-") {
        let extra = format!("linux-modules-extra-{release}");
        if packages.len() > 1 && !depends_raw(archive, &extra)?.is_empty() {
            packages.push(extra);
        }
    }
    for package in packages {
        let only = std::slice::from_ref(&package);
        for deb in archive.download_all(work, &package, only, progress)? {
            archive::unpack(&deb, &package, &root, progress)?;
        }
    }
    link_merged(&root)?;
    Ok(root)
}

/// The release of an unpacked kernel, as `uname -r` will show it.
pub fn release_in(root: &Path, package: &str) -> Result<String, Error> {
    let boot = root.join("boot");
    let mut entries = fs::read_dir(&boot).into_iter().flatten().flatten();
    let release = entries.find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_prefix("vmlinuz-").map(str::to_owned)
    });
    release.ok_or_else(|| Error::Empty {
        package: package.to_owned(),
    })
}

/// Since Debian 13 modules are packed below `usr/lib`. On an installed system `/lib` leads there, and
/// `depmod` and `modprobe` look nowhere else.
fn link_merged(root: &Path) -> Result<(), Error> {
    let lib = root.join("lib");
    if lib.exists() || !root.join("usr/lib/modules").is_dir() {
        return Ok(());
    }
    Ok(symlink("usr/lib", &lib).map_err(io_error("make link", &lib))?)
}

/// Makes `modules.dep` where there is none, so that `modprobe` works in guests. Without `depmod` guests
/// still boot: what they need for that is found without it. It may be installed later than the kernel
/// was unpacked, so this is asked for every time.
pub(crate) fn index_modules(root: &Path) {
    let Ok(entries) = fs::read_dir(root.join("lib/modules")) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.path().join("modules.dep").exists() {
            continue;
        }
        let mut depmod = Command::new("depmod");
        depmod.arg("-b").arg(root).arg(entry.file_name());
        let _ = run("depmod", depmod, &mut || ());
    }
}

/// Whether it is a kernel's own package, which has its release in its name.
fn is_kernel(package: &str) -> bool {
    let rest = package.strip_prefix("linux-image-");
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The kernel's own package: the first dependency that is one, of the first of `wanted` that the archive has.
fn kernel_of(archive: &Archive, wanted: &[&str]) -> Result<String, Error> {
    for metapackage in wanted {
        let mut depends = depends(archive, metapackage)?.into_iter();
        if let Some(image) = depends.find(|name| is_kernel(name)) {
            return Ok(image);
        }
    }
    let wanted = wanted.iter().map(|name| (*name).to_owned()).collect();
    Err(Error::NoPackage { wanted })
}

fn depends(archive: &Archive, package: &str) -> Result<Vec<String>, Error> {
    Ok(parse_depends(&depends_raw(archive, package)?))
}

/// The output of `apt-cache depends`; empty when there is no such package.
fn depends_raw(archive: &Archive, package: &str) -> Result<String, Error> {
    Ok(archive.ask(&["depends", "--important", package])?)
}

fn parse_depends(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| {
            line.trim()
                .trim_start_matches('|')
                .strip_prefix("Depends: ")
        })
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_as_apt_prints_them() {
        let text = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n |Depends: a\n  \
                    Depends: b\n";
        assert_eq!(
            parse_depends(text),
            ["linux-image-6.1.0-56-amd64", "a", "b"]
        );
    }

    #[test]
    fn a_kernel_that_lacks_what_the_agent_calls_is_refused() {
        for version in [
            "6.1.192-3",
            "5.12",
            "5.15.0-119.129",
            "6.12.95+deb12-amd64",
            "next",
        ] {
            assert!(check_age("it", version).is_ok(), "{version}");
        }
        for version in ["5.10.0-34-amd64", "5.11", "4.19.316-1", "3.2.0-4-amd64"] {
            let said = check_age("it", version).unwrap_err().to_string();
            assert!(said.contains("need Linux 5.12"), "{said}");
        }
        assert!(is_kernel("linux-image-6.1.0-37-amd64") && !is_kernel("linux-image-amd64"));
    }

    #[test]
    fn modules_below_usr_are_found_where_tools_look() {
        let root = std::env::temp_dir().join(format!("latlab-merged-{}", std::process::id()));
        fs::create_dir_all(root.join("usr/lib/modules/6.12")).unwrap();
        link_merged(&root).unwrap();
        assert!(root.join("lib/modules/6.12").is_dir());
        link_merged(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        fs::create_dir_all(root.join("lib/modules/6.1")).unwrap();
        link_merged(&root).unwrap();
        assert!(!root.join("lib").is_symlink(), "Debian 12 needs none");
        fs::remove_dir_all(&root).unwrap();
    }
}
