//! How long a container takes to be ready, and a command in it to run, beside what the runtime
//! alone takes for the same configuration. Alternating, medians and quartiles, nothing asserted.
//!
//! ```text
//! cargo build --release -p latlab-agent
//! cargo run --release -p latlab-host --example container_latency -- target/release/latlab-agent
//! ```
//!
//! Needs root. Runs in mount and process namespaces of its own; of the machine it touches
//! cgroups named `latlab/bench-<pid>/` only, and removes them.

#[path = "../tests/containers/mod.rs"]
mod containers;
#[path = "../tests/namespaces/mod.rs"]
mod namespaces;

use std::error::Error;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use latlab_host::cgroup::{Cgroups, Limits, NodeCgroup};
use latlab_host::images::{Cache, Image, prepare};
use latlab_host::nodes::container::{self, Container, ContainerConfig};
use latlab_host::nodes::session::{self, Session};
use latlab_host::sys::{self, inside, mount};
use latlab_model::kinds::Runtime;

const ROUNDS: usize = 20;

/// A memory limit, since that is the usual one. (A CPU quota on version 1 would keep real-time
/// programs out, and running this as one is how it is kept apart from a busy machine.)
const LIMITS: Limits = Limits {
    partition: false,
    cpus: None,
    cpuset: None,
    memory_nodes: None,
    memory_bytes: Some(256 << 20),
    pids: None,
    devices: None,
    huge_pages: None,
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let agent = fs::canonicalize(std::env::args_os().nth(1).ok_or("usage: ... AGENT")?)?;
    if !namespaces::reenter(&agent)? {
        return Ok(());
    }
    for runtime in [Runtime::Crun, Runtime::Runc] {
        let bench = Bench::new(runtime, &agent)?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(bench.start()?);
            theirs.push(bench.runtime_run()?);
        }
        print(runtime, "start", &ours, &theirs);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let (container, cgroup) = bench.up()?;
        for _ in 0..ROUNDS {
            ours.push(exec(&container)?);
            theirs.push(bench.runtime_exec(&container)?);
        }
        print(runtime, "exec", &ours, &theirs);
        containers::delete(&bench.config.dir, &cgroup)?;
    }
    Ok(())
}

fn print(runtime: Runtime, what: &str, ours: &[Duration], theirs: &[Duration]) {
    let quartiles = |times: &[Duration]| -> [f64; 3] {
        let mut ms: Vec<f64> = times.iter().map(|t| t.as_secs_f64() * 1e3).collect();
        ms.sort_by(f64::total_cmp);
        [ms[ms.len() / 4], ms[ms.len() / 2], ms[ms.len() * 3 / 4]]
    };
    let ([a, b, c], [d, e, f]) = (quartiles(ours), quartiles(theirs));
    println!(
        "{runtime} {what}: latlab {b:.2} ms [{a:.2}..{c:.2}], runtime {e:.2} ms [{d:.2}..{f:.2}], \
         ratio {:.2}, n={}",
        b / e,
        ours.len()
    );
}

struct Bench {
    scratch: PathBuf,
    name: String,
    config: ContainerConfig,
    cgroups: Cgroups,
}

impl Bench {
    fn new(runtime: Runtime, agent: &Path) -> Result<Self> {
        let name = runtime.to_string();
        let scratch = std::env::temp_dir().join(format!("latlab-bench-{name}"));
        fs::create_dir_all(&scratch)?;
        namespaces::pin_network(&scratch.join("netns"));
        let lab_id = format!("bench-{}", namespaces::id());
        let root = prepare(&Image::Host, &Cache::new(scratch.join("cache")))?;
        let mut config = containers::config(runtime, &scratch, lab_id, root);
        config.agent = agent.to_owned();
        Ok(Self {
            scratch,
            name,
            config,
            cgroups: Cgroups::discover()?,
        })
    }

    fn up(&self) -> Result<(Container, NodeCgroup)> {
        let cgroup = self
            .cgroups
            .create(&self.config.lab_id, &self.name, &LIMITS)?;
        let running = container::start(&self.config, &cgroup)?;
        let container = containers::running_container(&self.config, running, cgroup.clone());
        Ok((container, cgroup))
    }

    /// Cgroup, root, runtime, first process: until it runs.
    fn start(&self) -> Result<Duration> {
        let started = Instant::now();
        let (_, cgroup) = self.up()?;
        let taken = started.elapsed();
        containers::delete(&self.config.dir, &cgroup)?;
        Ok(taken)
    }

