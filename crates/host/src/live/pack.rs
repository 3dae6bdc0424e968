//! Making a live system.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use latlab_model::plan::USUAL_KERNEL;

use super::directory::{INITRD, KERNEL, Live};
use super::error::Error;
use crate::cache::InUse;
use crate::images::{self, Cache, Image, RootView, squashfs};
use crate::nodes::vm::initramfs;
use crate::nodes::vm::kernel::{self, Kernel};
use crate::nodes::vm::modules::Modules;
use crate::packages::Progress;
use crate::programs;

/// Modules that no live system here uses: half of their bytes.
const LEFT_OUT: [&str; 5] = [
    "kernel/sound",
    "kernel/drivers/gpu",
    "kernel/drivers/media",
    "kernel/drivers/iio",
    "kernel/drivers/staging",
];
/// Names in the initramfs, which the agent knows.
const IMAGE_FILE: &str = "image.squashfs";
const MODULES_FILE: &str = "modules.squashfs";

/// Wishes of the person who asks for a live system.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    pub image: &'a Image,
    /// A flavour, or the path of a vmlinuz; none: the image's own, or else the usual flavour.
    pub kernel: Option<&'a str>,
    /// The serial console, as the kernel names it: `ttyS0,115200`.
    pub console: &'a str,
    /// Kernel parameters of each start.
    pub parameters: &'a [String],
}

/// Makes a live system in a directory that is new, or has an earlier one.
pub fn make(
    directory: &Path,
    wish: Wish<'_>,
    cache: &Path,
    progress: &dyn Fn(&str),
) -> Result<Live, Error> {
    if *wish.image == Image::Host {
        return Err(Error::OwnRoot);
    }
    Live::may_be_in(directory)?;
    let agent = programs::agent().ok_or(Error::NoAgent)?;
    let mut told = |step: Progress| progress(&step.to_string());
    let _in_use = InUse::share(cache)?;
    let image = match wish.image {
        Image::Empty => None,
        image => Some(images::open(
            image,
            &Cache::new(cache.join("images")),
            progress,
        )?),
    };
    let kernels = cache.join("kernels");
    let own = image
        .as_ref()
        .and_then(|root| Some((root, root.kernel.as_ref()?)));
    let kernel = match (wish.kernel, own) {
        (Some(which), _) => kernel::resolve(which, &kernels, &mut told)?,
        (None, Some((root, own))) => kernel::of_image(&root.dir, own, &kernels, &mut told)?,
        (None, None) => kernel::resolve(USUAL_KERNEL, &kernels, &mut told)?,
    };
    let new = |name: &str| directory.join(format!(".{name}.new"));
    let parts = [new(IMAGE_FILE), new(MODULES_FILE), new(INITRD), new(KERNEL)];
    let made = pack(&parts, &agent, &kernel, image.as_ref(), progress)
        .and_then(|()| put(&parts[2], &directory.join(INITRD)))
        .and_then(|()| put(&parts[3], &directory.join(KERNEL)));
    for part in &parts {
        // Absent if it was moved into place, or not begun.
        let _ = fs::remove_file(part);
    }
    made?;
    Live::write(directory, &kernel.release, wish.console, wish.parameters)
}

fn put(new: &Path, path: &Path) -> Result<(), Error> {
    fs::rename(new, path).map_err(Error::io("move into place", path))
}

fn pack(
    [image_file, modules_file, initrd, vmlinuz]: &[PathBuf; 4],
    agent: &Path,
    kernel: &Kernel,
    image: Option<&RootView>,
    progress: &dyn Fn(&str),
) -> Result<(), Error> {
    let mut archive = initramfs::begin(agent)?;
    let open = |path: &PathBuf| File::open(path).map_err(Error::io("open", path));
    let mut files = Vec::new();
    if let Some(image) = image {
        if let Some(modules) = &kernel.modules {
            let all = Modules::open(modules)?;
            initramfs::add_modules(&mut archive, &all, &["loop", "squashfs", "overlay"])?;
            if loads_modules(&image.dir) {
                progress("packing the kernel's modules");
                let left_out: Vec<PathBuf> = LEFT_OUT.iter().map(|it| modules.join(it)).collect();
                squash(modules, modules_file, &left_out)?;
                files.push((MODULES_FILE, open(modules_file)?));
            }
        }
        progress("packing the image");
        // Its modules are packed apart, or of no use to it.
        let own = image.kernel.as_ref();
        let own = own.map(|own| [own.vmlinuz(&image.dir), own.modules(&image.dir)]);
        squash(&image.dir, image_file, own.as_ref().map_or(&[], |own| own))?;
        files.push((IMAGE_FILE, open(image_file)?));
    }
    let files: Vec<(&str, &File)> = files.iter().map(|(name, file)| (*name, file)).collect();
    let write = || -> io::Result<()> {
        let mut to = BufWriter::new(File::create(initrd)?);
        archive.finish_with(&files, &mut to)?;
        to.flush()?;
        to.get_ref().sync_all()
    };
    write().map_err(Error::io("write", initrd))?;
    let copied = fs::copy(&kernel.vmlinuz, vmlinuz);
    copied.map(drop).map_err(Error::io("write", vmlinuz))
}

/// Whether the image has the program that loads modules, without which they are of no use.
fn loads_modules(image: &Path) -> bool {
    // A link of the image may lead outside of it, so it is only looked whether the name is there.
    let is_there = |name: &str| fs::symlink_metadata(image.join(name)).is_ok();
    is_there("sbin/modprobe") || is_there("usr/sbin/modprobe")
}

fn squash(directory: &Path, to: &Path, left_out: &[PathBuf]) -> Result<(), Error> {
    squashfs::write(directory, to, left_out, squashfs::COMPRESSED)
        .map_err(Error::io("make a file system of", directory))
}
