//! Containers on this machine, with crun and with runc.
//!
//! Needs root. Each test runs in mount, process and network namespaces of its own, with everything
//! of the node in a directory that is removed; of the machine it touches only control groups named
//! `latlab/test-<pid>/`, which it removes too. Traffic there is none.

mod namespaces;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use latlab_host::cgroup::{Cgroups, Limits, NodeCgroup};
use latlab_host::images::{Cache, Image, RootView, prepare};
use latlab_host::nodes::container::{self, Container, ContainerConfig, Running};
use latlab_host::nodes::session::{Command, Exit, Session};
use latlab_host::sys::process::Process;
use latlab_model::spec::{Bind, Runtime};
use latlab_model::units::CpuList;
use rustix::mount::UnmountFlags;

const RUNTIMES: [Runtime; 2] = [Runtime::Crun, Runtime::Runc];

/// A node with its surroundings; everything is gone when it is dropped.
struct Node {
    scratch: PathBuf,
    config: ContainerConfig,
    cgroup: NodeCgroup,
    running: Option<Running>,
}

impl Node {
    fn new(runtime: Runtime, limits: &Limits) -> Self {
        let name = format!("{runtime:?}").to_lowercase();
        let scratch = std::env::temp_dir().join(format!("latlab-test-{}-{name}", namespaces::id()));
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir_all(&scratch).unwrap();
        let netns = scratch.join("netns");
        namespaces::pin_network(&netns);
        let lab = format!("test-{}", namespaces::id());
        let cgroups = Cgroups::discover().unwrap();
        let cgroup = cgroups.create(&lab, &name, limits).unwrap();
        let config = ContainerConfig {
            name: name.clone(),
            lab_id: lab,
            runtime,
            root: prepare(&Image::Host, &Cache::new(scratch.join("cache"))).unwrap(),
            netns,
            dir: scratch.join("node"),
            agent: namespaces::agent(),
            binds: Vec::new(),
            env: BTreeMap::new(),
        };
        Self {
            scratch,
            config,
            cgroup,
            running: None,
        }
    }

    fn start(&mut self) -> Container {
        let running = container::start(&self.config, &self.cgroup).unwrap();
        self.running = Some(running);
        Container {
            lab_id: self.config.lab_id.clone(),
            dir: self.config.dir.clone(),
            process: running.process,
            cgroup: self.cgroup.clone(),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let deleted = container::delete(&self.config.dir, &self.cgroup);
        rustix::mount::unmount(&self.config.netns, UnmountFlags::DETACH).unwrap();
        fs::remove_dir_all(&self.scratch).unwrap();
        if !std::thread::panicking() {
            deleted.unwrap();
        }
    }
}

/// Runs a line of shell to its end.
fn shell(container: &Container, line: &str) -> (Exit, String) {
    let mut session = container
        .start(&Command::shell(&format!("{{ {line}; }} 2>&1")))
        .unwrap();
    drop(session.take_stdin());
    let mut text = String::new();
    session
        .take_stdout()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    (session.wait().unwrap(), text.trim_end().to_owned())
}

#[test]
fn a_container_runs_commands() {
    namespaces::enter("a_container_runs_commands", || {
        for runtime in RUNTIMES {
            let mut node = Node::new(runtime, &Limits::default());
            let c = node.start();
            let (exit, text) = shell(
                &c,
                "hostname; cat /proc/1/cmdline | tr '\\0' ' '; echo; ls /; id; cat /proc/self/cgroup; cat /proc/self/mountinfo; grep Cap /proc/self/status; ls -la /dev /run /sys/fs/cgroup; ps ax",
            );
            println!("{exit}\n{text}");
            assert_eq!(exit, Exit::Code(0));
        }
    });
}
