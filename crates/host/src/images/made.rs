//! Images that are made from packages, each once.
//!
//! ```text
//! <cache>/recipes/<key>       the digest of the image that a recipe made, and its kernel; the key is a digest of the recipe
//! <cache>/<digest>/rootfs     the image, under the digest of its archive
//! <cache>/.make-<key>         under way, or left by a process that died
//! ```

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use latlab_model::spec::{FileSource, Recipe};

use super::bootstrap;
use super::budget::Budget;
use super::cache::{Cache, open_directory, remove_all};
use super::codec::{Hashing, digest};
use super::error::Error;
use super::layer;
use super::own_kernel::ImageKernel;
use crate::sys::cached;
use crate::sys::file::{
    Lock, copy_atomically, directory_of, is_replaceable, rename_synced, write_atomically,
};

/// Changes with the way that images are made.
const VERSION: &str = "latlab.image/1";
const RECIPES: &str = "recipes";
const LOCK: &str = ".lock";
/// Begins the name of a directory in which an image is made.
const MAKING: &str = ".make-";
/// Another latlab that makes an image is waited for this long.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// An image, ready to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    pub root: PathBuf,
    /// SHA-256 of its archive. The same packages and files have the same one.
    pub digest: String,
    /// The kernel that belongs to it.
    pub kernel: Option<ImageKernel>,
    /// Whether the cache had the image already.
    pub was_there: bool,
}

/// A description of an image.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a> {
    pub recipe: &'a Recipe,
    /// The directory that paths of files are relative to.
    pub base: &'a Path,
    /// Where it stands, for messages.
    pub place: &'a str,
}

/// Wishes of the person who asks for the image.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish<'a> {
    /// Make it with the packages that the archive has now, also if it is in the cache.
    pub again: bool,
    /// A file for its archive (tar).
    pub output: Option<&'a Path>,
}

impl Cache {
    /// The image of the recipe in `file`, made now if it was not before.
    pub fn make(
        &self,
        file: &Path,
        wish: Wish<'_>,
        progress: &dyn Fn(&str),
    ) -> Result<Made, Error> {
        let text = fs::read_to_string(file).map_err(Error::io("read", file))?;
        // Known in a moment, and not after a minute's work.
        if let Some(output) = wish.output {
            let directory = directory_of(output);
            fs::read_dir(directory).map_err(Error::io("write into", directory))?;
            if !is_replaceable(output).map_err(Error::io("write", output))? {
                return Err(Error::NoFile(output.to_owned()));
            }
        }
        let recipe = Recipe::parse(&text).map_err(|mistakes| Error::Recipe {
            path: file.to_owned(),
            mistakes: mistakes.render(&file.display().to_string()),
        })?;
        let described = Described {
            recipe: &recipe,
            base: file.parent().unwrap_or(Path::new(".")),
            place: &file.display().to_string(),
        };
        self.make_described(described, wish, progress)
    }

    /// The image of a description, made now if it was not before.
    pub fn make_described(
        &self,
        described: Described<'_>,
        wish: Wish<'_>,
        progress: &dyn Fn(&str),
    ) -> Result<Made, Error> {
        let key = key(described.recipe, described.base)?;
        let is_anew = wish.again || wish.output.is_some();
        if let Some(made) = self.known(&key).filter(|_| !is_anew) {
            return Ok(made);
        }
        let recipes = self.dir().join(RECIPES);
        let _lock = self.lock_recipes(&recipes)?;
        // Another latlab may have made it meanwhile.
        if let Some(made) = self.known(&key).filter(|_| !is_anew) {
            return Ok(made);
        }
        self.sweep(MAKING)?;
        let work = self.dir().join(format!("{MAKING}{key}"));
        let made = self.make_in(&work, described, wish, progress);
        // The reason matters more than a rest that the next attempt removes.
        let _ = remove_all(&work);
        let made = made?;
        let name = recipes.join(&key);
        write_atomically(&name, record(&made).as_bytes(), 0o600)?;
        Ok(made)
    }

    fn known(&self, key: &str) -> Option<Made> {
        let text = fs::read_to_string(self.dir().join(RECIPES).join(key)).ok()?;
        let (digest, kernel) = recorded(&text)?;
        // Another latlab may remove it meanwhile, as one that was not used for long.
        cached::mark_used(&self.dir().join(digest)).ok()?;
        Some(Made {
            root: self.root_of(digest),
            digest: digest.to_owned(),
            kernel,
            was_there: true,
        })
    }

