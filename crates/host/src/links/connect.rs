//! The links of a lab, made one after the other.

use latlab_model::plan::Plan;

use super::builder::LinkBuilder;
use super::error::Error;
use super::network::Network;
use super::vm_end::VmEnd;
use super::{configure, kinds};

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
            taps.extend(kinds::make(&link)?);
        }
        configure::configure(self, plan)?;
        configure::wait_for_nodes(self, plan)?;
        configure::switch_on(self, plan)?;
        kinds::sriov::keep_interrupts(plan);
        Ok(taps)
    }
}
