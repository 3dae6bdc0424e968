//! A state directory on a disk, for labs whose nodes have storage: those of other tests are in memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use latlab_host::sys::loop_device;
use latlab_samples::RunDir;

use super::{Bench, Said, finish, namespaces};

pub struct Place {
    state: PathBuf,
}

impl Place {
    pub fn new() -> Place {
        let state = PathBuf::from(format!("/var/tmp/latlab-storage-{}", namespaces::id()));
        fs::create_dir_all(&state).unwrap();
        Place { state }
    }

    pub fn command(&self, bench: &Bench, args: &[&str]) -> Command {
        let mut command = bench.command(args);
        command.env("LATLAB_STATE_DIR", &self.state);
        command
    }

    pub fn latlab(&self, bench: &Bench, args: &[&str]) -> Said {
        finish(&mut self.command(bench, args))
    }

    /// Deploys what `content` describes; returns the lab's name.
    #[track_caller]
    pub fn deploy(&self, bench: &Bench, lab: &str, content: &str) -> String {
        let file = bench.file(lab, content);
        self.latlab(bench, &["deploy", &file]).good();
        bench.name(lab)
    }

    #[track_caller]
    pub fn destroy(&self, bench: &Bench, lab: &str) {
        self.latlab(bench, &["destroy", lab]).good();
        assert!(!self.state.join("labs").join(lab).exists());
        assert_eq!(self.loops().len(), 0);
    }

    /// A line for the shell in a node.
    pub fn exec(&self, bench: &Bench, lab: &str, node: &str, line: &str) -> Said {
        self.latlab(bench, &["exec", lab, node, "--", "sh", "-c", line])
    }

    /// Runs a study; its run directory.
    #[track_caller]
    pub fn run(&self, bench: &Bench, name: &str, text: &str) -> RunDir {
        let file = bench.file(name, text);
        let runs = bench.root().join(format!("runs-{name}"));
        let said = self.latlab(bench, &["run", &file, "--runs", runs.to_str().unwrap()]);
        let made = fs::read_dir(&runs).unwrap().next();
        let said = said.good();
        assert!(!said.err.contains("failed"), "{said:#?}");
        RunDir::open(made.unwrap().unwrap().path()).unwrap()
    }

    /// The directory of a node's storage.
    pub fn storage(&self, lab: &str, node: &str) -> PathBuf {
        self.state.join("labs").join(lab).join("storage").join(node)
    }

    /// Loop devices with images of its labs.
    pub fn loops(&self) -> Vec<PathBuf> {
        loop_device::below(&self.state).unwrap()
    }

    #[track_caller]
    pub fn assert_empty(&self) {
        let labs = fs::read_dir(self.state.join("labs"));
        let left: Vec<_> = labs.into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(self.loops(), Vec::<PathBuf>::new());
        let state: &Path = &self.state;
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(&*state.to_string_lossy()), "{mounts}");
    }
}

/// A test that failed leaves its labs to this.
impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut destroy = Command::new(env!("CARGO_BIN_EXE_latlab"));
            destroy.args(["destroy", "--all", "-y"]);
            destroy.env("LATLAB_STATE_DIR", &self.state);
            let run = format!("/tmp/latlab-cli-{}/run", namespaces::id());
            eprintln!("{:?}", destroy.env("LATLAB_RUN_DIR", run).output());
        }
        fs::remove_dir_all(&self.state).ok();
    }
}
