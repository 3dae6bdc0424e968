//! A container's hosts file, written into its writable layer: the node may change it like any other file, and
//! what it writes is on the layer's account. A bind of the host's file would be neither.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::error::Error;

const DIRECTORY: &str = "etc";
const NAME: &str = "hosts";
const PARTIAL: &str = ".hosts.latlab";

/// Puts `text` in the upper directory of a layer before it is mounted over `image`. The kernel would copy the image's
/// `/etc` first. Returns false, and writes nothing, where only [`write`] gives the same result: the image's `/etc` is no directory, or has attributes that would be lost.
pub(super) fn write_in_upper(image: &Path, upper: &Path, text: &str) -> Result<bool, Error> {
    let failed = |errno: Errno| Error::io("write the hosts file in", upper)(errno);
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(original) = rustix::fs::open(image.join(DIRECTORY), flags, Mode::empty()) else {
        return Ok(false);
    };
    let attributes = rustix::fs::flistxattr(&original, &mut [0u8; 0]);
    if !matches!(attributes, Ok(0) | Err(Errno::OPNOTSUPP)) {
        return Ok(false);
    }
    let like = rustix::fs::fstat(&original).map_err(failed)?;
    let directory = upper.join(DIRECTORY);
    match rustix::fs::mkdir(&directory, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(false),
        Err(errno) => return Err(failed(errno)),
    }
    let etc = rustix::fs::open(&directory, flags, Mode::empty()).map_err(failed)?;
    let owner = rustix::fs::Uid::from_raw(like.st_uid);
    let group = rustix::fs::Gid::from_raw(like.st_gid);
    rustix::fs::fchown(&etc, Some(owner), Some(group)).map_err(failed)?;
    let mode = Mode::from_raw_mode(like.st_mode & 0o7777);
    rustix::fs::fchmod(&etc, mode).map_err(failed)?;
    let file = create(etc.as_fd(), NAME).map_err(failed)?;
    fill(file, text).map_err(Error::io("write the hosts file in", upper))?;
    Ok(true)
}

fn create(etc: impl AsFd, name: &str) -> Result<File, Errno> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(etc, name, flags, Mode::RUSR).map(File::from)
}

fn fill(mut file: File, text: &str) -> std::io::Result<()> {
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644))?;
    file.write_all(text.as_bytes())
}

/// Puts `text` in the place of the image's hosts file. The image is not trusted: its `/etc` may be a link,
/// which is followed as it leads inside, and its file may be one, which is replaced. An image whose `/etc`
/// is no directory, or cannot be written, has no names.
pub(super) fn write(root: &Path, text: &str) -> Result<(), Error> {
    let failed = |errno: Errno| Error::io("write the hosts file in", root)(errno);
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
    let file = match create(&etc, PARTIAL) {
        Ok(file) => file,
        Err(Errno::ROFS) => return Ok(()),
        Err(errno) => return Err(failed(errno)),
    };
    fill(file, text).map_err(Error::io("write the hosts file in", root))?;
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
    fn an_upper_directory_gets_the_file_in_a_directory_like_the_images() {
        let root = Root::new("hosts-upper");
        let upper = root.0.join("upper");
        fs::create_dir(&upper).unwrap();
        // An image without the directory.
        assert!(!write_in_upper(&root.image(), &upper, "ours").unwrap());
        let etc = root.image().join("etc");
        symlink("/etc", &etc).unwrap();
        assert!(!write_in_upper(&root.image(), &upper, "ours").unwrap());
        fs::remove_file(&etc).unwrap();
        fs::create_dir(&etc).unwrap();
        fs::set_permissions(&etc, fs::Permissions::from_mode(0o2751)).unwrap();
        assert!(write_in_upper(&root.image(), &upper, "ours").unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&upper.join("etc")), 0o2751);
        assert_eq!(mode(&upper.join("etc/hosts")), 0o644);
        assert_eq!(fs::read_to_string(upper.join("etc/hosts")).unwrap(), "ours");
        assert_eq!(fs::read_dir(&etc).unwrap().count(), 0);
        // A directory that is there is left to the kernel.
        assert!(!write_in_upper(&root.image(), &upper, "other").unwrap());
        assert_eq!(fs::read_to_string(upper.join("etc/hosts")).unwrap(), "ours");
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
