//! Fetching a program's packages, from a suite that is not the machine's.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::catalogue::Tool;
use super::program::{Borrowed, is_at_least};
use crate::packages::{self, Archive, Progress, io_error, make_whole, run, unpack};
use crate::sys;
use crate::sys::cached;
use crate::sys::file::{Lock, write_atomically};

/// Another latlab that fetches the same is waited for this long.
const LOCK_TIMEOUT: Duration = Duration::from_secs(900);

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const MIRROR: &str = "http://deb.debian.org/debian";
const CHOSEN: &str = "chosen.json";

#[cfg(target_arch = "x86_64")]
const LOADER: &str = "ld-linux-x86-64.so.2";
#[cfg(target_arch = "x86_64")]
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
#[cfg(target_arch = "aarch64")]
const LOADER: &str = "ld-linux-aarch64.so.1";
#[cfg(target_arch = "aarch64")]
const LIBRARIES: &str = "usr/lib/aarch64-linux-gnu";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot fetch {}: {source}", tool.name())]
    Package { tool: Tool, source: packages::Error },
    #[error("cannot fetch {}: there is no {KEYRING} to check Debian's archive with", tool.name())]
    NoKeys { tool: Tool },
    #[error("cannot fetch {}: Debian's needs the libraries of Debian, which this machine does not run", tool.name())]
    NotDebian { tool: Tool },
    #[error("cannot fetch {}: Debian's {suite} has none that is new enough", tool.name())]
    Old { tool: Tool, suite: String },
    #[error("cannot use {} of Debian's {suite}: this machine has no {}", tool.name(), missing.join(", "))]
    Libraries {
        tool: Tool,
        suite: String,
        missing: Vec<String>,
    },
    #[error("another latlab has been fetching {} for 15 minutes", tool.name())]
    Locked { tool: Tool },
    #[error(transparent)]
    Sys(#[from] sys::Error),
}

impl Error {
    pub fn hint(&self) -> String {
        match self {
            Self::Package {
                tool,
                source: packages::Error::Network { .. },
            } => format!(
                "check the network, or install {} {}.{} or later by other means",
                tool.name(),
                tool.oldest().0,
                tool.oldest().1
            ),
            Self::NoKeys { .. } => "install the package debian-archive-keyring".into(),
            Self::NotDebian { tool } => format!(
                "install {} {}.{} or newer by other means, where `PATH` has it",
                tool.name(),
                tool.oldest().0,
                tool.oldest().1
            ),
            Self::Package {
                source: packages::Error::Tool { .. },
                ..
            } => "apt and dpkg of Debian or Ubuntu fetch it; elsewhere install it by other means"
                .into(),
            _ => {
                "`latlab doctor` says what is here; install it by other means, where `PATH` has it"
                    .into()
            }
        }
    }

    fn of(tool: Tool) -> impl Fn(packages::Error) -> Self {
        move |source| Self::Package { tool, source }
    }
}

/// The version that was fetched, kept in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chosen {
    version: String,
    suite: String,
    directory: String,
}

fn home(tool: Tool, cache: &Path) -> PathBuf {
    cache.join("borrowed").join(tool.name())
}

/// The version that was fetched earlier. A file that is not ours counts as none, as does one whose directory is gone.
pub(super) fn chosen(tool: Tool, cache: &Path) -> Option<Borrowed> {
    let home = home(tool, cache);
    let text = fs::read(home.join(CHOSEN)).ok()?;
    let chosen: Chosen = serde_json::from_slice(&text).ok()?;
    let directory = home.join(&chosen.directory);
    let root = directory.join("root");
    let program = root.join(tool.path());
    if !program.is_file() || !is_at_least(upstream(&chosen.version), tool.oldest()) {
        return None;
    }
    // Only root can mark it as used.
    let _ = cached::mark_used(&directory);
    let origin = format!(
        "{} {} of Debian's {}",
        tool.name(),
        chosen.version,
        chosen.suite
    );
    let mut arguments: Vec<OsString> = Vec::new();
    let executed = if tool.has_libraries() {
        let loader = [Path::new("usr/lib64"), Path::new(LIBRARIES)];
        let loader = loader.map(|directory| root.join(directory).join(LOADER));
        let loader = loader.into_iter().find(|loader| loader.is_file())?;
        let libraries = root.join(LIBRARIES).into_os_string();
        arguments.extend(["--library-path".into(), libraries, program.into_os_string()]);
        loader
    } else {
        program
    };
    for directory in tool.data() {
        arguments.extend(["-L".into(), root.join(directory).into_os_string()]);
    }
    Some(Borrowed {
        program: executed,
        arguments,
        version: upstream(&chosen.version).to_owned(),
        origin,
    })
}

