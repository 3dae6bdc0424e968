//! Native nodes as a lab sees them.

use super::exec::{detach, exec};
use crate::nodes::driver::{Driver, Node};
use crate::nodes::session::{Command, Detached, Error, Session};

pub(in crate::nodes) struct Native;

impl Driver for Native {
    fn exec(&self, node: &Node<'_>, command: &Command) -> Result<Box<dyn Session>, Error> {
        Ok(Box::new(exec(node, Some(&node.netns), command)?))
    }

    fn detach(&self, node: &Node<'_>, command: &Command) -> Result<Detached, Error> {
        detach(node, &node.netns, command)
    }
}
