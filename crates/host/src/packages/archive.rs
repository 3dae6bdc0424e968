//! An archive with its package lists: asked, and packages of it downloaded and unpacked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{Error, explain, io_error};
use super::progress::Progress;
use super::tool::run;

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
    pub(super) fn ask(&self, arguments: &[&str]) -> Result<String, Error> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_read_from_the_uri_line() {
        let text = "'http://deb.debian.org/x.deb' x_1_amd64.deb 70550672 SHA256:00ff\n";
        assert_eq!(parse_size(text), Some(70_550_672));
        assert_eq!(parse_size("nothing\n"), None);
    }
}
