//! One container with all that it needs around it, gone when it is dropped.

// Each program that includes this module uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use latlab_host::cgroup::{Cgroups, Limits, NodeCgroup};
use latlab_host::images::{Cache, Image, RootView, prepare};
use latlab_host::nodes::container::{self, Container, ContainerConfig, Running};
use latlab_host::nodes::session::{Command, Exit, Session};
use latlab_host::programs;
use latlab_host::sys::mount;
use latlab_host::sys::process::{self, Process};
use latlab_model::kinds::{Bind, Runtime, Security};

use crate::namespaces;

/// The runtimes that are installed here; those that are not are named.
pub fn runtimes() -> Vec<Runtime> {
    let is_here = |runtime: &Runtime| {
        let mut programs = runtime.programs().iter();
        let missing = programs.find(|program| programs::find(program).is_none());
        if let Some(program) = missing {
            eprintln!("{runtime} skipped: `{program}` is not installed");
        }
        missing.is_none()
    };
    let all: Vec<Runtime> = Runtime::ALL.iter().copied().filter(is_here).collect();
    assert!(all.contains(&Runtime::Crun), "crun is what most labs use");
    all
}

/// A node with its surroundings.
pub struct Node {
    pub scratch: PathBuf,
    pub config: ContainerConfig,
    pub cgroup: NodeCgroup,
}

impl Node {
    /// A node that has not been started, on the machine's own root.
    pub fn new(runtime: Runtime, limits: &Limits) -> Self {
        let cache = Cache::new(scratch(runtime).join("cache"));
        Self::with_root(runtime, limits, prepare(&Image::Host, &cache).unwrap())
    }

    pub fn with_root(runtime: Runtime, limits: &Limits, root: RootView) -> Self {
        let scratch = scratch(runtime);
        fs::create_dir_all(&scratch).unwrap();
        namespaces::pin_network(&scratch.join("netns"));
        let lab_id = format!("test-{}", namespaces::id());
        let cgroups = Cgroups::discover().unwrap();
        let name = runtime.to_string();
        let cgroup = cgroups.create(&lab_id, &name, limits).unwrap();
        let config = config(runtime, &scratch, lab_id, root);
        Self {
            scratch,
            config,
            cgroup,
        }
    }

    pub fn bind(&mut self, source: &Path, target: &str, read_only: bool) {
        self.config.binds.push(Bind {
            source: source.to_str().unwrap().to_owned(),
            target: target.to_owned(),
            read_only,
        });
    }

    pub fn start(&self) -> Container {
        self.container(container::start(&self.config, &self.cgroup).unwrap())
    }

    pub fn container(&self, running: Running) -> Container {
        running_container(&self.config, running, self.cgroup.clone())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let deleted = delete(&self.config.dir, &self.cgroup);
        let unpinned = mount::unmount_below(&self.scratch);
        let removed = fs::remove_dir_all(&self.scratch);
        if !std::thread::panicking() {
            deleted.unwrap();
            unpinned.unwrap();
            removed.unwrap();
        }
    }
}

pub fn scratch(runtime: Runtime) -> PathBuf {
    std::env::temp_dir().join(format!("latlab-test-{}-{runtime}", namespaces::id()))
}

/// A container without files, binds and rights of its own, below `scratch`.
pub fn config(runtime: Runtime, scratch: &Path, lab_id: String, root: RootView) -> ContainerConfig {
    ContainerConfig {
        name: format!("{runtime}-node"),
        lab_id,
        runtime,
        root,
        covers: None,
        netns: scratch.join("netns"),
        dir: scratch.join("node"),
        hosts: String::new(),
        agent: namespaces::agent(),
        storage: Vec::new(),
        huge_pages: None,
        binds: Vec::new(),
        env: BTreeMap::new(),
        security: Security::default(),
    }
}

pub fn running_container(
    config: &ContainerConfig,
    running: Running,
    cgroup: NodeCgroup,
) -> Container {
    Container {
        lab_id: config.lab_id.clone(),
        dir: config.dir.clone(),
        agent: config.agent.clone(),
        process: running.process,
        cgroup,
    }
}

/// Runs a command to its end with `input`; its output and errors.
pub fn run(container: &Container, command: &Command, input: &[u8]) -> (Exit, String) {
    let mut session = container.start(command).unwrap();
    session.take_stdin().unwrap().write_all(input).unwrap();
    let mut text = String::new();
    let (mut stdout, mut stderr) = (
        session.take_stdout().unwrap(),
        session.take_stderr().unwrap(),
    );
    stdout.read_to_string(&mut text).unwrap();
    stderr.read_to_string(&mut text).unwrap();
    (session.wait().unwrap(), text.trim_end().to_owned())
}

/// Runs a line of shell that must succeed.
pub fn shell(container: &Container, line: &str) -> String {
    let (exit, text) = run(container, &Command::shell(line), b"");
    assert_eq!(exit, Exit::Code(0), "{line}: {text}");
    text
}

/// Ends a container as a lab does, but for SIGTERM, which only its first process is sent.
pub fn stop(container: &Container, grace: Duration) {
    if let Some(init) = Process::open(container.process).unwrap() {
        let left = process::stop(&[init], grace).unwrap();
        assert!(left.is_empty(), "{left:?} do not end");
    }
    container.cgroup.kill_all().unwrap();
}

/// Removes what a start made, whole or half, running or not; what is not there is removed already.
pub fn delete(dir: &Path, cgroup: &NodeCgroup) -> Result<(), Box<dyn Error + Send + Sync>> {
    cgroup.kill_all()?;
    cgroup.remove()?;
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e.into()),
        _ => Ok(()),
    }
}
