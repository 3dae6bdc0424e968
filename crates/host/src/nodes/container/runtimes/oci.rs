//! crun and runc: they read the whole configuration, start the first process and leave.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use latlab_model::kinds::Runtime;

use super::launch::{ID, Input, Launch, STATE};
use super::launcher::{Launcher, cover_cgroups};
use crate::cgroup::NodeCgroup;
use crate::nodes::container::error::Error;
use crate::nodes::container::handle::ContainerConfig;
use crate::programs;
use crate::sys::sealed;

/// The first bytes of a program of machine code (elf(5)).
const ELF: [u8; 4] = *b"\x7fELF";

pub(super) struct Oci;

impl Launcher for Oci {
    fn launch(&self, input: &Input<'_>) -> Result<Launch, Error> {
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
        Ok(Launch {
            file: programs::find(runtime.word()).and_then(|path| sealed_copy(&path)),
            ..Launch::new(runtime.word(), arguments)
        })
    }

    fn narrow(&self, _config: &ContainerConfig, cgroup: &NodeCgroup) -> Result<(), Error> {
        cover_cgroups(cgroup)
    }

    fn first_process(&self, config: &ContainerConfig, _cgroup: &NodeCgroup) -> Result<u32, Error> {
        let file = pid_file(config);
        let pid = fs::read_to_string(&file).map_err(Error::io("read", &file))?;
        pid.trim().parse().map_err(|_| Error::Runtime {
            runtime: config.runtime.to_string(),
            message: format!("`{}` is not a pid", pid.trim()),
        })
    }
}

/// The runtime in a file that no container can write. Without one it would make such a file itself for each container, and
/// execute itself a second time (CVE-2019-5736).
fn sealed_copy(path: &Path) -> Option<Arc<File>> {
    let mut magic = [0; ELF.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    // The interpreter of a script could not open it: the file is closed by then.
    let is_elf = read.is_ok() && magic == ELF;
    is_elf.then(|| sealed::program(path).ok()).flatten()
}

fn pid_file(config: &ContainerConfig) -> PathBuf {
    config.dir.join(STATE).join("pid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_of_machine_code_are_executed_from_memory() {
        let script = std::env::temp_dir().join(format!("latlab-script-{}", std::process::id()));
        fs::write(&script, "#!/bin/sh\nexec crun \"$@\"\n").unwrap();
        assert!(sealed_copy(&script).is_none());
        fs::remove_file(&script).unwrap();
        assert!(sealed_copy(&script).is_none(), "it is gone");
        assert!(sealed_copy(Path::new("/bin/true")).is_some());
    }
}
