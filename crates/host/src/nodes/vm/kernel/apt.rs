//! Fetching a kernel's package from the distribution's archive.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::packages::{self, Archive, Progress, io_error, run};

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
    #[error(transparent)]
    Package(#[from] packages::Error),
}

impl Error {
    pub fn hint(&self) -> &'static str {
        use packages::Error as Package;
        match self {
            Self::Package(Package::Tool { .. }) => {
                "kernels by name come from Debian's or Ubuntu's archive; elsewhere give the path of a \
                 vmlinuz as `kernel:`"
            }
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

#[derive(Debug)]
pub struct Fetched {
    pub package: String,
    pub version: String,
    pub directory: String,
}

/// Downloads and unpacks the kernel a flavour stands for now. It appears in the cache whole or not at
/// all: all work is done in a directory beside, renamed at the end. The caller holds the cache's lock.
pub fn fetch(
    flavour: Flavour,
    cache: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Fetched, Error> {
    let package = kernel_package(flavour)?;
    let version = version_of(&package)?;
    let directory = format!("{package}_{}", version.replace([':', '/'], "_"));
    let target = cache.join(&directory);
    if !target.is_dir() {
        let work = cache.join(format!(".fetch-{}", std::process::id()));
        let result = fetch_into(&work, &package, progress).and_then(|()| {
            Ok(fs::rename(work.join("root"), &target)
                .map_err(io_error("move into place", &target))?)
        });
        // The downloaded file on success, what there is on failure; a leftover only takes space.
        let _ = fs::remove_dir_all(&work);
        result?;
    }
    Ok(Fetched {
        package,
        version,
        directory,
    })
}

fn fetch_into(work: &Path, package: &str, progress: &mut dyn FnMut(Progress)) -> Result<(), Error> {
    let root = work.join("root");
    fs::create_dir_all(&root).map_err(io_error("make directory", &root))?;
    // Ubuntu splits a kernel over packages that the image's package depends on.
    let mut packages = vec![package.to_owned()];
    packages.extend(
        depends(package)?
            .into_iter()
            .filter(|name| name.starts_with("linux-modules-")),
    );
    if let Some(release) = package.strip_prefix("linux-image-") {
        let extra = format!("linux-modules-extra-{release}");
        if packages.len() > 1 && !depends_raw(&extra)?.is_empty() {
            packages.push(extra);
        }
    }
    let archive = Archive::of_the_machine();
    for package in packages {
        let deb = archive.download(work, &package, progress)?;
        packages::unpack(&deb, &package, &root, progress)?;
    }
    link_merged(&root)
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
pub(super) fn index_modules(root: &Path) {
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

/// The kernel's own package: the first dependency of the flavour's that is an image.
fn kernel_package(flavour: Flavour) -> Result<String, Error> {
    for metapackage in flavour.metapackages() {
        let image = depends(metapackage)?.into_iter().find(|name| {
            name.strip_prefix("linux-image-")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
        if let Some(image) = image {
            return Ok(image);
        }
    }
    let wanted = flavour
        .metapackages()
        .iter()
        .map(|name| (*name).to_owned())
        .collect();
    Err(Error::NoPackage { wanted })
}

fn depends(package: &str) -> Result<Vec<String>, Error> {
    Ok(parse_depends(&depends_raw(package)?))
}

/// The output of `apt-cache depends`; empty when there is no such package.
fn depends_raw(package: &str) -> Result<String, Error> {
    let mut command = Command::new("apt-cache");
    command.args(["depends", "--important", package]);
    match run("apt-cache", command, &mut || ()) {
        Ok(text) => Ok(text),
        Err(packages::Error::Failed { .. }) => Ok(String::new()),
        Err(error) => Err(error.into()),
    }
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

fn version_of(package: &str) -> Result<String, Error> {
    let mut command = Command::new("apt-cache");
    command.args(["show", "--no-all-versions", package]);
    let text = run("apt-cache", command, &mut || ())?;
    let version = text.lines().find_map(|line| line.strip_prefix("Version: "));
    version.map(str::to_owned).ok_or_else(|| Error::NoPackage {
        wanted: vec![package.to_owned()],
    })
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
