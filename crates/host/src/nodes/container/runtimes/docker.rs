//! Docker: a daemon of the node's own, with a containerd of its own, in directories that only they see.
//!
//! The agent starts them, because Docker has no words for a prepared root (`agent/docker`). They stay beside the
//! container, in its cgroup. Elsewhere they would load an AppArmor profile, raise limits of the kernel's, make
//! `/opt/containerd` and keys in `/etc/docker`, and meet the containerd of the machine: none of that can be reached.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use super::launch::{Input, Launch};
use super::launcher::{Launcher, cover_cgroups};
use super::world;
use crate::cgroup::NodeCgroup;
use crate::nodes::container::error::Error;
use crate::nodes::container::handle::ContainerConfig;
use crate::programs;
use crate::sys::mount;

/// All that the daemons keep, in the runtime's own `/run`.
const HOME: &str = "/run/docker";

/// The name under which the agent is the daemon's runtime.
const RUNTIME: &str = "docker-runtime";

/// Settings of the whole machine.
const SETTINGS: &str = "/proc/sys";

/// Security modules, for which the daemon would load a profile of its own.
const MODULES: &str = "/sys/kernel/security";

pub(super) struct Docker;

impl Launcher for Docker {
    fn launch(&self, input: &Input<'_>) -> Result<Launch, Error> {
        let home = Path::new(HOME);
        let write = |name: &str, json: &serde_json::Value| {
            let file = home.join(name);
            let written = fs::write(&file, json.to_string());
            written.map_err(Error::io("write", &file)).map(|()| file)
        };
        let socket = home.join("socket");
        let daemon = write("daemon.json", &daemon(&socket))?;
        let document = write("container.json", &input.document.without_files())?;
        let runtime = home.join(RUNTIME);
        symlink(&input.config.agent, &runtime).map_err(Error::io("make", &runtime))?;
        let arguments: [OsString; 5] = [
            "docker".into(),
            daemon.into(),
            socket.into(),
            document.into(),
            input.descriptors.to_string().into(),
        ];
        let mut launch = Launch::new(&input.config.agent, arguments.into());
        launch.environment = vec![("PATH", programs::path()), ("TMPDIR", HOME.into())];
        Ok(launch)
    }

    fn narrow(&self, config: &ContainerConfig, cgroup: &NodeCgroup) -> Result<(), Error> {
        world::keep_apart(&config.dir)?;
        fs::create_dir(HOME).map_err(Error::io("make", Path::new(HOME)))?;
        // The node's directory stays writable below a root that is not.
        mount::bind(&config.dir, &config.dir, true)?;
        mount::forbid_writing(Path::new("/"))?;
        mount::bind(Path::new(SETTINGS), Path::new(SETTINGS), true)?;
        mount::forbid_writing(Path::new(SETTINGS))?;
        if Path::new(MODULES).is_dir() {
            mount::tmpfs(Path::new(MODULES), 4096)?;
        }
        cover_cgroups(cgroup)
    }
}

/// The daemon's configuration.
fn daemon(socket: &Path) -> serde_json::Value {
    let home = Path::new(HOME);
    json!({
        "hosts": [format!("unix://{}", socket.display())],
        "data-root": home.join("data"),
        "exec-root": home.join("exec"),
        "pidfile": home.join("pid"),
        "storage-driver": "vfs",
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "bridge": "none",
        "iptables": false,
        "ip6tables": false,
        "ip-forward": false,
        "ip-masq": false,
        "userland-proxy": false,
        "default-runtime": "latlab",
        "runtimes": {"latlab": {"path": home.join(RUNTIME)}},
        // Its last words are the reason of a failure.
        "log-level": "error",
    })
}
