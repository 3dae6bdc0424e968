//! Preparation of nodes: images are unpacked and kernels downloaded into the cache, where they serve the next
//! deployment even if this one fails. Nodes with the same image or kernel share it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use latlab_model::kinds::Bind;
use latlab_model::plan::{IMAGE_KERNEL, RootPlan, USUAL_KERNEL};

use super::session::Error;
use super::vm::initramfs::{self, GuestModules};
use super::vm::kernel::{self, Kernel, Progress};
use super::vm::share::GuestDisks;
use super::vm::template::Templates;
use crate::images::{self, Cache, Disks, Image, RootView, Search};

pub(crate) struct Preparation<'a> {
    /// The directory that images are relative to.
    base: &'a Path,
    /// The directory that binds and snapshots are relative to.
    absolute_base: PathBuf,
    cache: &'a Path,
    agent: &'a Path,
    images: Cache,
    disks: Disks,
    views: Vec<(Image, RootView)>,
    /// Each with its initramfs.
    kernels: BTreeMap<(String, GuestModules), (Kernel, PathBuf)>,
    pub templates: Arc<Templates>,
    /// For what of the machine's own files nodes may not see.
    pub search: Option<Search>,
    /// Paths in the cache that were handed out.
    cached: BTreeSet<PathBuf>,
    progress: &'a dyn Fn(&str),
}

impl<'a> Preparation<'a> {
    pub fn new(
        base: &'a Path,
        cache: &'a Path,
        agent: &'a Path,
        progress: &'a dyn Fn(&str),
    ) -> Preparation<'a> {
        Preparation {
            base,
            absolute_base: fs::canonicalize(base).unwrap_or_else(|_| base.to_path_buf()),
            cache,
            agent,
            images: Cache::new(cache.join("images")),
            disks: Disks::new(cache),
            views: Vec::new(),
            kernels: BTreeMap::new(),
            templates: Arc::new(Templates::new(cache)),
            search: None,
            cached: BTreeSet::new(),
            progress,
        }
    }

    /// The root file system of a node, unpacked the first time.
    pub fn root(&mut self, root: &RootPlan) -> Result<RootView, Error> {
        let image = match &root.recipe {
            None => Image::find(&root.image, self.base)?,
            Some(recipe) => Image::Inline(Box::new(recipe.clone()), self.base.to_path_buf()),
        };
        let view = match self.views.iter().find(|(known, _)| *known == image) {
            Some((_, view)) => view.clone(),
            None => {
                if image == Image::Host {
                    self.search = Some(Search::begin());
                }
                let view = images::open(&image, &self.images, self.progress)?;
                self.views.push((image, view.clone()));
                view
            }
        };
        self.note(&view.dir);
        Ok(view.hiding(&root.hide)?)
    }

    fn note(&mut self, path: &Path) {
        if path.starts_with(self.cache) {
            self.cached.insert(path.to_owned());
        }
    }

    /// Paths in the cache that the nodes use.
    pub fn cached(&self) -> Vec<String> {
        let cached = self.cached.iter();
        cached.map(|path| path.display().to_string()).collect()
    }

    /// A path of the lab's file.
    pub fn absolute(&self, path: &str) -> PathBuf {
        // Without the dot that a path may begin with.
        self.absolute_base.join(path).components().collect()
    }

    /// A node's binds with their sources made absolute.
    pub fn binds(&self, root: &RootPlan) -> Vec<Bind> {
        let absolute = |bind: &Bind| {
            let mut bind = bind.clone();
            bind.source = self.absolute(&bind.source).display().to_string();
            bind
        };
        root.binds.iter().map(absolute).collect()
    }

    /// The file system images of a guest that has a disk: its root's and, if the root can load any, its kernel's modules'.
    pub fn disks(&mut self, root: &RootView, kernel: &Kernel) -> Result<GuestDisks, Error> {
        let make = |dir: &Path, hidden: &[PathBuf]| self.disks.of(dir, hidden, self.progress);
        // A link of the image may lead outside of it, so it is only looked whether the name is there.
        let is_there = |name: &str| fs::symlink_metadata(root.dir.join(name)).is_ok();
        let loads = ["sbin/modprobe", "usr/sbin/modprobe"]
            .into_iter()
            .any(is_there);
        // Those of the image's own kernel are in the image.
        let modules = kernel.modules.as_deref().filter(|_| loads);
        let modules = modules.filter(|dir| !dir.starts_with(&root.dir));
        let disks = GuestDisks {
            root: make(&root.dir, &root.hidden)?,
            modules: modules.map(|dir| make(dir, &[])).transpose()?,
        };
        for disk in [&disks.root].into_iter().chain(&disks.modules) {
            self.note(disk);
        }
        Ok(disks)
    }

    /// A guest's kernel, downloaded the first time, and the initramfs that is made for it.
    pub fn kernel(
        &mut self,
        name: &str,
        root: &RootView,
        modules: GuestModules,
    ) -> Result<(Kernel, PathBuf), Error> {
        let own = root.kernel.as_ref().filter(|_| name == IMAGE_KERNEL);
        let name = match (own, name) {
            (Some(own), _) => own.vmlinuz(&root.dir).display().to_string(),
            (None, IMAGE_KERNEL) => USUAL_KERNEL.to_owned(),
            (None, name) => name.to_owned(),
        };
        let key = (name.clone(), modules);
        if let Some(kernel) = self.kernels.get(&key) {
            return Ok(kernel.clone());
        }
        let mut told = |progress: Progress| (self.progress)(&progress.to_string());
        let cache = self.cache.join("kernels");
        let kernel = match own {
            Some(own) => kernel::of_image(&root.dir, own, &cache, &mut told)?,
            None => kernel::resolve(&name, &cache, &mut told)?,
        };
        let initramfs = initramfs::prepare(self.agent, &kernel, modules, self.cache)?;
        for path in [&kernel.vmlinuz, &kernel.image, &initramfs] {
            self.note(path);
        }
        let both = (kernel, initramfs);
        self.kernels.insert(key, both.clone());
        Ok(both)
    }
}
