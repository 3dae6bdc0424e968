//! A run directory: its paths, its documents, its checksums. The layout is described in [`latlab_model::results`].
//!
//! Documents are replaced atomically (written beside, made durable, renamed). A run killed at any moment
//! leaves each of them whole or absent, and a reader never sees half of one.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use latlab_model::results::{Annotation, Manifest, Summary, Trial};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::place::{Place, above, directory_below};

/// Limit of a document, which is read whole; that of a run of a day has some hundred MiB.
const MAX_DOCUMENT_BYTES: u64 = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    #[error("{path} is not a run directory: it has no manifest.json")]
    NotARun {
        /// The directory from the user.
        path: PathBuf,
    },
    #[error("{path} is there already")]
    Taken { path: PathBuf },
    /// A symbolic link instead of a run directory: it could be redirected at any time.
    #[error("{path} is a symbolic link: name the run directory itself")]
    Link { path: PathBuf },
    /// The directory that was just created has been replaced by another.
    #[error("{path} was made for a run, and another directory has taken its place")]
    Swapped { path: PathBuf },
    #[error("cannot {action} {path}")]
    Io {
        /// `create`, `read`, `write`, `list`.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("cannot read {path}: not a {what} ({source})")]
    Malformed {
        path: PathBuf,
        /// `manifest`, `trial`, `summary`.
        what: &'static str,
        /// The parser's message, with line and column.
        source: serde_json::Error,
    },
    #[error("cannot read {path}: its format is {found:?}, this latlab reads {expected:?}")]
    Format {
        path: PathBuf,
        found: String,
        expected: &'static str,
    },
    #[error("{path} names {named:?}, which is not inside the run directory")]
    Outside { path: PathBuf, named: String },
}

impl RunDirError {
    /// The system's error of an action on a path.
    pub(crate) fn io<E: Into<io::Error>>(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source: source.into(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    Missing,
    Changed,
}

#[derive(Debug, Clone)]
pub struct RunDir {
    root: PathBuf,
    directory: Arc<OwnedFd>,
}

impl RunDir {
    /// Creates a run directory and its parents. Fails when something is there already, or the system refuses.
    pub fn create(root: impl Into<PathBuf>) -> Result<Self, RunDirError> {
        let root = root.into();
        if let Some(parent) = root.parent() {
            fs::create_dir_all(parent).map_err(RunDirError::io("create", parent))?;
        }
        match fs::create_dir(&root) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Err(RunDirError::Taken { path: root });
            }
            made => made.map_err(RunDirError::io("create", &root))?,
        }
        let run = Self::at(root)?;
        let owner = rustix::fs::fstat(&run.directory).map(|found| found.st_uid);
        if owner != Ok(rustix::process::geteuid().as_raw()) {
            return Err(RunDirError::Swapped { path: run.root });
        }
        run.make_dir("trials")?;
        Ok(run)
    }

