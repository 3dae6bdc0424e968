//! The links of a lab, made one after the other.

use latlab_model::plan::{Medium, Plan};

use super::builder::LinkBuilder;
use super::error::Error;
use super::network::Network;
use super::vm_end::VmEnd;
use super::{bridge, configure, macvlan, nat, overlay, veth, vxlan};

impl Network {
    /// Makes every link, configures the nodes' interfaces and waits until they are ready. Returns
    /// the network side of every virtual machine's interface.
    pub fn connect(&self, plan: &Plan) -> Result<Vec<VmEnd>, Error> {
        let mut taps = Vec::new();
        for index in 0..plan.links.len() {
            let link = LinkBuilder {
                network: self,
                plan,
                index,
            };
            let made = match &link.plan().medium {
                Medium::Veth => veth::make(&link),
                Medium::Bridge => bridge::make(&link),
                Medium::Nat(nat) => nat::make(&link, nat),
                Medium::Macvlan { parent } => macvlan::make(&link, parent.as_deref()),
                Medium::Vxlan(vxlan) => vxlan::make(&link, vxlan),
                Medium::Overlay(overlay) => overlay::make(&link, overlay),
            };
            taps.extend(made?);
        }
        configure::configure(self, plan)?;
        configure::wait_for_nodes(self, plan)?;
        configure::switch_on(self, plan)?;
        Ok(taps)
    }
}
