//! Fetching a kernel's package from the distribution's archive.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::progress::Progress;

/// How long one tool may take. A kernel's package has some 70 MB; this allows 120 kB/s.
const TIMEOUT: Duration = Duration::from_secs(600);
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

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
    #[error("cannot run {tool}: {source}")]
    Tool {
        tool: &'static str,
        source: io::Error,
    },
    #[error("cannot find a kernel package: the package lists have none of {}", wanted.join(", "))]
    NoPackage { wanted: Vec<String> },
    #[error("cannot download {package}: the archive cannot be reached ({detail})")]
    Network { package: String, detail: String },
    #[error(
        "cannot download {package}: the archive no longer has the version in the package lists"
    )]
    Outdated { package: String },
    #[error("{command} failed: {detail}")]
    Failed {
        command: String,
        /// Its last words.
        detail: String,
    },
    #[error("{command} did not end within {} s", TIMEOUT.as_secs())]
    Silent { command: String },
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl Error {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Tool { .. } => {
                "kernels by name come from Debian's or Ubuntu's archive; elsewhere give the path of a \
                 vmlinuz as `kernel:`"
            }
            Self::NoPackage { .. } | Self::Outdated { .. } => "run `apt-get update` and try again",
            Self::Network { .. } => "check the network, or give the path of a vmlinuz as `kernel:`",
            Self::Failed { .. } | Self::Silent { .. } | Self::Io { .. } => {
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
            fs::rename(work.join("root"), &target).map_err(io_error("move into place", &target))
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
    for package in packages {
        let deb = download(work, &package, progress)?;
        progress(Progress::Unpacking {
            package: package.clone(),
        });
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("-x").arg(&deb).arg(&root);
        run("dpkg-deb", unpack, &mut || ())?;
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
    symlink("usr/lib", &lib).map_err(io_error("make link", &lib))
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
        Err(Error::Failed { .. }) => Ok(String::new()),
        Err(error) => Err(error),
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

fn apt_get(work: &Path, package: &str) -> Command {
    let mut command = Command::new("apt-get");
    command.current_dir(work).args(["download", "-q", package]);
    // As root, apt would drop to a user who cannot write here; it fetches nothing else than one file,
    // whose checksum it verifies.
    command.args(["-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=4"]);
    command.args([
        "-o",
        "Acquire::http::Timeout=20",
        "-o",
        "Acquire::https::Timeout=20",
    ]);
    command
}

fn download(
    work: &Path,
    package: &str,
    progress: &mut dyn FnMut(Progress),
) -> Result<PathBuf, Error> {
    let mut uris = apt_get(work, package);
    uris.arg("--print-uris");
    let uris = run("apt-get", uris, &mut || ())?;
    let total_bytes = parse_size(&uris);
    let package = package.to_owned();
    progress(Progress::Downloading {
        package: package.clone(),
        bytes: 0,
        total_bytes,
    });
    let mut report = || {
        let bytes = downloaded(work);
        progress(Progress::Downloading {
            package: package.clone(),
            bytes,
            total_bytes,
        });
    };
    run("apt-get", apt_get(work, &package), &mut report)
        .map_err(|error| explain(error, &package))?;
    let prefix = format!("{package}_");
    let entries = fs::read_dir(work).map_err(io_error("list", work))?;
    let deb = entries.flatten().find(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(&prefix) && name.ends_with(".deb")
    });
    deb.map(|entry| entry.path()).ok_or_else(|| Error::Failed {
        command: format!("apt-get download {package}"),
        detail: "it left no package".into(),
    })
}

/// Bytes of packages, whole or partial, in the working directory.
fn downloaded(work: &Path) -> u64 {
    let size = |dir: &Path| -> u64 {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.metadata().ok())
            .filter(fs::Metadata::is_file)
            .map(|metadata| metadata.len())
            .sum()
    };
    size(work) + size(&work.join("partial"))
}

/// The size in the line `'URI' FILE SIZE HASH`.
fn parse_size(uris: &str) -> Option<u64> {
    let line = uris.lines().find(|line| line.starts_with('\''))?;
    line.rsplit(' ').nth(1)?.parse().ok()
}

/// Gives the two failures that people meet their own names.
fn explain(error: Error, package: &str) -> Error {
    let Error::Failed { command, detail } = error else {
        return error;
    };
    let package = package.to_owned();
    let any = |words: &[&str]| words.iter().any(|word| detail.contains(word));
    if any(&["404"]) {
        Error::Outdated { package }
    } else if any(&[
        "Could not resolve",
        "Temporary failure",
        "Could not connect",
        "Failed to fetch",
    ]) {
        Error::Network { package, detail }
    } else {
        Error::Failed { command, detail }
    }
}

/// Runs a tool in its own words (no translations) to its end, calling `tick` meanwhile. Output goes to
/// files so that no pipe can fill up.
fn run(tool: &'static str, mut command: Command, tick: &mut dyn FnMut()) -> Result<String, Error> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let shown = words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ");
    let capture = || -> io::Result<(File, File)> {
        let fd = rustix::fs::memfd_create("latlab", rustix::fs::MemfdFlags::CLOEXEC)?;
        let file = File::from(fd);
        Ok((file.try_clone()?, file))
    };
    let failed = |source| Error::Tool { tool, source };
    let (stdout, out) = capture().map_err(failed)?;
    let (stderr, err) = capture().map_err(failed)?;
    command
        .env("LC_ALL", "C")
        .env("DEBIAN_FRONTEND", "noninteractive");
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    let mut child = command.spawn().map_err(failed)?;
    let start = Instant::now();
    let mut reported = start;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if start.elapsed() > TIMEOUT {
            // The child may have ended by itself in this moment.
            let _ = child.kill();
            child.wait().map_err(failed)?;
            return Err(Error::Silent { command: shown });
        }
        std::thread::sleep(Duration::from_millis(5));
        if reported.elapsed() > REPORT_INTERVAL {
            reported = Instant::now();
            tick();
        }
    };
    if status.success() {
        return Ok(text_of(stdout));
    }
    let words = text_of(stderr);
    let detail = words
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("no message");
    let errors: Vec<_> = words
        .lines()
        .filter(|line| line.starts_with("E: "))
        .collect();
    let detail = if errors.is_empty() {
        detail.to_owned()
    } else {
        errors.join("; ")
    };
    Err(Error::Failed {
        command: shown,
        detail,
    })
}

