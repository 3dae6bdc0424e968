//! A container's hosts file, written into its writable layer: the node may change it like any other file, and
//! what it writes is on the layer's account. A bind of the host's file would be neither.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::error::Error;

const DIRECTORY: &str = "etc";
const NAME: &str = "hosts";
const PARTIAL: &str = ".hosts.latlab";

/// Puts `text` in the place of the image's hosts file. The image is not trusted: its `/etc` may be a link,
/// which is followed as it leads inside, and its file may be one, which is replaced. An image whose `/etc`
/// is no directory, or cannot be written, has no names.
pub(super) fn write(root: &Path, text: &str) -> Result<(), Error> {
    let failed = |errno: Errno| Error::io("write the hosts file in", root)(errno.into());
    let directory = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = rustix::fs::openat(CWD, root, directory, Mode::empty()).map_err(failed)?;
    match rustix::fs::mkdirat(&top, DIRECTORY, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(failed(errno)),
    }
    let etc = rustix::fs::openat2(
        &top,
        DIRECTORY,
        directory,
        Mode::empty(),
        ResolveFlags::IN_ROOT,
    );
    let etc = match etc {
        Ok(etc) => etc,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        Err(errno) => return Err(failed(errno)),
    };
    // One of the image's; or there is none.
    rustix::fs::unlinkat(&etc, PARTIAL, rustix::fs::AtFlags::empty()).ok();
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(&etc, PARTIAL, flags, Mode::from_raw_mode(0o644)) {
        Ok(file) => file,
        Err(Errno::ROFS) => return Ok(()),
        Err(errno) => return Err(failed(errno)),
    };
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644)).map_err(failed)?;
    File::from(file)
        .write_all(text.as_bytes())
        .map_err(Error::io("write the hosts file in", root))?;
    match rustix::fs::renameat(&etc, PARTIAL, &etc, NAME) {
        Ok(()) => Ok(()),
        Err(errno) => {
            rustix::fs::unlinkat(&etc, PARTIAL, rustix::fs::AtFlags::empty()).ok();
            Err(failed(errno))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A directory of this test, removed at its end.
    struct Root(std::path::PathBuf);

    impl Root {
        fn new(name: &str) -> Root {
            let path = std::env::temp_dir().join(format!("latlab-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("image")).unwrap();
            Root(path)
        }

        fn image(&self) -> std::path::PathBuf {
            self.0.join("image")
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn the_images_own_file_gives_way() {
        let root = Root::new("hosts-plain");
        write(&root.image(), "one\n").unwrap();
        write(&root.image(), "two\n").unwrap();
        let path = root.image().join("etc/hosts");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        assert_eq!(fs::read_dir(root.image().join("etc")).unwrap().count(), 1);
    }

    #[test]
    fn no_link_of_the_image_leads_out_of_it() {
        let root = Root::new("hosts-links");
        let outside = root.0.join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("hosts"), "the host's").unwrap();
        fs::create_dir(root.image().join("etc")).unwrap();
        symlink(outside.join("hosts"), root.image().join("etc/hosts")).unwrap();
        write(&root.image(), "ours").unwrap();
        let link = root.image().join("etc/hosts");
        assert!(!fs::symlink_metadata(&link).unwrap().is_symlink());
        fs::remove_dir_all(root.image().join("etc")).unwrap();
        for target in [&outside, Path::new("../outside"), Path::new("/etc")] {
            symlink(target, root.image().join("etc")).unwrap();
            write(&root.image(), "ours").unwrap();
            fs::remove_file(root.image().join("etc")).unwrap();
        }
        assert_eq!(
            fs::read_to_string(outside.join("hosts")).unwrap(),
            "the host's"
        );
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }
}
