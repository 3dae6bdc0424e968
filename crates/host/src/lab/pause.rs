//! Nodes that stand still for a while. A file in the lab's directory says which; it is there before a node stops and
//! until it goes on again, so a latlab that is killed leaves none that stands still unseen.

use std::fs;
use std::path::PathBuf;

use super::deployed::Lab;
use super::error::Error;
use crate::nodes::{Node, driver_of};
use crate::sys::{self, file};

impl Lab {
    /// Stops a node where it is: a guest's CPUs, or all processes of a node on the host. One that stands still already
    /// stays so. Fails when the lab has no such node, or it is the host itself.
    pub fn pause(&self, node: &str) -> Result<(), Error> {
        let _shared = self.share()?;
        // A latlab that held the lab meanwhile may have given the node another process.
        self.look_again()?;
        let running = self.to_stop(node)?;
        let note = self.note(node);
        let noted = fs::create_dir_all(self.dirs.paused(&self.state.lab))
            .and_then(|()| fs::write(&note, ""));
        noted.map_err(sys::Error::of("create", note.display()))?;
        let paused = driver_of(&running.plan.body).pause(&running);
        paused.map_err(|source| {
            // The node goes on; a note that stays costs a `resume`.
            let _ = fs::remove_file(&note);
            self.unusable(node, source)
        })
    }

    /// Lets a node go on. One that does not stand still is left alone. One of which a move, a snapshot or a restore was
    /// cut off by the end of its latlab goes on where it can: returns where, in words. Fails when it has ended.
    pub fn resume(&self, node: &str) -> Result<Option<String>, Error> {
        self.node(node)?;
        if self.begun(node)?.is_some() {
            let _alone = self.claim_alone()?;
            // Another latlab may have come to its end meanwhile.
            if let Some(begun) = self.begun(node)? {
                return self.mend(node, &begun).map(Some);
            }
        }
        let _shared = self.share()?;
        self.look_again()?;
        let running = self.to_stop(node)?;
        let resumed = driver_of(&running.plan.body).resume(&running);
        resumed.map_err(|source| self.unusable(node, source))?;
        self.forget_pause(node)?;
        Ok(None)
    }

    pub(super) fn forget_pause(&self, node: &str) -> Result<(), Error> {
        let note = self.note(node);
        Ok(file::remove(&note).map_err(sys::Error::of("remove", note.display()))?)
    }

    /// Refuses to work with a node that would not answer.
    pub(super) fn check_goes_on(&self, node: &str) -> Result<(), Error> {
        self.check_whole(node)?;
        self.check_not_paused(node)
    }

    pub(super) fn check_not_paused(&self, node: &str) -> Result<(), Error> {
        if self.note(node).exists() {
            let (lab, node) = (self.state.lab.clone(), node.to_owned());
            return Err(Error::Paused { lab, node });
        }
        Ok(())
    }

    fn note(&self, node: &str) -> PathBuf {
        self.dirs.paused(&self.state.lab).join(node)
    }

    /// The node with its cgroup, which a native one gets with its first command or pause. Fails when it has ended.
    pub(super) fn to_stop(&self, node: &str) -> Result<Node<'_>, Error> {
        self.check_whole(node)?;
        let (_, plan) = self.node(node)?;
        if plan.kind().is_host() {
            return Err(Error::HostStays(node.to_owned()));
        }
        let running = self.with_group(node)?;
        if !plan.kind().is_guest() {
            let health = driver_of(&running.plan.body).health(&running);
            health.map_err(|source| self.unusable(node, source))?;
        }
        Ok(running)
    }
}
