//! Layers that cover what images hide from containers.
//!
//! A mask is a mount that the runtime makes in each container. A layer is made once for a lab, and lies in each
//! overlay between the image and the node's own layer: an empty file or directory instead of each that is hidden, with
//! its owner and mode. The kernel looks no further down than the first file or opaque directory of a name. The node
//! writes and deletes in its own layer only, may not set the attributes that overlays read (`trusted.overlay`), and
//! cannot unmount a layer, which a node with `SYS_ADMIN` can a mask.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::view::RootView;
use crate::sys::file::if_there;
use crate::sys::{Error, inside, mount};

/// Limit on the contents of a file system of covers, which are empty.
const SIZE: u64 = 1 << 20;

/// Layers of a lab, in a directory that only root enters.
#[derive(Debug, Default)]
pub struct Covers {
    layers: Vec<Layer>,
}

#[derive(Debug)]
struct Layer {
    image: PathBuf,
    submounts: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    at: PathBuf,
}

impl Covers {
    /// Makes what the views need below `dir`. Where its file system keeps no such attributes there are no layers, and
    /// masks do the same.
    pub fn make<'a>(
        dir: &Path,
        views: impl Iterator<Item = &'a RootView>,
    ) -> Result<Covers, Error> {
        let mut covers = Covers::default();
        for view in views.filter(|view| !view.hidden.is_empty()) {
            if covers.of(view).is_none() {
                covers.layers.push(Layer {
                    image: view.dir.clone(),
                    submounts: view.submounts.clone(),
                    hidden: view.hidden.clone(),
                    at: dir.join(covers.layers.len().to_string()),
                });
            }
        }
        if covers.layers.is_empty() {
            return Ok(covers);
        }
        make_private(dir)?;
        if covers.lie_in_an_image(dir)? {
            // The kernel takes no layer that lies in another one.
            mount::make_private(dir)?;
            mount::tmpfs(dir, SIZE)?;
        }
        match covers.layers.iter().try_for_each(Layer::fill) {
            Err(Error { source, .. }) if has_no_attributes(&source) => Ok(Covers::default()),
            filled => filled.map(|()| covers),
        }
    }

    /// The layer that covers all that the view hides.
    pub fn of(&self, view: &RootView) -> Option<&Path> {
        let fits = |layer: &&Layer| layer.image == view.dir && layer.hidden == view.hidden;
        self.layers.iter().find(fits).map(|layer| &*layer.at)
    }

    /// Whether a directory is in a file system of an image, or may be.
    fn lie_in_an_image(&self, dir: &Path) -> Result<bool, Error> {
        let in_memory = inside::is_in_memory(dir)?;
        let device = |path: &Path| fs::metadata(path).map(|at| at.dev()).ok();
        let own = device(dir);
        let images = self
            .layers
            .iter()
            .flat_map(|layer| [&layer.image].into_iter().chain(&layer.submounts));
        Ok(!in_memory || images.map(|image| device(image)).any(|image| image == own))
    }
}

impl Layer {
    fn fill(&self) -> Result<(), Error> {
        make_private(&self.at)?;
        // By components, what is below a path comes right after it.
        let mut outermost = self.hidden.clone();
        outermost.sort();
        outermost.dedup_by(|inner, outer| inner.starts_with(outer));
        let mut made = HashSet::new();
        for path in &outermost {
            let relative = path.strip_prefix("/").unwrap_or(path);
            let covered = if_there(fs::symlink_metadata(self.image.join(relative)));
            let Some(covered) = covered.map_err(Error::of("look at", path.display()))? else {
                continue;
            };
            self.open(relative.parent().unwrap_or(Path::new("")), &mut made)?;
            cover(&self.at.join(relative), &covered)?;
        }
        Ok(())
    }

    /// Makes a directory through which the image's shows, with all above it.
    fn open(&self, relative: &Path, made: &mut HashSet<PathBuf>) -> Result<(), Error> {
        let Some(parent) = relative.parent() else {
            return Ok(());
        };
        if !made.insert(relative.to_owned()) {
            return Ok(());
        }
        self.open(parent, made)?;
        let (own, images) = (self.at.join(relative), self.image.join(relative));
        let like = fs::symlink_metadata(&images).map_err(Error::of("look at", images.display()))?;
        directory(&own, &like)
    }
}

