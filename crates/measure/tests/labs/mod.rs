//! Whole labs, deployed in private namespaces.

// Each program that includes this module uses a part of it.
#![allow(dead_code)]

use std::path::PathBuf;

use latlab_host::dirs::Dirs;
use latlab_host::facts::{self, ReadOptions};
use latlab_host::lab::{self, Lab};
use latlab_model::facts::Facts;
use latlab_model::plan::plan;
use latlab_model::spec;

use crate::namespaces;

/// A directory for one test's labs, removed with it.
pub struct Scratch {
    pub root: PathBuf,
    pub dirs: Dirs,
}

impl Scratch {
    pub fn new() -> Scratch {
        let root = std::env::temp_dir().join(format!("latlab-measure-{}", namespaces::id()));
        std::fs::create_dir_all(&root).unwrap();
        let dirs = Dirs::below(&root);
        Scratch { root, dirs }
    }

    /// Deploys a lab. Its name is unique, because cgroups carry it.
    pub fn deploy(&self, topology: &str) -> Lab {
        let name = format!("test-{}", namespaces::id());
        let text = format!("name: {name}\ntopology:\n{topology}");
        let lab = spec::Lab::parse(&text).unwrap_or_else(|e| panic!("{}", e.render("lab")));
        let facts = facts_for(&lab, &self.dirs);
        let plan = plan(&lab, &facts).unwrap_or_else(|e| panic!("{}", e.render("lab")));
        Lab::deploy(&self.dirs, &plan, &lab::Options::default()).unwrap()
    }
}

impl Drop for Scratch {
    /// After a failure too: cgroups would outlive the namespaces.
    fn drop(&mut self) {
        for name in lab::list(&self.dirs).unwrap_or_default() {
            lab::destroy(&self.dirs, &name).ok();
        }
        std::fs::remove_dir_all(&self.root).ok();
    }
}

/// Facts of the machine that this lab needs.
pub fn facts_for(lab: &spec::Lab, dirs: &Dirs) -> Facts {
    facts::read(&ReadOptions {
        dirs: dirs.clone(),
        ..ReadOptions::for_lab(lab, lab::cpus_in_use(dirs))
    })
}
