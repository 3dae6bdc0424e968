//! Copies of a VM that runs: other VMs of its lab go on as it, with names and addresses of their own.

use std::fs;

use super::deployed::Lab;
use super::error::Error;
use super::options::Step;
use crate::nodes::Stood;
use crate::sys::process::Process;
use crate::sys::tree;

/// Begins the name of a directory in which a VM is saved for its copies; the process that copies ends it. No node has
/// such a name.
const COPIED: &str = ".copied-";

impl Lab {
    /// Makes each of `copies` a copy of a VM, with its memory, processes and files; what runs of them ends. The VM goes
    /// on. Returns when it stood still for that, where that is known. A copy that fails leaves those before it.
    pub fn copy(
        &self,
        node: &str,
        copies: &[String],
        progress: &dyn Fn(&Step<'_>),
    ) -> Result<Option<Stood>, Error> {
        self.check_copies(node, copies)?;
        self.drop_copied();
        let into = self.place_to_keep(&format!("{COPIED}{node}-{}", std::process::id()))?;
        progress(&Step::Preparing(&format!("saving node `{node}`")));
        let stood = self.snapshot(node, &into, false, progress)?;
        let copied = copies.iter().try_for_each(|copy| {
            progress(&Step::Preparing(&format!("starting node `{copy}`")));
            self.restore(copy, &into, progress)
        });
        // A directory that stays goes with the next copy, or the lab.
        let _ = tree::remove(&into);
        copied.map(|()| stood)
    }

    /// Removes what is left of copies that were cut off by the end of their latlab.
    pub(super) fn drop_copied(&self) {
        let kept = fs::read_dir(self.dirs.kept(&self.state.lab));
        for entry in kept.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let of_copy = name.strip_prefix(COPIED);
            let pid = of_copy.and_then(|name| name.rsplit_once('-')?.1.parse().ok());
            // This process has the number of one that has ended.
            if pid.is_some_and(|pid| pid == std::process::id() || has_ended(pid)) {
                let _ = tree::remove(&entry.path());
            }
        }
    }

    fn check_copies(&self, node: &str, copies: &[String]) -> Result<(), Error> {
        let (_, plan) = self.node(node)?;
        for (index, copy) in copies.iter().enumerate() {
            let (_, other) = self.node(copy)?;
            let is_guest = plan.kind().is_guest() && other.kind().is_guest();
            let reason = match copy == node || copies[..index].contains(copy) {
                true => "a node is named twice",
                false if !is_guest => "only VMs can be copied, and become copies",
                false => {
                    self.check_nothing_begun(copy)?;
                    continue;
                }
            };
            let (node, copy) = (node.to_owned(), copy.clone());
            return Err(Error::NoCopy { node, copy, reason });
        }
        Ok(())
    }
}

fn has_ended(pid: u32) -> bool {
    match Process::of_pid(pid) {
        Ok(Some(process)) => process.has_ended().unwrap_or(false),
        Ok(None) => true,
        Err(_) => false,
    }
}
