//! The kinds of nodes: the one place that lists them.

use latlab_model::plan::NodeBody;

use super::driver::Driver;
use super::{host, native};

/// The driver of a node's kind.
pub(crate) fn driver_of(body: &NodeBody) -> &dyn Driver {
    match body {
        NodeBody::Native => &native::Native,
        NodeBody::Container(container) => container,
        NodeBody::Vm(vm) => vm,
        NodeBody::Host => &host::Host,
    }
}
