//! Packages of a distribution's archive: downloaded, checked and unpacked, never installed.
//!
//! `apt-get download` checks the archive's signatures and the package's checksum. `dpkg-deb -x` runs none of a package's
//! scripts.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::sys;
use crate::sys::file::rename_synced;
use crate::sys::tree;

pub mod kernel;
mod progress;

pub use progress::Progress;

/// How long one tool may take. A kernel's package has some 70 MB; this allows 120 kB/s.
const TIMEOUT: Duration = Duration::from_secs(600);
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot run {tool}: {source}")]
    Tool {
        tool: &'static str,
        source: io::Error,
    },
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
    #[error(transparent)]
    Sys(#[from] sys::Error),
}

/// An archive with its package lists.
#[derive(Debug, Clone, Default)]
pub struct Archive {
    /// A file of settings that apt reads before its own (apt.conf(5)).
    config: Option<PathBuf>,
}

impl Archive {
    /// The archive that the machine's own packages come from.
    pub fn of_the_machine() -> Self {
        Self::default()
    }

    /// The archive that this file of settings describes.
    pub fn described_by(config: PathBuf) -> Self {
        Self {
            config: Some(config),
        }
    }

    pub(crate) fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(tool);
        if let Some(config) = &self.config {
            command.env("APT_CONFIG", config);
        }
        command
    }

    fn apt_get(&self, work: &Path, packages: &[String]) -> Command {
        let mut command = self.command("apt-get");
        command.current_dir(work).args(["download", "-q"]);
        command.args(packages);
        // As root, apt would drop to a user who cannot write here; it fetches nothing else than these files,
        // whose checksums it verifies.
        command.args(["-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=4"]);
        command.args([
            "-o",
            "Acquire::http::Timeout=20",
            "-o",
            "Acquire::https::Timeout=20",
        ]);
        command
    }

    /// The answer of `apt-cache`; empty for a package that it does not know, for which it fails.
    fn ask(&self, arguments: &[&str]) -> Result<String, Error> {
        let mut command = self.command("apt-cache");
        command.args(arguments);
        match run("apt-cache", command, &mut || ()) {
            Err(Error::Failed { .. }) => Ok(String::new()),
            said => said,
        }
    }

    /// The version of a package that the archive has now.
    pub(crate) fn version(&self, package: &str) -> Result<Option<String>, Error> {
        let text = self.ask(&["show", "--no-all-versions", package])?;
        let version = text.lines().find_map(|line| line.strip_prefix("Version: "));
        Ok(version.map(str::to_owned))
    }

    /// Downloads packages into `work`, at once: apt needs seconds to read its lists. They are called `name` on the
    /// way. The paths of the files, in the packages' order.
    pub fn download_all(
        &self,
        work: &Path,
        name: &str,
        packages: &[String],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<PathBuf>, Error> {
        let mut uris = self.apt_get(work, packages);
        uris.arg("--print-uris");
        let uris = run("apt-get", uris, &mut || ())?;
        let total_bytes = parse_size(&uris);
        let mut tell = |bytes| {
            progress(Progress::Downloading {
                package: name.to_owned(),
                bytes,
                total_bytes,
            });
        };
        tell(0);
        let download = self.apt_get(work, packages);
        run("apt-get", download, &mut || tell(downloaded(work)))
            .map_err(|error| explain(error, name))?;
        packages
            .iter()
            .map(|package| file_of(work, package))
            .collect()
    }
}

/// The file of a package that was downloaded.
fn file_of(work: &Path, package: &str) -> Result<PathBuf, Error> {
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

/// Unpacks a package's file over `root`.
pub fn unpack(
    file: &Path,
    package: &str,
    root: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    progress(Progress::Unpacking {
        package: package.to_owned(),
    });
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("-x").arg(file).arg(root);
    run("dpkg-deb", unpack, &mut || ()).map(drop)
}

/// Makes a directory of the cache, which appears whole or not at all: `fill` works in a directory beside, and returns the
/// one in it that is renamed at the end. The caller holds a lock that keeps others from making it.
pub(crate) fn make_whole<E>(
    target: &Path,
    failed: impl Fn(Error) -> E,
    fill: impl FnOnce(&Path) -> Result<PathBuf, E>,
) -> Result<(), E> {
    let work = target.with_file_name(format!(".fetch-{}", std::process::id()));
    // A killed latlab with this number may have left some.
    tree::remove(&work).map_err(|error| failed(io_error("remove", &work)(error)))?;
    let made = fill(&work).and_then(|whole| {
        let renamed = rename_synced(&whole, target);
        renamed.map_err(|error| failed(io_error("move into place", target)(error)))
    });
    // The downloaded files on success, what there is on failure; a leftover only takes space.
    let _ = tree::remove(&work);
    made
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

/// The sum of the sizes in lines `'URI' FILE SIZE HASH`.
fn parse_size(uris: &str) -> Option<u64> {
    let lines = uris.lines().filter(|line| line.starts_with('\''));
    let sizes = lines.map(|line| line.rsplit(' ').nth(1)?.parse::<u64>().ok());
    let sizes: Vec<u64> = sizes.collect::<Option<_>>()?;
    (!sizes.is_empty()).then(|| sizes.iter().sum())
}

/// Gives the two failures that people meet their own names.
pub(crate) fn explain(error: Error, package: &str) -> Error {
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
pub(crate) fn run(
    tool: &'static str,
    mut command: Command,
    tick: &mut dyn FnMut(),
) -> Result<String, Error> {
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
    let errors = words.lines().filter(|line| line.starts_with("E: "));
    let errors: Vec<&str> = errors.collect();
    let last = || words.lines().rev().find(|line| !line.trim().is_empty());
    let detail = match errors.is_empty() {
        true => last().unwrap_or("no message").to_owned(),
        false => errors.join("; "),
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
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let failed = sys::Error::of(action, path.display());
    |source: io::Error| Error::Sys(failed(source))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_directory_has_only_what_was_just_fetched_or_does_not_appear() {
        let cache = std::env::temp_dir().join(format!("latlab-whole-{}", std::process::id()));
        let left = cache.join(format!(".fetch-{}/root/boot", std::process::id()));
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("vmlinuz-old"), "").unwrap();
        let target = cache.join("linux-image-6.1_6.1-1");
        let make = |ends: Result<(), Error>| {
            make_whole(
                &target,
                |error| error,
                |work| {
                    let root = work.join("root");
                    fs::create_dir_all(root.join("boot")).unwrap();
                    fs::write(root.join("boot/vmlinuz-new"), "").unwrap();
                    ends.map(|()| root)
                },
            )
        };
        let names = |dir: &Path| -> Vec<_> {
            let entries = fs::read_dir(dir).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect()
        };
        let silent = Error::Silent {
            command: "x".into(),
        };
        assert!(matches!(make(Err(silent)), Err(Error::Silent { .. })));
        assert!(names(&cache).is_empty());
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("vmlinuz-old"), "").unwrap();
        make(Ok(())).unwrap();
        assert_eq!(names(&target.join("boot")), ["vmlinuz-new"]);
        assert_eq!(names(&cache), ["linux-image-6.1_6.1-1"]);
        fs::remove_dir_all(&cache).unwrap();
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