    /// Opens an existing run directory.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, RunDirError> {
        let root = root.into();
        let missing = |e: &io::Error| {
            matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            )
        };
        let run = match Self::at(root.clone()) {
            Err(RunDirError::Io { source, .. }) if missing(&source) => {
                return Err(RunDirError::NotARun { path: root });
            }
            opened => opened?,
        };
        match run.place("manifest.json").open() {
            Ok(_) => Ok(run),
            Err(e) if missing(&e) => Err(RunDirError::NotARun { path: run.root }),
            Err(error) => Err(RunDirError::io("read", run.manifest_path())(error)),
        }
    }

    fn at(root: PathBuf) -> Result<Self, RunDirError> {
        // Without a trailing slash, which would follow a link.
        let plain: PathBuf = root.components().collect();
        if fs::symlink_metadata(&plain).is_ok_and(|found| found.is_symlink()) {
            return Err(RunDirError::Link { path: root });
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&plain, flags, Mode::empty());
        Ok(Self {
            directory: Arc::new(opened.map_err(RunDirError::io("open", &root))?),
            root,
        })
    }

    /// A file of the run directory by its name in it.
    #[must_use]
    pub fn place(&self, name: &str) -> Place {
        Place::new(&self.directory, &self.root, name)
    }

    /// Creates a file, replacing an existing one.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<(), RunDirError> {
        let place = self.place(name);
        let written = place.create().and_then(|mut file| file.write_all(contents));
        written.map_err(RunDirError::io("write", place.path()))
    }

    /// Reads a file whole. Fails when it is missing or larger than a document may be.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, RunDirError> {
        read_whole(&self.place(name))
    }

    /// Copies a file of a trial from another run directory, with the directory that it is in.
    pub(crate) fn copy(&self, from: &Self, name: &str) -> Result<(), RunDirError> {
        self.make_dir_of(name)?;
        let (source, target) = (from.place(name), self.place(name));
        let read = source.open();
        let mut read = read.map_err(RunDirError::io("read", source.path()))?;
        let written = target
            .create()
            .and_then(|mut written| io::copy(&mut read, &mut written));
        written.map_err(RunDirError::io("write", target.path()))?;
        Ok(())
    }

    pub(crate) fn read_record(&self, name: &str) -> Result<Trial, RunDirError> {
        read_json(&self.place(name), "trial")
    }

    pub(crate) fn write_record(&self, name: &str, trial: &Trial) -> Result<(), RunDirError> {
        self.make_dir_of(name)?;
        write_json(self.place(name), trial)
    }

    fn make_dir_of(&self, name: &str) -> Result<(), RunDirError> {
        let parent = Path::new(name).parent().and_then(Path::to_str);
        parent.map_or(Ok(()), |parent| self.make_dir(parent))
    }

    /// Fails when it is not there, or the system refuses.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.place(name).remove()
    }

    fn make_dir(&self, name: &str) -> Result<(), RunDirError> {
        let parent = directory_below(&self.directory, above(Path::new(name)));
        let made = parent.and_then(|parent| {
            let last = Path::new(name).file_name().unwrap_or_default();
            match rustix::fs::mkdirat(&parent, last, Mode::from_raw_mode(0o777)) {
                // Any other kind of file fails the first write into it.
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(errno) => Err(errno.into()),
            }
        });
        made.map_err(RunDirError::io("create", self.root.join(name)))
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `manifest.json`.
    pub fn manifest_path(&self) -> PathBuf {
        self.root.join("manifest.json")
    }

    /// `trials/0001`.
    pub fn trial_dir(&self, trial: u32) -> PathBuf {
        self.root.join(trial_name(trial))
    }

    /// `trials/0001/trial.json`.
    pub fn trial_path(&self, trial: u32) -> PathBuf {
        self.trial_dir(trial).join("trial.json")
    }

    /// Name of a trial's samples relative to the run directory, as in [`Trial::samples`].
    pub fn samples_name(trial: u32) -> String {
        format!("{}/samples.parquet", trial_name(trial))
    }

    /// Name of the table of a trial's passages, relative to the run directory.
    pub fn passages_name(trial: u32) -> String {
        format!("{}/passages.parquet", trial_name(trial))
    }

    /// Name of a trial's kernel events, relative to the run directory.
    pub fn events_name(trial: u32) -> String {
        format!("{}/events.parquet", trial_name(trial))
    }

    /// Name of a trial's sampled stacks, relative to the run directory.
    pub fn stacks_name(trial: u32) -> String {
        format!("{}/stacks.parquet", trial_name(trial))
    }

    /// Name of a trial's stolen time, relative to the run directory.
    pub fn stolen_name(trial: u32) -> String {
        format!("{}/stolen.parquet", trial_name(trial))
    }

    /// Names of the standard output and standard error of a workload in a node, relative to the run directory.
    pub fn output_names(trial: u32, node: &str) -> [String; 2] {
        ["out", "err"].map(|stream| format!("{}/{node}.{stream}", trial_name(trial)))
    }

    /// `summary.json`.
    pub fn summary_path(&self) -> PathBuf {
        self.root.join("summary.json")
    }

    /// `report.html`.
    pub fn report_path(&self) -> PathBuf {
        self.root.join("report.html")
    }

    pub fn create_trial(&self, trial: u32) -> Result<(), RunDirError> {
        self.make_dir("trials")?;
        self.make_dir(&trial_name(trial))
    }

    /// Reads `manifest.json`. Fails when it is missing, malformed or of another format.
    pub fn read_manifest(&self) -> Result<Manifest, RunDirError> {
        let path = self.manifest_path();
        let manifest: Manifest = read_json(&self.place("manifest.json"), "manifest")?;
        check_format(&path, &manifest.format, Manifest::FORMAT)?;
        Ok(manifest)
    }

    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), RunDirError> {
        write_json(self.place("manifest.json"), manifest)
    }

    /// Reads a trial's record; `None` if the trial has none. Fails when it is there but cannot be read.
    pub fn read_trial(&self, trial: u32) -> Result<Option<Trial>, RunDirError> {
        match read_json(&self.place(&record_name(trial)), "trial") {
            Err(RunDirError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Writes a trial's record into its directory, which is created if missing.
    pub fn write_trial(&self, trial: &Trial) -> Result<(), RunDirError> {
        self.create_trial(trial.trial)?;
        write_json(self.place(&record_name(trial.trial)), trial)
    }

    /// Sets the directory of a trial's attempt aside as `trials/0001-discarded-1`, for the next attempt to take
    /// its place. The record says so, and names the files where they are now.
    pub fn set_aside(&self, mut attempt: Trial) -> Result<(), RunDirError> {
        let from = trial_name(attempt.trial);
        let to = format!("{from}-discarded-{}", attempt.repeats + 1);
        rustix::fs::renameat(&self.directory, &from, &self.directory, &to)
            .map_err(RunDirError::io("rename", self.root.join(&from)))?;
        attempt.discarded = true;
        for name in attempt.files() {
            if let Some(rest) = name.strip_prefix(&from) {
                *name = format!("{to}{rest}");
            }
        }
        write_json(self.place(&format!("{to}/trial.json")), &attempt)
    }

    /// Reads `summary.json`. Fails when it is missing, malformed or of another format.
    pub fn read_summary(&self) -> Result<Summary, RunDirError> {
        let path = self.summary_path();
        let summary: Summary = read_json(&self.place("summary.json"), "summary")?;
        check_format(&path, &summary.format, Summary::FORMAT)?;
        Ok(summary)
    }

    /// Writes `summary.json` in one line: with thousands of packets and one number a line it would be five
    /// times as large.
    pub fn write_summary(&self, summary: &Summary) -> Result<(), RunDirError> {
        write_bytes(self.place("summary.json"), serde_json::to_vec(summary))
    }

    /// The annotation of the run; empty where nothing was written.
    pub fn read_annotation(&self) -> Result<Annotation, RunDirError> {
        let place = self.place("annotation.json");
        let annotation: Annotation = match read_json(&place, "annotation") {
            Err(RunDirError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(Annotation::default());
            }
            read => read?,
        };
        check_format(place.path(), &annotation.format, Annotation::FORMAT)?;
        Ok(annotation)
    }

    pub fn write_annotation(&self, annotation: &Annotation) -> Result<(), RunDirError> {
        write_json(self.place("annotation.json"), annotation)
    }

    /// A file named by a trial's record, refused if it is outside the run directory: a record may come from elsewhere.
    pub fn inside(&self, trial: u32, named: &str) -> Result<Place, RunDirError> {
        if is_plain(named) {
            Ok(self.place(named))
        } else {
            Err(RunDirError::Outside {
                path: self.trial_path(trial),
                named: named.to_owned(),
            })
        }
    }

    /// SHA-256 of every raw file, by path relative to the run directory: the study and all below `trials/`.
    /// Computed files (summary, histograms, report) may be computed again by a later version and are left
    /// out, as is the manifest, which holds the checksums.
    pub fn checksums(&self) -> Result<BTreeMap<String, String>, RunDirError> {
        let mut names = Vec::new();
        if self.place("study.yaml").open().is_ok() {
            names.push("study.yaml".to_owned());
        }
        self.list("trials", &mut names)?;
        let sum = |name: String| {
            let digest = checksum(&self.place(&name))?;
            Ok((name, digest))
        };
        names.into_iter().map(sum).collect()
    }

    /// Compares the files with the checksums of a manifest and returns those that differ.
    pub fn verify(&self, checksums: &BTreeMap<String, String>) -> Vec<(String, Damage)> {
        let judge = |(name, expected): (&String, &String)| match is_plain(name)
            .then(|| checksum(&self.place(name)))
        {
            Some(Ok(found)) if found == *expected => None,
            Some(Ok(_)) => Some((name.clone(), Damage::Changed)),
            _ => Some((name.clone(), Damage::Missing)),
        };
        checksums.iter().filter_map(judge).collect()
    }

    /// Adds every regular file below `relative`, in no particular order, without following symbolic links.
    fn list(&self, relative: &str, names: &mut Vec<String>) -> Result<(), RunDirError> {
        let error = |source: io::Error| RunDirError::io("list", self.root.join(relative))(source);
        let directory = directory_below(&self.directory, Path::new(relative)).map_err(error)?;
        let entries = Dir::new(directory).map_err(|e| error(e.into()))?;
        for entry in entries {
            let entry = entry.map_err(|e| error(e.into()))?;
            let plain = entry.file_name().to_string_lossy();
            let name = format!("{relative}/{plain}");
            let kind = rustix::fs::statat(&self.directory, &name, AtFlags::SYMLINK_NOFOLLOW);
            match kind.map(|found| FileType::from_raw_mode(found.st_mode)) {
                _ if [".", ".."].contains(&&*plain) => {}
                Ok(FileType::Directory) => self.list(&name, names)?,
                Ok(FileType::RegularFile) => names.push(name),
                Ok(_) => {}
                Err(errno) => return Err(error(errno.into())),
            }
        }
        Ok(())
    }
}

/// Replaces a file atomically: readers see the old contents or the new, never a mixture, also after a power failure.
/// Fails when the disk does not take it; the old contents are then still there.
pub fn write_atomically(place: impl Into<Place>, contents: &[u8]) -> Result<(), RunDirError> {
    let place = place.into();
    let written = place.replace(contents);
    written.map_err(RunDirError::io("write", place.path()))
}

/// Whether a name is that of something inside the directory.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

fn record_name(trial: u32) -> String {
    format!("{}/trial.json", trial_name(trial))
}

pub(crate) fn trial_name(trial: u32) -> String {
    format!("trials/{trial:04}")
}

fn read_whole(place: &Place) -> Result<Vec<u8>, RunDirError> {
    let read = || {
        let mut bytes = Vec::new();
        let file = place.open()?;
        file.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
            Err(io::Error::other(format!(
                "it is larger than {} MiB",
                MAX_DOCUMENT_BYTES >> 20
            )))
        } else {
            Ok(bytes)
        }
    };
    read().map_err(RunDirError::io("read", place.path()))
}

fn read_json<T: DeserializeOwned>(place: &Place, what: &'static str) -> Result<T, RunDirError> {
    let bytes = read_whole(place)?;
    serde_json::from_slice(&bytes).map_err(|source| RunDirError::Malformed {
        path: place.path().to_owned(),
        what,
        source,
    })
}

fn write_json<T: Serialize>(place: Place, document: &T) -> Result<(), RunDirError> {
    write_bytes(place, serde_json::to_vec_pretty(document))
}

fn write_bytes(place: Place, json: serde_json::Result<Vec<u8>>) -> Result<(), RunDirError> {
    let mut bytes = json.map_err(RunDirError::io("write", place.path()))?;
    bytes.push(b'\n');
    write_atomically(place, &bytes)
}

fn check_format(path: &Path, found: &str, expected: &'static str) -> Result<(), RunDirError> {
    if found == expected {
        Ok(())
    } else {
        Err(RunDirError::Format {
            path: path.to_owned(),
            found: found.to_owned(),
            expected,
        })
    }
}

fn checksum(place: &Place) -> Result<String, RunDirError> {
    let sum = place.open().and_then(|mut file| sha256(&mut file));
    sum.map_err(RunDirError::io("read", place.path()))
}

/// SHA-256 of all that a file has, in hexadecimal digits.
pub(crate) fn sha256(file: &mut impl Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(file, &mut hasher)?;
    Ok(format!("{:x}", hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_directory_without_a_manifest_is_not_a_run() {
        let scratch = Scratch::new("not-a-run");
        let error = RunDir::open(scratch.path()).unwrap_err();
        assert!(matches!(error, RunDirError::NotARun { .. }), "{error}");
    }

    #[test]
    fn a_second_run_does_not_overwrite_the_first() {
        let scratch = Scratch::new("taken");
        let run = RunDir::create(scratch.path().join("run")).unwrap();
        fs::write(run.manifest_path(), "{}").unwrap();
        assert!(matches!(
            RunDir::create(scratch.path().join("run")),
            Err(RunDirError::Taken { .. })
        ));
    }

    #[test]
    fn garbage_is_an_error_that_names_the_file_and_the_place() {
        let scratch = Scratch::new("garbage");
        let run = RunDir::create(scratch.path().join("run")).unwrap();
        fs::write(run.manifest_path(), "{\"format\": 7").unwrap();
        let text = run.read_manifest().unwrap_err().to_string();
        assert!(
            text.contains("manifest.json") && text.contains("line 1"),
            "{text}"
        );
    }

    #[test]
    fn a_trial_that_never_ran_is_no_error_but_a_broken_one_is() {
        let scratch = Scratch::new("trial");
        let run = RunDir::create(scratch.path().join("run")).unwrap();
        assert!(run.read_trial(3).unwrap().is_none());
        run.create_trial(3).unwrap();
        fs::write(run.trial_path(3), "no").unwrap();
        assert!(matches!(
            run.read_trial(3),
            Err(RunDirError::Malformed { what: "trial", .. })
        ));
    }

    #[test]
    fn checksums_find_changed_and_missing_files() {
        let scratch = Scratch::new("sums");
        let run = RunDir::create(scratch.path().join("run")).unwrap();
        fs::write(run.root().join("study.yaml"), "abc").unwrap();
        run.create_trial(1).unwrap();
        fs::write(run.root().join(RunDir::samples_name(1)), "one").unwrap();
        fs::write(run.trial_path(1), "two").unwrap();
        let sums = run.checksums().unwrap();
        // FIPS 180-2, appendix B.1: the digest of "abc".
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sums["study.yaml"], abc);
        assert_eq!(sums.len(), 3);
        assert_eq!(run.verify(&sums), []);

        fs::write(run.root().join(RunDir::samples_name(1)), "One").unwrap();
        fs::remove_file(run.trial_path(1)).unwrap();
        let expected = [
            ("trials/0001/samples.parquet".to_owned(), Damage::Changed),
            ("trials/0001/trial.json".to_owned(), Damage::Missing),
        ];
        assert_eq!(run.verify(&sums), expected);
    }

    #[test]
    fn a_record_cannot_point_outside_the_run() {
        let scratch = Scratch::new("outside");
        let run = RunDir::create(scratch.path().join("run")).unwrap();
        assert!(run.inside(1, "trials/0001/samples.parquet").is_ok());
        for named in ["", "/etc/passwd", "../x", "trials/../../x", "./x"] {
            assert!(run.inside(1, named).is_err(), "{named:?}");
        }
    }

    #[test]
    fn a_failed_write_leaves_the_old_contents_and_no_litter() {
        let scratch = Scratch::new("atomic");
        let path = scratch.path().join("target");
        // A directory cannot be replaced by a file, so the rename fails after the write.
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "kept").unwrap();
        assert!(write_atomically(&path, b"new").is_err());
        assert_eq!(fs::read(path.join("inside")).unwrap(), b"kept");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }
}