    fn root_of(&self, digest: &str) -> PathBuf {
        self.dir().join(digest).join("rootfs")
    }

    fn lock_recipes(&self, recipes: &Path) -> Result<Lock, Error> {
        self.make_dir()?;
        fs::create_dir_all(recipes).map_err(Error::io("make", recipes))?;
        let path = recipes.join(LOCK);
        let lock = Lock::take(&path, TIMEOUT);
        let lock = lock.map_err(|error| Error::io("lock", &path)(error.source))?;
        lock.ok_or_else(|| Error::io("lock", &path)(io::ErrorKind::TimedOut.into()))
    }

    fn make_in(
        &self,
        work: &Path,
        Described {
            recipe,
            base,
            place,
        }: Described<'_>,
        wish: Wish<'_>,
        progress: &dyn Fn(&str),
    ) -> Result<Made, Error> {
        let refused = |reason| Error::Making {
            place: place.to_owned(),
            reason,
        };
        fs::create_dir_all(work).map_err(Error::io("make", work))?;
        pack_files(recipe, base, &work.join(bootstrap::FILES))?;
        let script = work.join(bootstrap::SCRIPT);
        fs::write(&script, recipe.run.join("\n") + "\n").map_err(Error::io("write", &script))?;
        let tar = work.join("image.tar");
        let kernel = bootstrap::make(recipe, work, &tar, progress).map_err(refused)?;
        let archive = File::open(&tar).map_err(Error::io("open", &tar))?;
        let digest = Hashing::new(archive).finish(u64::MAX);
        let digest = digits(&digest.map_err(Error::io("read", &tar))?);
        if let Some(output) = wish.output {
            // Half an archive looks like a whole one.
            copy_atomically(&tar, output)?;
        }
        let root = self.root_of(&digest);
        if !root.exists() {
            progress("unpacking");
            let new = work.join("image");
            unpack(&tar, &new.join("rootfs")).map_err(refused)?;
            let ready = self.dir().join(&digest);
            rename_synced(&new, &ready).map_err(Error::io("move into place", &ready))?;
        }
        Ok(Made {
            root,
            digest,
            kernel,
            was_there: false,
        })
    }
}

/// The text that is kept of what a recipe made: the digest, and a line with its kernel.
fn record(made: &Made) -> String {
    let kernel = made.kernel.as_ref();
    let kernel = kernel.map(|kernel| format!("\n{} {}", kernel.release, kernel.origin));
    made.digest.clone() + &kernel.unwrap_or_default()
}

fn recorded(text: &str) -> Option<(&str, Option<ImageKernel>)> {
    let mut lines = text.lines();
    let digest = lines.next()?;
    let kernel = lines.next().and_then(|line| line.split_once(' '));
    let kernel = kernel.map(|(release, origin)| ImageKernel {
        release: release.to_owned(),
        origin: origin.to_owned(),
    });
    Some((digest, kernel))
}

/// A digest of all that decides what is made, but for the archive's packages.
fn key(recipe: &Recipe, base: &Path) -> Result<String, Error> {
    let mut bytes = [VERSION, std::env::consts::ARCH].concat().into_bytes();
    bytes.extend(serde_json::to_vec(recipe).unwrap_or_default());
    for source in recipe.files.values() {
        let (content, mode) = content(source, base)?;
        bytes.extend((content.len() as u64).to_le_bytes());
        bytes.extend(mode.to_le_bytes());
        bytes.extend(content);
    }
    Ok(digits(&digest(&bytes)))
}

/// A digest without its algorithm: the name of a file.
fn digits(digest: &str) -> String {
    digest.trim_start_matches("sha256:").to_owned()
}

/// Packs a recipe's files as they will be in the image: root's, as executable as they are here. Directories on their way
/// are not among them, so those that packages bring keep their modes.
fn pack_files(recipe: &Recipe, base: &Path, archive: &Path) -> Result<(), Error> {
    let failed = || Error::io("write", archive);
    let mut tar = tar::Builder::new(File::create(archive).map_err(failed())?);
    for (path, source) in &recipe.files {
        let (bytes, mode) = content(source, base)?;
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        header.set_mtime(bootstrap::EPOCH);
        let path = path.trim_start_matches('/');
        let added = tar.append_data(&mut header, path, bytes.as_slice());
        added.map_err(failed())?;
    }
    tar.into_inner().map(drop).map_err(failed())
}