fn text_of(mut file: File) -> String {
    use std::io::Seek;
    let mut bytes = Vec::new();
    // A memory file of our own; should it fail, the text is what could be read.
    let _ = file
        .rewind()
        .and_then(|()| file.read_to_end(&mut bytes).map(|_| ()));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io {
        action,
        path,
        source,
    }
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

    #[test]
    fn the_size_is_read_from_the_uri_line() {
        let text = "'http://deb.debian.org/x.deb' x_1_amd64.deb 70550672 SHA256:00ff\n";
        assert_eq!(parse_size(text), Some(70_550_672));
        assert_eq!(parse_size("nothing\n"), None);
    }

    #[test]
    fn failures_people_meet_have_names() {
        let failed = |detail: &str| Error::Failed {
            command: "apt-get".into(),
            detail: detail.into(),
        };
        let explained = |detail: &str| explain(failed(detail), "p");
        assert!(matches!(
            explained("E: Failed to fetch http://x  404  Not Found"),
            Error::Outdated { .. }
        ));
        assert!(matches!(
            explained("E: Failed to fetch http://x  Could not resolve 'x'"),
            Error::Network { .. }
        ));
        assert!(matches!(explained("E: disk full"), Error::Failed { .. }));
    }

    #[test]
    fn a_tool_that_fails_is_quoted() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo out; echo 'E: first' >&2; echo other >&2; exit 3",
        ]);
        let error = run("sh", command, &mut || ()).unwrap_err();
        assert!(error.to_string().ends_with("failed: E: first"), "{error}");
        let error = run("x", Command::new("/nonexistent/x"), &mut || ()).unwrap_err();
        assert!(matches!(error, Error::Tool { .. }), "{error}");
    }
}
