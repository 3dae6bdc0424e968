//! Threads whose name a knob may believe. Any user may give a process any name (prctl(2), PR_SET_NAME), and knobs
//! select threads by name for real-time priority, lockable memory, or a SIGSTOP.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::task::Task;
use crate::cgroup::{PARTITION, TOP};
use crate::tuning::root::Root;

impl Task {
    /// Whether it is a thread of the kernel, of a lab's node on the host, or of root in this PID namespace (a
    /// container has its own) running a program that only root may write.
    pub fn is_trusted(&self, root: &Root) -> bool {
        if self.is_kernel() {
            return true;
        }
        let status = root.read(format!("/proc/{}/status", self.tid));
        let status = status.unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        // One number for each namespace from this one inwards (proc_pid_status(5)).
        let here = field("NSpid:").is_none_or(|ids| ids.split_whitespace().count() == 1);
        let uids = field("Uid:").unwrap_or_default();
        let mut uids = uids.split_whitespace();
        let all_ours = uids.clone().count() == 4 && uids.all(|uid| uid.parse().is_ok_and(is_ours));
        here && ((all_ours && self.runs_ours(root)) || self.is_of_a_lab(root))
    }

    fn runs_ours(&self, root: &Root) -> bool {
        let program = fs::metadata(root.path(format!("/proc/{}/exe", self.tid)));
        program.is_ok_and(|file| is_ours(file.uid()) && file.mode() & 0o022 == 0)
    }

    /// Only root may move a thread into such a cgroup.
    fn is_of_a_lab(&self, root: &Root) -> bool {
        let groups = root.read(format!("/proc/{}/cgroup", self.tid));
        let groups = groups.unwrap_or_default();
        let mut paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        paths.any(|path| {
            let first = path.split('/').nth(1).unwrap_or_default();
            [TOP, PARTITION].contains(&first) && path.split('/').count() > 2
        })
    }
}

/// The UID of root or of the caller: without root's rights a plan shows the intended changes.
fn is_ours(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}
