//! A test tree of the kernel's files, and the plan of a knob on it.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use latlab_model::profile::{Cores, Profile};
use latlab_model::units::CpuList;

use crate::tuning::plan::{Change, Target, plan};
use crate::tuning::root::Root;

/// `/proc/PID/status` of a process of root.
pub const ROOT: &str = "Uid:\t0\t0\t0\t0\n";

/// A tree below a temporary directory, removed with it. Four CPUs, of which 2 and 3 are
/// isolated.
pub struct Tree {
    dir: PathBuf,
}

impl Tree {
    /// With these files.
    pub fn new(files: &[(&str, &str)]) -> Tree {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("latlab-tree-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        let tree = Tree { dir };
        for (path, text) in files {
            let path = tree.root().path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        tree
    }

    pub fn root(&self) -> Root {
        Root::at(&self.dir)
    }

    pub fn change(&self, knob: &str, wanted: &str) -> Change {
        let list = |text| CpuList::parse(text).unwrap();
        let cores = Cores::new(&list("0-3"), &list("2-3")).unwrap();
        let mut profile = Profile::empty();
        profile.cores = latlab_model::profile::Isolation::Isolated;
        profile.want(knob, wanted).unwrap();
        plan(&profile, &cores, &self.root()).unwrap().remove(0)
    }

    /// The knob's targets: items, current values, wanted values.
    pub fn plan(&self, knob: &str, wanted: &str) -> Vec<(String, String, String)> {
        let change = self.change(knob, wanted);
        assert_eq!(change.absent, None);
        let text = |target: &Target| {
            (
                target.item.to_string(),
                target.current.to_string(),
                target.wanted.to_string(),
            )
        };
        change.targets.iter().map(text).collect()
    }

    /// As [`Tree::plan`], of a knob with one item.
    #[track_caller]
    pub fn turns(&self, knob: &str, wanted: &str, path: &str, from: &str, to: &str) {
        let text = |s: &str| s.to_string();
        assert_eq!(
            self.plan(knob, wanted),
            [(text(path), text(from), text(to))]
        );
    }

    /// Why a tree without files does not have the knob.
    #[track_caller]
    pub fn lacks(knob: &str, wanted: &str, reason: &str) {
        let absent = Tree::new(&[]).change(knob, wanted).absent;
        let absent = absent.expect("it must be absent");
        assert!(absent.contains(reason), "{absent}");
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.dir).ok();
    }
}