/// A Debian version without epoch and revision.
fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    version.rsplit_once('-').map_or(version, |(first, _)| first)
}

pub(super) fn fetch(
    tool: Tool,
    cache: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Borrowed, Error> {
    let os_release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let suite = suite_for(tool, &os_release)?;
    if !Path::new(KEYRING).is_file() {
        return Err(Error::NoKeys { tool });
    }
    let home = home(tool, cache);
    let failed = Error::of(tool);
    fs::create_dir_all(&home)
        .map_err(io_error("make directory", &home))
        .map_err(&failed)?;
    let lock = Lock::take(&home.join("lock"), LOCK_TIMEOUT)?;
    let _lock = lock.ok_or(Error::Locked { tool })?;
    // Another latlab may have fetched it while this one waited.
    if let Some(found) = chosen(tool, cache) {
        return Ok(found);
    }
    let archive = archive(tool, &home, &suite, progress).map_err(&failed)?;
    let version = archive.version(tool.packages()[0]).map_err(&failed)?;
    let version = version.filter(|version| is_at_least(upstream(version), tool.oldest()));
    let version = version.ok_or_else(|| Error::Old {
        tool,
        suite: suite.clone(),
    })?;
    let directory = version.replace([':', '/'], "_");
    let target = home.join(&directory);
    if !target.is_dir() {
        make_whole(&target, &failed, |work| {
            fetch_into(tool, &archive, &suite, work, progress)?;
            Ok(work.join("whole"))
        })?;
    }
    let chosen_now = Chosen {
        version,
        suite: suite.clone(),
        directory,
    };
    let text = serde_json::to_vec_pretty(&chosen_now).expect("a document of texts");
    write_atomically(&home.join(CHOSEN), &text, 0o644)?;
    chosen(tool, cache).ok_or(Error::Old { tool, suite })
}

/// Debian's suite for a machine, by its os-release(5).
fn suite_for(tool: Tool, os_release: &str) -> Result<String, Error> {
    let value = |key: &str| {
        let mut lines = os_release.lines();
        let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(value.trim_matches('"'))
    };
    if !tool.has_libraries() && value("ID") != Some("debian") {
        return Err(Error::NotDebian { tool });
    }
    Ok(tool.suite(value("VERSION_CODENAME").unwrap_or("stable")))
}

/// Makes apt's own directories for the suite, and reads its package lists.
fn archive(
    tool: Tool,
    home: &Path,
    suite: &str,
    progress: &mut dyn FnMut(Progress),
) -> Result<Archive, packages::Error> {
    let apt = home.join("apt");
    let lists = apt.join("lists");
    fs::create_dir_all(lists.join("partial")).map_err(io_error("make directory", &lists))?;
    let sources = apt.join("sources.list");
    let line = format!("deb [signed-by={KEYRING}] {MIRROR} {suite} main\n");
    fs::write(&sources, line).map_err(io_error("write", &sources))?;
    let settings = apt.join("apt.conf");
    // Nothing of it is taken for installed, so that every library is fetched with the program.
    let text = format!(
        "Dir::Etc::sourcelist \"{}\";\nDir::Etc::sourceparts \"/dev/null\";\n\
         Dir::Etc::preferences \"/dev/null\";\nDir::Etc::preferencesparts \"/dev/null\";\n\
         Dir::State::lists \"{}\";\nDir::State::status \"/dev/null\";\n\
         Dir::Cache::pkgcache \"\";\nDir::Cache::srcpkgcache \"\";\n\
         APT::Sandbox::User \"root\";\nAcquire::Retries \"4\";\nAcquire::Languages \"none\";\n\
         Acquire::http::Timeout \"20\";\n",
        sources.display(),
        lists.display()
    );
    fs::write(&settings, text).map_err(io_error("write", &settings))?;
    let archive = Archive::described_by(settings);
    let name = format!("package lists of {suite} for {}", tool.name());
    let tell = |progress: &mut dyn FnMut(Progress)| {
        progress(Progress::Downloading {
            package: name.clone(),
            bytes: 0,
            total_bytes: None,
        });
    };
    tell(progress);
    let mut update = archive.command("apt-get");
    // Without the option, lists that cannot be fetched are a warning.
    update.args(["update", "-q", "-o", "APT::Update::Error-Mode=any"]);
    let updated = run("apt-get", update, &mut || tell(progress));
    updated.map_err(|error| packages::explain(error, &name))?;
    Ok(archive)
}

fn fetch_into(
    tool: Tool,
    archive: &Archive,
    suite: &str,
    work: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let failed = Error::of(tool);
    let root = work.join("whole/root");
    fs::create_dir_all(&root)
        .map_err(io_error("make directory", &root))
        .map_err(&failed)?;
    let packages = wanted(tool, archive).map_err(&failed)?;
    let name = format!("{} with its libraries", tool.name());
    let files = archive.download_all(work, &name, &packages, progress);
    for (package, file) in packages.iter().zip(files.map_err(&failed)?) {
        unpack(&file, package, &root, progress).map_err(&failed)?;
    }
    let missing = missing_libraries(tool, &root).map_err(&failed)?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Libraries {
        tool,
        suite: suite.to_owned(),
        missing,
    })
}

