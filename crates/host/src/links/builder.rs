//! One link while it is made.

use latlab_model::plan::{EndpointPlan, InterfacePlan, LinkPlan, NodePlan, Plan};

use super::error::Error;
use super::namespaces::{inside_name, tunnel_name};
use super::network::Network;
use super::vm_end::{NicBackend, VmEnd};
use crate::sys;
use crate::sys::netns::NetNs;

#[derive(Debug, Clone, Copy)]
pub(super) struct LinkBuilder<'a> {
    pub(super) network: &'a Network,
    pub(super) plan: &'a Plan,
    pub(super) index: usize,
}

impl<'a> LinkBuilder<'a> {
    pub(super) fn plan(&self) -> &'a LinkPlan {
        &self.plan.links[self.index]
    }

    pub(super) fn ends(&self) -> std::ops::Range<usize> {
        0..self.plan().endpoints.len()
    }

    pub(super) fn end(&self, end: usize) -> End<'a> {
        let (node, interface) = self.plan.end(self.index, end);
        End {
            plan: &self.plan().endpoints[end],
            number: end,
            node,
            interface,
        }
    }

    /// The namespace in which the interface of an end is made; none for one that is moved to the root namespace later.
    pub(super) fn home(&self, end: &End<'_>) -> Result<Option<NetNs>, Error> {
        let home = (!end.is_host()).then(|| self.network.open_node(end.node));
        home.transpose()
    }

    pub(super) fn inside(&self) -> Result<NetNs, Error> {
        self.network.open(&inside_name(self.plan()))
    }

    pub(super) fn tunnel(&self, end: usize) -> Result<NetNs, Error> {
        self.network.open(&tunnel_name(self.plan(), end))
    }

    /// For `map_err`: names the link.
    pub(super) fn refused(&self) -> impl Fn(latlab_netlink::Error) -> Error + use<'a> {
        Error::of_link(self.plan())
    }

    /// For `map_err`: names the link.
    pub(super) fn failed(&self) -> impl Fn(sys::Error) -> Error + use<'a> {
        let link = &self.plan().name;
        move |source| Error::Sys {
            link: link.clone(),
            source,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) plan: &'a EndpointPlan,
    pub(super) number: usize,
    pub(super) node: &'a NodePlan,
    pub(super) interface: &'a InterfacePlan,
}

impl End<'_> {
    pub(super) fn is_vm(&self) -> bool {
        self.node.kind().is_guest()
    }

    /// Rings in memory of its own take the place of an interface.
    pub(super) fn has_rings(&self) -> bool {
        self.is_vm() || self.node.is_past_kernel(&self.interface.name)
    }

    pub(super) fn is_host(&self) -> bool {
        self.node.kind().is_host()
    }

    pub(super) fn vm_end(&self, backend: NicBackend) -> VmEnd {
        VmEnd {
            node: self.plan.node,
            interface: self.plan.interface,
            backend,
        }
    }
}
