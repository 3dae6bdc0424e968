//! The host as a lab sees it.

use crate::nodes::driver::{Driver, Node};
use crate::nodes::native;
use crate::nodes::session::{Command, Error, Session};

pub(in crate::nodes) struct Host;

impl Driver for Host {
    fn exec(&self, node: &Node<'_>, command: &Command) -> Result<Box<dyn Session>, Error> {
        Ok(Box::new(native::exec(node, None, command)?))
    }
}
