//! Making a live system.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::directory::{INITRD, KERNEL, Live};
use super::error::Error;
use crate::images::{self, Cache, Image, squashfs};
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
    /// A flavour, or the path of a vmlinuz.
    pub kernel: &'a str,
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
    let kernel = kernel::resolve(wish.kernel, &cache.join("kernels"), &mut told)?;
    let image = match wish.image {
        Image::Empty => None,
        image => Some(images::open(image, &Cache::new(cache.join("images")), progress)?.dir),
    };
    let new = |name: &str| directory.join(format!(".{name}.new"));
    let parts = [new(IMAGE_FILE), new(MODULES_FILE), new(INITRD), new(KERNEL)];
    let made = pack(&parts, &agent, &kernel, image.as_deref(), progress)
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
    image: Option<&Path>,
    progress: &dyn Fn(&str),
) -> Result<(), Error> {
    let mut archive = initramfs::begin(agent)?;
    let mut files = Vec::new();
    if let Some(image) = image {
        if let Some(modules) = &kernel.modules {
            let all = Modules::open(modules)?;
            initramfs::add_modules(&mut archive, &all, &["loop", "squashfs", "overlay"])?;
            if loads_modules(image) {
                progress("packing the kernel's modules");
                squash(modules, modules_file, &LEFT_OUT)?;
                files.push((MODULES_FILE, modules_file));
            }
        }
        progress("packing the image");
        squash(image, image_file, &[])?;
        files.push((IMAGE_FILE, image_file));
    }
    let opened: Result<Vec<(&str, File)>, Error> = files
        .into_iter()
        .map(|(name, path)| Ok((name, File::open(path).map_err(Error::io("open", path))?)))
        .collect();
    let opened = opened?;
    let opened: Vec<(&str, &File)> = opened.iter().map(|(name, file)| (*name, file)).collect();
    let write = || -> io::Result<()> {
        let mut to = BufWriter::new(File::create(initrd)?);
        archive.finish_with(&opened, &mut to)?;
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

fn squash(directory: &Path, to: &Path, left_out: &[&str]) -> Result<(), Error> {
    let left_out: Vec<PathBuf> = left_out.iter().map(|name| directory.join(name)).collect();
    squashfs::write(directory, to, &left_out, squashfs::COMPRESSED)
        .map_err(Error::io("make a file system of", directory))
}
