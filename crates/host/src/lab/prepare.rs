//! Preparation before the first change to the machine: images are unpacked and kernels downloaded into
//! the cache, where they serve the next deployment even if this one fails.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use latlab_model::kinds::NodeKind;
use latlab_model::plan::{NodePlan, Plan};

use super::error::Error;
use super::machine::agent;
use super::options::{Options, Step};
use crate::dirs::Dirs;
use crate::images::{self, Cache, Image, RootView, Search};
use crate::nodes::vm::kernel::{self, Kernel};

pub(super) struct Prepared {
    pub agent: PathBuf,
    /// The directory that binds are relative to.
    base: PathBuf,
    /// By node; none for those that are no more than a namespace.
    pub nodes: Vec<Option<Made>>,
    /// For what of the machine's own files nodes may not see.
    search: Option<Search>,
}

pub(super) enum Made {
    Container(RootView),
    Vm { root: RootView, kernel: Kernel },
}

impl Prepared {
    pub fn new(
        dirs: &Dirs,
        plan: &Plan,
        base: &Path,
        options: &Options<'_>,
    ) -> Result<Prepared, Error> {
        let cache = Cache::new(dirs.cache().join("images"));
        let mut views: BTreeMap<&str, RootView> = BTreeMap::new();
        let mut kernels: BTreeMap<&str, Kernel> = BTreeMap::new();
        let mut nodes = Vec::new();
        let mut search = None;
        for node in &plan.nodes {
            if !matches!(node.kind, NodeKind::Container | NodeKind::Vm) {
                nodes.push(None);
                continue;
            }
            let failed = |source| Error::Image {
                node: node.name.clone(),
                source,
            };
            let view = match views.get(node.image.as_str()) {
                Some(view) => view.clone(),
                None => {
                    let image = Image::find(&node.image, base).map_err(failed)?;
                    if image == Image::Host {
                        search = Some(Search::begin());
                    }
                    let view = images::open(&image, &cache).map_err(failed)?;
                    views.insert(&node.image, view.clone());
                    view
                }
            };
            let view = view.hiding(&node.hide).map_err(failed)?;
            nodes.push(Some(match node.kind {
                NodeKind::Container => Made::Container(view),
                _ => {
                    let kernel = match kernels.get(node.kernel.as_str()) {
                        Some(kernel) => kernel.clone(),
                        None => {
                            let found = find_kernel(node, dirs, options)?;
                            kernels.insert(&node.kernel, found.clone());
                            found
                        }
                    };
                    Made::Vm { root: view, kernel }
                }
            }));
        }
        let base = fs::canonicalize(base).unwrap_or_else(|_| base.to_path_buf());
        Ok(Prepared {
            agent: agent()?,
            base,
            nodes,
            search,
        })
    }

    /// Waits for the search of the machine, and hides what it found from its nodes.
    pub fn hide(&mut self) {
        let Some(search) = self.search.take() else {
            return;
        };
        let found = search.end();
        for made in self.nodes.iter_mut().flatten() {
            let (Made::Container(root) | Made::Vm { root, .. }) = made;
            if root.of_host {
                *root = root.clone().also_hiding(&found);
            }
        }
    }

    /// The images of containers.
    pub fn containers(&self) -> impl Iterator<Item = &RootView> {
        self.nodes.iter().filter_map(|made| match made {
            Some(Made::Container(root)) => Some(root),
            _ => None,
        })
    }

    /// A node's binds with their sources made absolute.
    pub fn binds(&self, node: &NodePlan) -> Vec<latlab_model::kinds::Bind> {
        let absolute = |bind: &latlab_model::kinds::Bind| {
            let mut bind = bind.clone();
            bind.source = self.base.join(&bind.source).display().to_string();
            bind
        };
        node.binds.iter().map(absolute).collect()
    }
}

/// Finds a VM's kernel, downloading it the first time.
fn find_kernel(node: &NodePlan, dirs: &Dirs, options: &Options<'_>) -> Result<Kernel, Error> {
    let mut told = |progress: kernel::Progress| {
        if let Some(show) = options.progress {
            let text = match &progress {
                kernel::Progress::Downloading { package, .. } => format!("downloading {package}"),
                kernel::Progress::Unpacking { package } => format!("unpacking {package}"),
                kernel::Progress::Extracting { path } => format!("extracting {}", path.display()),
            };
            show(&Step::Preparing(&text));
        }
    };
    kernel::resolve(&node.kernel, &dirs.cache().join("kernels"), &mut told).map_err(|e| {
        Error::Node {
            node: node.name.clone(),
            source: Box::new(e.into()),
        }
    })
}
