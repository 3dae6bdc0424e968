//! `passthrough`: whole ports of cards of the host, each driven by a VM (VFIO). What joins them is outside of the machine.
//!
//! The port's device goes from its driver to `vfio-pci` and back. With its own driver it gets an interface anew, under a name
//! of the kernel's or udev's; [`Port`] is what the interface and its driver were like. The guest's driver finds the card
//! with the address that its hardware has, and the agent gives it the lab's.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use latlab_model::kinds::Mac;
use latlab_model::plan::{Medium, Plan};
use latlab_netlink::{Handle, Link, LinkChange, MacAddress};
use serde::{Deserialize, Serialize};

use super::{function, phys, sriov};
use crate::links::builder::LinkBuilder;
use crate::links::error::Error;
use crate::links::vm_end::{Card, NicBackend, VmEnd};
use crate::sys::sriov::Device;
use crate::sys::vfio::Driven;

/// How long a driver may take to make an interface of a port.
const INTERFACE_TIMEOUT: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(10);

/// A port of the host as it was before a VM got it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    pub interface: String,
    pub node: String,
    /// Its device on the bus, such as `0000:03:00.0`.
    pub device: String,
    pub driver: String,
    /// The text of its `driver_override`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_override: Option<String>,
    pub mac: Mac,
    pub mtu: u32,
    pub up: bool,
    pub alias: Option<String>,
}

pub(super) fn make(link: &LinkBuilder<'_>, interfaces: &[String]) -> Result<Vec<VmEnd>, Error> {
    let mut root = Handle::open_in(link.network.root.as_fd()).map_err(link.refused())?;
    let mut ends = Vec::new();
    for (end, name) in link.ends().zip(interfaces) {
        let found = root.link(name).map_err(link.refused())?;
        let device = sriov::card(&link.plan().name, name)?;
        let group = function::given(link, name, &device)?;
        let own_mac = found.and_then(|found| found.own_mac.or(found.mac));
        ends.push(link.end(end).vm_end(NicBackend::Card(Card {
            address: device.address,
            group,
            own_mac: own_mac.map(|mac| mac.0),
        })));
    }
    Ok(ends)
}

/// The ports that a plan gives to VMs, as they are now. Fails for one that cannot be given.
pub(crate) fn ports(plan: &Plan) -> Result<Vec<Port>, Error> {
    let mut ports = Vec::new();
    for link in &plan.links {
        let Medium::Passthrough { interfaces } = &link.medium else {
            continue;
        };
        for (end, name) in link.endpoints.iter().zip(interfaces) {
            let device = sriov::card(&link.name, name)?;
            let refused = |reason: String, hint| Error::NotGiven {
                link: link.name.clone(),
                interface: name.clone(),
                reason,
                hint,
            };
            function::check(&link.name, name, &device)?;
            if device.functions() > 0 {
                let reason = "it is divided into virtual functions".to_owned();
                return Err(refused(reason, "write 0 to its sriov_numvfs in sysfs"));
            }
            if device.interfaces() > 1 {
                let reason = format!("its device {} has other ports as well", device.address);
                return Err(refused(reason, "use `type: phys`"));
            }
            let driven = device.driven();
            let Some(driver) = driven.driver else {
                return Err(refused("it has no driver".to_owned(), "use `type: phys`"));
            };
            let found = phys::found(link, name)?;
            ports.push(Port {
                interface: found.name,
                node: plan.nodes[end.node].name.clone(),
                device: device.address,
                driver,
                driver_override: driven.forced,
                mac: Mac(found.mac.unwrap_or(MacAddress([0; 6])).0),
                mtu: found.mtu_bytes,
                up: found.up,
                alias: found.alias,
            });
        }
    }
    Ok(ports)
}

impl Port {
    /// Gives it back to its driver, and its interface what it had. False when the device is gone, or its driver makes no
    /// interface of it in time.
    pub(crate) fn give_back(&self) -> Result<bool, Error> {
        let device = Device {
            address: self.device.clone(),
        };
        if !device.exists() {
            return Ok(false);
        }
        device.take_from_vfio(&Driven {
            driver: Some(self.driver.clone()),
            forced: self.driver_override.clone(),
        })?;
        let deadline = Instant::now() + INTERFACE_TIMEOUT;
        loop {
            if self.restored(&device)? {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Whether its interface is there; if so, it is as it was.
    fn restored(&self, device: &Device) -> Result<bool, Error> {
        let failed = |source| Error::Return {
            interface: self.interface.clone(),
            source,
        };
        let mut here = Handle::open().map_err(failed)?;
        let links = here.links().map_err(failed)?;
        let is_its = |link: &&Link| link.device.as_ref() == Some(&device.address);
        let Some(link) = links.iter().find(is_its) else {
            return Ok(false);
        };
        // An interface that is up takes no new name, not even its own.
        let mut change = match link.name == self.interface {
            true => LinkChange::of_index(link.index),
            false => LinkChange::rename(link.index, &self.interface),
        };
        if link.mac != Some(MacAddress(self.mac.0)) {
            change = change.mac(MacAddress(self.mac.0));
        }
        let alias = self.alias.as_deref().unwrap_or_default();
        let change = change.alias(alias).mtu(self.mtu).up(self.up);
        match here.apply(&change.request()) {
            Err(error) if error.is_not_found() => Ok(false),
            other => other.map(|()| true).map_err(failed),
        }
    }
}
