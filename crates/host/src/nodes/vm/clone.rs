//! Starts a guest as a clone: QEMU reads the state of a template's devices and goes on with its memory, then the agent
//! makes it a guest of its own (name, hardware addresses, random numbers, time of day, root).
//!
//! Clones share the template's memory: one copy of the file serves all of a deployment, sealed, and each keeps what it
//! writes. Where another process maps the guest's memory (vhost-user), each has a copy of its own.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use latlab_wire::channel::Identity;
use rustix::pipe::PipeFlags;
use serde_json::json;

use super::channel::Channel;
use super::error::Error;
use super::guest::Vm;
use super::qemu::{Origin, STATE_FD, VmConfig};
use super::renewal;
use super::template::{self, Templates};
use crate::sys;
use crate::sys::cgroup_entry::CgroupEntry;

/// Starts a guest that is told at once who it is. `timeout` bounds each of the boot of its template, the load and the
/// mount of its root.
pub(super) fn start(
    config: &VmConfig<'_>,
    cgroup: Option<&CgroupEntry>,
    templates: &Templates,
    timeout: Duration,
) -> Result<(Vm, Channel), Error> {
    let identity = identity(config)?;
    let (vm, channel) = load(config, cgroup, templates, timeout)?;
    let told = channel.identify(identity, timeout);
    told.map_err(|error| vm.end_because(error.into()))?;
    Ok((vm, channel))
}

/// Starts a guest from its template, which is made first where there is none, and returns when its agent answers. It
/// has no root yet.
pub fn load(
    config: &VmConfig<'_>,
    cgroup: Option<&CgroupEntry>,
    templates: &Templates,
    timeout: Duration,
) -> Result<(Vm, Channel), Error> {
    let template = templates.of(config, cgroup, timeout)?;
    let memory = templates.memory(&template, config.is_mapped())?;
    let state = filled_pipe(&template.state()?)?;
    let config = VmConfig {
        origin: Origin::Clone {
            memory: memory.as_fd(),
            state: state.as_fd(),
        },
        ..config.clone()
    };
    let vm = Vm::start(&config, cgroup)?;
    let channel = load_state(&vm, timeout).map_err(|error| vm.end_because(error))?;
    Ok((vm, channel))
}

fn load_state(vm: &Vm, timeout: Duration) -> Result<Channel, Error> {
    let mut qmp = vm.qmp_within(timeout)?;
    template::leave_memory_out(&mut qmp)?;
    let source = json!({"uri": format!("fd:{STATE_FD}")});
    qmp.execute("migrate-incoming", &source)?;
    drop(qmp);
    vm.channel(timeout)
}

fn identity(config: &VmConfig<'_>) -> Result<Identity, Error> {
    let cards = config.nics.iter().enumerate();
    Ok(Identity {
        parameters: config.agent_parameters(),
        macs: cards
            .map(|(index, nic)| (template::mac(index), nic.mac))
            .collect(),
        renewal: renewal::draw(&config.name)?,
    })
}

/// A pipe that holds all of `bytes`, so that no thread has to write while QEMU reads. Root may make it that large.
fn filled_pipe(bytes: &[u8]) -> Result<OwnedFd, Error> {
    let failed = |errno| sys::Error::of("make", "the pipe of a clone's state")(errno);
    let (output, input) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    // A page that is not full takes a whole one.
    rustix::pipe::fcntl_setpipe_size(&input, bytes.len() + (64 << 10)).map_err(failed)?;
    File::from(input)
        .write_all(bytes)
        .map_err(sys::Error::of("fill", "the pipe of a clone's state"))?;
    Ok(output)
}