/// Makes an empty file or directory like that which it covers.
fn cover(at: &Path, covered: &Metadata) -> Result<(), Error> {
    if covered.is_dir() {
        directory(at, covered)?;
        let opaque = rustix::fs::lsetxattr(at, "trusted.overlay.opaque", b"y", XattrFlags::CREATE);
        return opaque.map_err(Error::of("make opaque", at.display()));
    }
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(at);
    file.map_err(Error::of("make", at.display()))?;
    // Set-user-ID bits belong to the program that is covered.
    like(at, covered, 0o777)
}

fn directory(at: &Path, original: &Metadata) -> Result<(), Error> {
    let made = DirBuilder::new().mode(0o700).create(at);
    made.map_err(Error::of("make", at.display()))?;
    like(at, original, 0o7777)
}

/// Gives a file just made the owner of another, and those bits of its mode.
fn like(at: &Path, original: &Metadata, bits: u32) -> Result<(), Error> {
    if (original.uid(), original.gid()) != (0, 0) {
        std::os::unix::fs::lchown(at, Some(original.uid()), Some(original.gid()))
            .map_err(Error::of("change the owner of", at.display()))?;
    }
    fs::set_permissions(at, Permissions::from_mode(original.mode() & bits))
        .map_err(Error::of("change the mode of", at.display()))
}

fn make_private(dir: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().mode(0o700).create(dir);
    made.map_err(Error::of("make", dir.display()))
}

fn has_no_attributes(error: &io::Error) -> bool {
    [Errno::NOTSUP, Errno::PERM]
        .map(|errno| Some(errno.raw_os_error()))
        .contains(&error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::ImageConfig;

    /// Names, kinds and modes of covers, sorted.
    fn shown(layer: &Path) -> Vec<String> {
        let mut all = Vec::new();
        let mut left = vec![layer.to_owned()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let at = fs::symlink_metadata(&path).unwrap();
                let mut value = [0; 1];
                let opaque = rustix::fs::lgetxattr(&path, "trusted.overlay.opaque", &mut value);
                let kind = match (at.is_dir(), opaque) {
                    (true, Ok(1)) => "covers",
                    (true, _) => "shows",
                    (false, _) => "empty",
                };
                let name = path.strip_prefix(layer).unwrap().display().to_string();
                all.push(format!("{name} {kind} {:o}", at.mode() & 0o7777));
                assert!(at.is_dir() || at.len() == 0);
                if at.is_dir() {
                    left.push(path);
                }
            }
        }
        all.sort();
        all
    }

    #[test]
    fn a_layer_has_an_empty_file_or_directory_for_each_hidden_path_and_nothing_below() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let root = PathBuf::from(format!("/dev/shm/latlab-covers-{}", std::process::id()));
        let image = std::env::temp_dir().join(format!("latlab-covered-{}", std::process::id()));
        fs::create_dir_all(image.join("etc/closed/inner")).unwrap();
        fs::write(image.join("etc/program"), "secret").unwrap();
        let mode = |name: &str, mode| {
            fs::set_permissions(image.join(name), Permissions::from_mode(mode)).unwrap();
        };
        mode("etc", 0o755);
        mode("etc/closed", 0o1770);
        mode("etc/program", 0o4750);
        fs::create_dir(&root).unwrap();
        let mut view = RootView::plain(image.clone(), ImageConfig::default());
        let other = RootView::plain(image.clone(), ImageConfig::default());
        view.hidden = [
            "/etc/program",
            "/etc/closed/inner",
            "/etc/closed",
            "/etc/gone",
        ]
        .map(PathBuf::from)
        .into();
        let covers =
            Covers::make(&root.join("layers"), [&other, &view, &view].into_iter()).unwrap();
        let layer = root.join("layers/0");
        assert_eq!(covers.of(&view), Some(&*layer));
        assert_eq!(covers.of(&other), None);
        assert_eq!(covers.layers.len(), 1);
        let expected = [
            "etc shows 755",
            "etc/closed covers 1770",
            "etc/program empty 750",
        ];
        assert_eq!(shown(&layer), expected);
        fs::remove_dir_all(root).unwrap();
        fs::remove_dir_all(image).unwrap();
    }
}
