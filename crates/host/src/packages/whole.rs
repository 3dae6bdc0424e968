//! Directories of the cache that appear whole or not at all.

use std::path::{Path, PathBuf};

use super::error::{Error, io_error};
use crate::sys::file::rename_synced;
use crate::sys::tree;

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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
}