/// Its packages, and those of all libraries that it needs, as apt would install them where nothing is installed.
fn wanted(tool: Tool, archive: &Archive) -> Result<Vec<String>, packages::Error> {
    let own = tool.packages().iter().map(|name| (*name).to_owned());
    if !tool.has_libraries() {
        return Ok(own.collect());
    }
    let mut plan = archive.command("apt-get");
    plan.args(["install", "--simulate", "-q", "--no-install-recommends"]);
    plan.args(tool.packages());
    Ok(parse_plan(&run("apt-get", plan, &mut || ())?))
}

/// The packages in lines `Inst PACKAGE (VERSION ...)`.
fn parse_plan(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("Inst ")?;
        rest.split_whitespace().next()
    });
    names.map(str::to_owned).collect()
}

/// Libraries that a program without its own does not find on this machine.
fn missing_libraries(tool: Tool, root: &Path) -> Result<Vec<String>, packages::Error> {
    if tool.has_libraries() {
        return Ok(Vec::new());
    }
    let mut ldd = Command::new("ldd");
    ldd.arg(root.join(tool.path()));
    Ok(parse_missing(&run("ldd", ldd, &mut || ())?))
}

/// The names in lines `NAME => not found`.
fn parse_missing(text: &str) -> Vec<String> {
    let missing = text.lines().filter(|line| line.contains("not found"));
    let names = missing.filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_lose_epoch_and_revision() {
        assert_eq!(upstream("4.2.1-1"), "4.2.1");
        assert_eq!(upstream("1:10.0.2+ds-2~bpo12+1"), "10.0.2+ds");
        assert_eq!(upstream("7"), "7");
    }

    #[test]
    fn a_program_without_its_libraries_is_for_debian_only() {
        let suite = |tool, text| suite_for(tool, text).ok();
        let debian = "PRETTY_NAME=\"Debian\"\nID=debian\nVERSION_CODENAME=trixie\n";
        let ubuntu = "ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n";
        assert_eq!(
            suite(Tool::Qemu, debian).as_deref(),
            Some("trixie-backports")
        );
        assert_eq!(suite(Tool::Qemu, ubuntu), None);
        assert_eq!(suite(Tool::Criu, ubuntu).as_deref(), Some("sid"));
        let error = suite_for(Tool::Qemu, ubuntu).unwrap_err();
        assert!(error.hint().contains("or newer"), "{}", error.hint());
    }

    #[test]
    fn texts_of_tools_are_read() {
        let plan = "Reading...\nInst libc6 (2.43-7 Debian:unstable [amd64])\nInst criu (4.2.1-1 x)\nConf criu (x)\n";
        assert_eq!(parse_plan(plan), ["libc6", "criu"]);
        let ldd = "\tlibc.so.6 => /lib/libc.so.6 (0x1)\n\tlibx.so.2 => not found\n";
        assert_eq!(parse_missing(ldd), ["libx.so.2"]);
    }

    #[test]
    fn what_is_not_whole_in_the_cache_is_not_used() {
        let cache = std::env::temp_dir().join(format!("latlab-borrowed-{}", std::process::id()));
        let home = home(Tool::Qemu, &cache);
        let at = |version: &str| {
            let text = format!(r#"{{"version": "{version}", "suite": "s", "directory": "d"}}"#);
            fs::write(home.join(CHOSEN), text).unwrap();
            chosen(Tool::Qemu, &cache)
        };
        fs::create_dir_all(home.join("d/root/usr/bin")).unwrap();
        assert_eq!(at("1:10.0.2-1"), None, "no program");
        fs::write(home.join("d/root/usr/bin/qemu-system-x86_64"), "").unwrap();
        assert_eq!(at("1:7.2-1"), None, "too old");
        let found = at("1:10.0.2-1").unwrap();
        assert_eq!(found.version, "10.0.2");
        assert_eq!(found.arguments.len(), 4);
        fs::write(home.join(CHOSEN), "{").unwrap();
        assert_eq!(chosen(Tool::Qemu, &cache), None, "a damaged file");
        fs::remove_dir_all(&cache).unwrap();
    }
}