/// The bytes and the mode of a file.
fn content(source: &FileSource, base: &Path) -> Result<(Vec<u8>, u32), Error> {
    let from = match source {
        FileSource::Text(text) => return Ok((text.clone().into_bytes(), 0o644)),
        FileSource::From(from) => base.join(from),
    };
    let bytes = fs::read(&from).map_err(Error::io("read", &from))?;
    let mode = fs::metadata(&from)
        .map_err(Error::io("read", &from))?
        .mode();
    Ok((bytes, if mode & 0o111 == 0 { 0o644 } else { 0o755 }))
}

fn unpack(tar: &Path, root: &Path) -> Result<(), String> {
    fs::create_dir_all(root).map_err(|error| error.to_string())?;
    let mut budget = Budget::in_free_space(root).map_err(|error| error.to_string())?;
    let directory = open_directory(root).map_err(|error| error.to_string())?;
    let archive = File::open(tar).map_err(|error| error.to_string())?;
    layer::extract(directory.as_fd(), io::BufReader::new(archive), &mut budget)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_key_is_of_the_recipe_and_of_the_files_that_it_names() {
        let dir = std::env::temp_dir().join(format!("latlab-recipe-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let key_of = |text: &str| key(&Recipe::parse(text).unwrap(), &dir);
        let named = "debian: bookworm\nfiles: {/a: {from: a}}";
        assert!(matches!(key_of(named), Err(Error::Sys(_))));
        fs::write(dir.join("a"), "one").unwrap();
        let first = key_of(named).unwrap();
        assert_eq!(key_of(named).unwrap(), first);
        fs::write(dir.join("a"), "two").unwrap();
        assert_ne!(key_of(named).unwrap(), first);
        let plain = key_of("debian: bookworm\npackages: [ed]").unwrap();
        // A comment and another notation make no other image.
        assert_eq!(
            key_of("# mine\npackages: ed\ndebian: bookworm").unwrap(),
            plain
        );
        assert_ne!(
            key_of("debian: bookworm\npackages: [ed, jq]").unwrap(),
            plain
        );
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_a_recipe_made_is_read_back() {
        let mut made = Made {
            root: PathBuf::from("/root"),
            digest: "00ff".into(),
            kernel: None,
            was_there: false,
        };
        assert_eq!(record(&made), "00ff");
        assert_eq!(recorded("00ff"), Some(("00ff", None)));
        made.kernel = Some(ImageKernel {
            release: "6.1.0-37-amd64".into(),
            origin: "linux-image-6.1.0-37-amd64 6.1.140-1".into(),
        });
        let text = record(&made);
        assert_eq!(recorded(&text), Some(("00ff", made.kernel)));
    }

    #[test]
    fn an_archive_takes_the_place_of_nothing_but_a_file() {
        let dir = std::env::temp_dir().join(format!("latlab-output-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (file, pipe) = (dir.join("image.yaml"), dir.join("pipe"));
        fs::write(&file, "debian: bookworm").unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let wish = Wish {
            again: false,
            output: Some(&pipe),
        };
        let cache = Cache::new(dir.join("cache"));
        let made = cache.make(&file, wish, &|step| panic!("{step}"));
        assert!(matches!(made, Err(Error::NoFile(path)) if path == pipe));
        assert!(!dir.join("cache").exists());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn files_are_packed_alone_and_executable_where_they_are_here() {
        let dir = std::env::temp_dir().join(format!("latlab-files-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (tool, archive) = (dir.join("tool"), dir.join("files.tar"));
        fs::write(&tool, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o700)).unwrap();
        let text =
            "debian: bookworm\nfiles: {/etc/deep/motd: {text: hello}, /opt/tool: {from: tool}}";
        pack_files(&Recipe::parse(text).unwrap(), &dir, &archive).unwrap();
        let mut packed = tar::Archive::new(File::open(&archive).unwrap());
        let members = packed.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            (path, entry.header().mode().unwrap(), entry.size())
        });
        let expected = [("etc/deep/motd", 0o644, 5), ("opt/tool", 0o755, 10)];
        let expected = expected.map(|(path, mode, size)| (path.to_owned(), mode, size));
        assert_eq!(members.collect::<Vec<_>>(), expected);
        fs::remove_dir_all(&dir).unwrap();
    }
}
