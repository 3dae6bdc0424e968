//! What is got ready before the first change to the machine: images unpacked and kernels downloaded,
//! all of it in the cache, where it is of use the next time whatever becomes of this deployment.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use latlab_model::plan::{NodePlan, Plan};
use latlab_model::spec::NodeKind;

use super::deploy::{Options, Step};
use super::{Error, agent};
use crate::dirs::Dirs;
use crate::images::{self, Cache, Image, RootView};
use crate::nodes::vm::kernel::{self, Kernel};

/// What a lab is made from.
pub(super) struct Prepared {
    /// The agent's binary.
    pub agent: PathBuf,
    /// What binds are relative to.
    base: PathBuf,
    /// By node; none for those that are no more than a namespace.
    pub nodes: Vec<Option<Made>>,
}

/// What a node starts from.
pub(super) enum Made {
    Container(RootView),
    Vm { root: RootView, kernel: Kernel },
}

impl Prepared {
    /// Gets everything ready.
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
                    let view = images::prepare(&image, &cache).map_err(failed)?;
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
        })
    }

    /// A node's binds with their sources made absolute.
    pub fn binds(&self, node: &NodePlan) -> Vec<latlab_model::spec::Bind> {
        let absolute = |bind: &latlab_model::spec::Bind| {
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
            source: e.into(),
        }
    })
}
