//! crun and runc: they read the whole configuration, start the first process and leave.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use latlab_model::kinds::Runtime;

use super::launch::{ID, Input, Launch, STATE};
use crate::nodes::container::error::Error;
use crate::nodes::container::handle::ContainerConfig;

pub(super) fn launch(input: &Input<'_>) -> Launch {
    let runtime = input.config.runtime;
    let mut arguments: Vec<OsString> = vec!["--root".into(), input.state().into()];
    arguments.push(match runtime {
        // runc has no such option; of a rootless container it accepts that groups are read-only.
        Runtime::Runc => "--rootless=true".into(),
        // The node's group is made, and the runtime is in it.
        _ => "--cgroup-manager=disabled".into(),
    });
    arguments.extend(["run", "--detach", "--preserve-fds"].map(OsString::from));
    arguments.extend([input.descriptors.to_string().into(), "--bundle".into()]);
    arguments.push(input.dir().join("bundle").into());
    arguments.extend([
        "--pid-file".into(),
        pid_file(input.config).into(),
        ID.into(),
    ]);
    Launch::new(runtime.word(), arguments)
}

fn pid_file(config: &ContainerConfig) -> PathBuf {
    config.dir.join(STATE).join("pid")
}

pub(super) fn pid(config: &ContainerConfig) -> Result<u32, Error> {
    let file = pid_file(config);
    let pid = fs::read_to_string(&file).map_err(Error::io("read", &file))?;
    pid.trim().parse().map_err(|_| Error::Runtime {
        runtime: config.runtime.to_string(),
        message: format!("`{}` is not a pid", pid.trim()),
    })
}
