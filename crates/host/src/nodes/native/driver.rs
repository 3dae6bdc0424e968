//! Native nodes as a lab sees them.

use latlab_model::plan::NodePlan;

use super::exec::{detach, exec};
use super::storage::PreparedStorage;
use crate::nodes::driver::{Driver, Node, Prepared};
use crate::nodes::preparation::Preparation;
use crate::nodes::session::{Command, Detached, Error, Session};

pub(in crate::nodes) struct Native;

impl Driver for Native {
    fn prepare(
        &self,
        node: &NodePlan,
        _preparation: &mut Preparation<'_>,
    ) -> Result<Option<Box<dyn Prepared>>, Error> {
        Ok(match node.storage.is_empty() && node.dpdk.is_none() {
            true => None,
            false => Some(Box::new(PreparedStorage)),
        })
    }

    fn exec(&self, node: &Node<'_>, command: &Command) -> Result<Box<dyn Session>, Error> {
        Ok(Box::new(exec(node, Some(&node.netns), command)?))
    }

    fn detach(&self, node: &Node<'_>, command: &Command) -> Result<Detached, Error> {
        detach(node, &node.netns, command)
    }
}
