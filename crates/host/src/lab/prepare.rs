//! Preparation before the first change to the machine.

use std::path::{Path, PathBuf};

use latlab_model::plan::{NodePlan, Plan};

use super::deployed::Lab;
use super::error::Error;
use super::machine::agent;
use super::options::{Options, Step};
use super::taken::uses_of_cache;
use crate::cache::{self, InUse};
use crate::dirs::Dirs;
use crate::images::{RootView, Search};
use crate::nodes::session;
use crate::nodes::{self, Preparation, driver_of};

pub(super) struct Prepared {
    pub agent: PathBuf,
    /// By node; none for those that are no more than a namespace.
    pub nodes: Vec<Option<Box<dyn nodes::Prepared>>>,
    /// For what of the machine's own files nodes may not see.
    search: Option<Search>,
    /// Paths in the cache that the nodes use.
    pub cached: Vec<String>,
    /// Until the state names those, the lab is not known to use them.
    _in_use: InUse,
}

impl Prepared {
    pub fn new(
        dirs: &Dirs,
        plan: &Plan,
        base: &Path,
        options: &Options<'_>,
    ) -> Result<Prepared, Error> {
        let told = |text: &str| {
            if let Some(show) = options.progress {
                show(&Step::Preparing(text));
            }
        };
        let agent = agent()?;
        cache::keep_bounds(dirs.cache(), || uses_of_cache(dirs))?;
        let in_use = InUse::share(dirs.cache())?;
        let mut preparation = Preparation::new(base, dirs.cache(), &agent, &told);
        let nodes = plan.nodes.iter().map(|node| {
            let prepared = driver_of(&node.body).prepare(node, &mut preparation);
            let prepared = prepared.map_err(|source| failed(node, source))?;
            let checked = prepared.as_ref().map_or(Ok(()), |node| node.check());
            checked.map_err(|source| failed(node, source))?;
            Ok::<_, Error>(prepared)
        });
        let nodes = nodes.collect::<Result<_, _>>()?;
        let cached = preparation.cached();
        let search = preparation.search.take();
        drop(preparation);
        Ok(Prepared {
            agent,
            nodes,
            search,
            cached,
            _in_use: in_use,
        })
    }

    /// Waits for the search of the machine, and hides what it found from its nodes.
    pub fn hide(&mut self) {
        let Some(search) = self.search.take() else {
            return;
        };
        let found = search.end();
        let nodes = self.nodes.iter_mut().flatten();
        let roots = nodes.filter_map(|node| node.root());
        for root in roots.filter(|root| root.of_host) {
            *root = root.clone().also_hiding(&found);
        }
    }

    /// Images whose hidden paths a layer is to cover.
    pub fn covered(&self) -> impl Iterator<Item = &RootView> {
        let nodes = self.nodes.iter().flatten();
        nodes.filter_map(|node| node.covered())
    }
}

impl Lab {
    /// A node of a lab that is up, as it was prepared for its deployment.
    pub(super) fn prepare_again(
        &self,
        node: &NodePlan,
        progress: &dyn Fn(&Step<'_>),
    ) -> Result<Option<Box<dyn nodes::Prepared>>, Error> {
        let told = |text: &str| progress(&Step::Preparing(text));
        let file = self.state.file.as_deref().map(Path::new);
        let base = file.and_then(Path::parent).unwrap_or(Path::new("."));
        let _in_use = InUse::share(self.dirs.cache())?;
        let mut preparation = Preparation::new(base, self.dirs.cache(), &self.agent, &told);
        let prepared = driver_of(&node.body).prepare(node, &mut preparation);
        prepared.map_err(|source| failed(node, source))
    }
}

fn failed(node: &NodePlan, source: session::Error) -> Error {
    let node = node.name.clone();
    match source {
        session::Error::Image(source) => Error::Image { node, source },
        source => Error::Node {
            node,
            source: source.into(),
        },
    }
}
