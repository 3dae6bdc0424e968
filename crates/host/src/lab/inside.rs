//! The knobs inside a lab's tuned guests, shown and verified from outside.

use latlab_wire::channel::ExitStatus;
use serde_json::Value;

use super::deployed::Lab;
use super::error::Error;
use crate::nodes::vm::tuned;

impl Lab {
    /// Runs a verb of `latlab tune` inside a tuned guest: what it printed, and its exit code. Fails when the node is
    /// no such guest, or does not answer.
    pub fn tune_inside(&self, node: &str, arguments: &[&str]) -> Result<(Vec<u8>, i32), Error> {
        let (_, plan) = self.node(node)?;
        if self.plan().inside(plan).is_none() {
            return Err(Error::Tuning {
                profile: plan.tuning.clone().unwrap_or_else(|| "default".into()),
                reason: format!("node `{node}` has no knobs of its own: it is no tuned VM"),
                hint: "the host's knobs are shown without `--lab` and `--node`".into(),
            });
        }
        let failed = |source| self.unusable(node, source);
        let channel = self.running(node)?.channel().map_err(failed)?;
        let finished = tuned::run(&channel, arguments).map_err(failed)?;
        match finished.status {
            ExitStatus::Code(code) if code < 2 => Ok((finished.stdout, code.into())),
            _ => Err(failed(tuned::failure(&finished))),
        }
    }

    pub(super) fn drift_inside(&self) -> Result<usize, Error> {
        let mut drift = 0;
        for node in &self.plan().nodes {
            if self.plan().inside(node).is_some() {
                let (said, _) = self.tune_inside(&node.name, &["verify", "--format", "json"])?;
                let found: Value = serde_json::from_slice(&said).unwrap_or_default();
                drift += found["drift"].as_array().map_or(1, Vec::len);
            }
        }
        Ok(drift)
    }
}
