//! Virtual machines as a lab sees them.

use std::path::Path;
use std::sync::Arc;

use latlab_model::kinds::{GuestRoot, GuestStart};
use latlab_model::plan::{NodePlan, VmPlan};
use latlab_model::snapshot::SavedAs;

use super::accelerator::Accelerator;
use super::channel::exec_of;
use super::clock::{self, ClockOffset};
use super::cpu;
use super::error;
use super::fingerprint;
use super::guest::Vm;
use super::initramfs::GuestModules;
use super::mend;
use super::snapshot;
use super::start::PreparedVm;
use super::template;
use crate::nodes::driver::{Driver, Node, Prepared, SCRATCH_INSIDE, Saved};
use crate::nodes::mend::{Act, Found};
use crate::nodes::preparation::Preparation;
use crate::nodes::session::{After, Command, Error, Session};

/// The agent's name for its own binary in a guest.
const AGENT_INSIDE: &str = "latlab-agent";

/// Its CPUs and memory are its guest's: the cgroup confines QEMU to CPUs and otherwise only counts.
impl Driver for VmPlan {
    fn prepare(
        &self,
        node: &NodePlan,
        preparation: &mut Preparation<'_>,
    ) -> Result<Option<Box<dyn Prepared>>, Error> {
        cpu::check(Accelerator::of(self.acceleration), &self.hardware)?;
        let modules = GuestModules::of(node, self.root_by);
        let root = preparation.root(&self.root)?;
        let (kernel, initramfs) = preparation.kernel(&self.kernel, &root, modules)?;
        if self.start == GuestStart::Clone {
            template::check(&kernel, self.root_by)?;
        }
        let disks = match self.root_by {
            GuestRoot::Share => None,
            GuestRoot::Disk => Some(preparation.disks(&root, &kernel)?),
        };
        Ok(Some(Box::new(PreparedVm {
            plan: self.clone(),
            root,
            disks,
            binds: preparation.binds(&self.root),
            kernel,
            initramfs,
            templates: Arc::clone(&preparation.templates),
            snapshot: match &self.start {
                GuestStart::Snapshot(path) => Some(preparation.absolute(path)),
                GuestStart::Boot | GuestStart::Clone => None,
            },
        })))
    }

    fn exec(&self, node: &Node<'_>, command: &Command) -> Result<Box<dyn Session>, Error> {
        let channel = node.channel()?;
        Ok(Box::new(channel.exec(exec_of(command))?))
    }

    fn agent(&self, _agent: &Path) -> String {
        AGENT_INSIDE.to_owned()
    }

    /// The guest's first process runs from files that its root has taken the place of.
    fn agent_file(&self, _agent: &Path) -> String {
        "/proc/1/exe".to_owned()
    }

    fn scratch(&self, _dir: &Path) -> String {
        SCRATCH_INSIDE.to_owned()
    }

    fn health(&self, node: &Node<'_>) -> Result<(), Error> {
        Ok(vm(node)?.health()?)
    }

    /// Its virtual CPUs stop, and its clock with them; QEMU goes on.
    fn pause(&self, node: &Node<'_>) -> Result<(), Error> {
        Ok(vm(node)?.pause()?)
    }

    fn snapshot(&self, node: &Node<'_>, into: &Path, after: After) -> Result<Saved, Error> {
        if after == After::Ends {
            let reason = "a VM's network cards would end with it: save it, then pause it";
            return Err(Error::Other(reason.into()));
        }
        let machine = fingerprint::noted(&node.dir)?.ok_or(error::Error::Shares)?;
        let stood = snapshot::save(&vm(node)?, self.is_emulated(), into)?;
        Ok(Saved {
            machine,
            files: vec![snapshot::STATE.to_owned()],
            stood,
        })
    }

    fn find(&self, node: &Node<'_>, act: Act, dir: &Path) -> Result<Option<Found>, Error> {
        mend::find(node, act, dir)
    }

    fn settle(
        &self,
        node: &Node<'_>,
        act: Act,
        found: Found,
        dir: &Path,
        saved: &SavedAs,
    ) -> Result<(), Error> {
        mend::settle(node, act, found, dir, saved)
    }

    fn resume(&self, node: &Node<'_>) -> Result<(), Error> {
        Ok(vm(node)?.resume()?)
    }

    fn clock(&self, node: &Node<'_>) -> Result<Option<ClockOffset>, Error> {
        let channel = node.channel()?;
        Ok(Some(clock::exchange(&vm(node)?.clock_page(), &channel)?))
    }
}

fn vm(node: &Node<'_>) -> Result<Vm, Error> {
    Ok(Vm::attach(&node.plan.name, &node.dir, node.process()?)?)
}