    /// The runtime's own `run` of `/bin/true` with the same configuration, on a root mounted before.
    fn runtime_run(&self) -> Result<Duration> {
        let (_, cgroup) = self.up()?;
        let bundle = self.scratch.join("bundle");
        fs::create_dir_all(&bundle)?;
        let json = fs::read_to_string(self.config.dir.join("bundle/config.json"))?;
        let mut json: serde_json::Value = serde_json::from_str(&json)?;
        json["process"]["args"] = serde_json::json!(["/bin/true"]);
        fs::write(bundle.join("config.json"), serde_json::to_vec(&json)?)?;
        let dir = &self.config.dir;
        cgroup.kill_all()?;
        let taken = inside::with_own_mounts(&dir.join("host"), || {
            let layer = dir.join("layer/0");
            let rootfs = dir.join("rootfs");
            mount::overlay(
                &[Path::new("/")],
                &layer.join("upper"),
                &layer.join("work"),
                &rootfs,
            )?;
            inside::cover_cgroups(Path::new("/sys/fs/cgroup"), cgroup.unified())?;
            let mut command = Command::new(&self.name);
            command.arg("--root").arg(self.scratch.join("state"));
            command.arg(match self.config.runtime {
                Runtime::Crun => "--cgroup-manager=disabled",
                _ => "--rootless=true",
            });
            command.args(["run", "--bundle"]).arg(&bundle).arg("bench");
            let started = Instant::now();
            let status = command.stdin(Stdio::null()).status();
            let taken = started.elapsed();
            let status = status.map_err(|e| failed(e.to_string()))?;
            if status.success() {
                Ok(taken)
            } else {
                Err(failed(status.to_string()))
            }
        })?;
        containers::delete(dir, &cgroup)?;
        Ok(taken)
    }

    /// The runtime's own `exec` of `/bin/true`.
    fn runtime_exec(&self, container: &Container) -> Result<Duration> {
        let taken = inside::with_own_mounts(&container.dir.join("host"), || {
            inside::cover_cgroups(Path::new("/sys/fs/cgroup"), container.cgroup.unified())?;
            let mut command = Command::new(&self.name);
            command.arg("--root").arg(container.dir.join("runtime"));
            if self.config.runtime == Runtime::Crun {
                command.arg("--cgroup-manager=disabled");
            } else {
                command.arg("--rootless=true");
            }
            command.args(["exec", "node", "/bin/true"]);
            let started = Instant::now();
            let status = command.stdin(Stdio::null()).status();
            let taken = started.elapsed();
            let status = status.map_err(|e| failed(e.to_string()))?;
            if status.success() {
                Ok(taken)
            } else {
                Err(failed(status.to_string()))
            }
        })?;
        Ok(taken)
    }
}

impl Drop for Bench {
    /// After an error too: cgroups would outlive the namespaces.
    fn drop(&mut self) {
        let dirs = self.cgroups.dirs(&self.config.lab_id, &self.name, &LIMITS);
        let group = dirs.and_then(NodeCgroup::from_dirs);
        let deleted = group.map(|group| containers::delete(&self.config.dir, &group));
        let unpinned =
            rustix::mount::unmount(&self.config.netns, rustix::mount::UnmountFlags::DETACH);
        let removed = fs::remove_dir_all(&self.scratch);
        if !matches!(
            (&deleted, &unpinned, &removed),
            (Ok(Ok(())), Ok(()), Ok(()))
        ) {
            eprintln!("not all was removed: {deleted:?} {unpinned:?} {removed:?}");
        }
    }
}

fn failed(message: String) -> sys::Error {
    sys::Error {
        action: "run",
        object: "the runtime".to_owned(),
        source: std::io::Error::other(message),
    }
}

fn exec(container: &Container) -> Result<Duration> {
    let started = Instant::now();
    let mut session = container.start(&session::Command::new(["/bin/true"]))?;
    let mut output = Vec::new();
    session
        .take_stdout()
        .ok_or("no output")?
        .read_to_end(&mut output)?;
    let exit = session.wait()?;
    let taken = started.elapsed();
    if exit.success() {
        Ok(taken)
    } else {
        Err(format!("/bin/true: {exit}").into())
    }
}
