//! `sriov`: every end is a virtual function of a card of the host. The card, or a switch outside, joins them.
//!
//! A card has either no functions when a lab comes, or the lab is refused: their number cannot be changed while there are some.
//! So the way back is one write: all functions vanish, wherever their interfaces are and whatever became of them.
//!
//! A function's address and VLAN are set at the physical function, where its user cannot change them. Drivers of functions
//! read the address when they are bound, so they are bound again afterwards. A function that a VM or a program drives itself
//! is bound to `vfio-pci` instead, which goes with the function.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use latlab_model::kinds::FunctionSettings;
use latlab_model::plan::{InterfacePlan, LinkPlan, Medium, Plan};
use latlab_model::units::BitsPerSecond;
use latlab_netlink::{Handle, LinkChange, MacAddress, VirtualFunction};
use serde::{Deserialize, Serialize};

use super::{function, phys};
use crate::links::builder::{End, LinkBuilder};
use crate::links::error::Error;
use crate::links::vm_end::{Card, NicBackend, VmEnd};
use crate::sys::ethtool;
use crate::sys::sriov::Device;

/// How long a driver may take to make an interface of a function.
const INTERFACE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a card that was set up may take to find its wire.
const CARRIER_TIMEOUT: Duration = Duration::from_secs(10);
const INTERFACE_RETRY: Duration = Duration::from_millis(10);

/// A card that is divided for a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Divided {
    pub interface: String,
    /// Its device on the bus, such as `0000:03:00.0`.
    pub device: String,
    /// Whether its interface was up before.
    pub up: bool,
}

pub(super) fn make(
    link: &LinkBuilder<'_>,
    interfaces: &[String],
    settings: &FunctionSettings,
) -> Result<Vec<VmEnd>, Error> {
    let mut root = Handle::open_in(link.network.root.as_fd()).map_err(link.refused())?;
    let mut taps = Vec::new();
    for (end, interface) in link.ends().zip(interfaces) {
        let end = link.end(end);
        let card = card(&link.plan().name, interface)?;
        if card.functions() == 0 {
            let count = wanted(link.plan, interface);
            card.set_functions(count).map_err(link.failed())?;
            // Its functions get no frames while it is down.
            let up = LinkChange::of(interface).up(true);
            root.apply(&up.request()).map_err(link.refused())?;
        }
        let number = number(link.plan, link.index, end.number, interface);
        let function = VirtualFunction {
            number,
            mac: MacAddress(end.interface.mac.0),
            vlan: settings.vlan.unwrap_or(0),
            spoof_check: settings.spoof_check,
            trust: settings.trust,
        };
        let change = LinkChange::of(interface).function(function);
        root.apply(&change.request())
            .map_err(unsettled(link, interface, number))?;
        if let Some(rate) = settings.max_tx_rate {
            set_rate(link, &mut root, interface, (number, rate))?;
        }
        let function = card.function(number).map_err(link.failed())?;
        if is_given_whole(link, &end) {
            let group = function::given(link, interface, &function)?;
            // A program finds it by itself.
            if end.is_vm() {
                taps.push(end.vm_end(NicBackend::Card(Card {
                    address: function.address,
                    group,
                    own_mac: None,
                })));
            }
            continue;
        }
        let index = bound(link, &mut root, interface, &function)?;
        if let Some(count) = settings.queues {
            set_queues(link, &function, count)?;
        }
        taps.extend(phys::give(link, &mut root, index, &end)?);
    }
    Ok(taps)
}

/// Whether a VM or a program drives the function itself.
fn is_given_whole(link: &LinkBuilder<'_>, end: &End<'_>) -> bool {
    match end.is_vm() {
        true => link.plan().medium.is_driven_by_vms(),
        false => end.node.is_past_kernel(&end.interface.name),
    }
}

/// The function that a program of a node drives itself, while the lab is up.
pub(super) fn card_of(plan: &Plan, interface: &InterfacePlan) -> Option<Card> {
    let card = functions_of(&plan.links[interface.link]).get(interface.endpoint)?;
    let number = number(plan, interface.link, interface.endpoint, card);
    let function = Device::of_interface(card)?.function(number).ok()?;
    Some(Card {
        group: function.group()?,
        address: function.address,
        own_mac: None,
    })
}

/// Sets the number of pairs of queues of a function. Their largest number is its driver's, which tells it for an interface only.
fn set_queues(link: &LinkBuilder<'_>, function: &Device, count: u32) -> Result<(), Error> {
    let interface = function.interface().unwrap_or_default();
    let set = link.network.root.run(|| {
        let (now, _) = ethtool::queues(&interface)?;
        match now == count {
            true => Ok(()),
            false => ethtool::set_queues(&interface, count),
        }
    })?;
    set.map_err(|source| Error::Undivided {
        link: link.plan().name.clone(),
        interface,
        reason: format!("its driver refuses {count} queues: {source}"),
        hint: "`ethtool -l` says how many there can be; leave `queues` out for drivers that set none",
    })
}

/// Limits what a function sends, once its card has carrier: a driver compares the rate with that of the wire.
fn set_rate(
    link: &LinkBuilder<'_>,
    root: &mut Handle,
    interface: &str,
    (number, rate): (u32, BitsPerSecond),
) -> Result<(), Error> {
    let deadline = Instant::now() + CARRIER_TIMEOUT;
    let has_carrier = |root: &mut Handle| {
        let found = root.link(interface).map_err(link.refused())?;
        Ok::<_, Error>(found.is_some_and(|found| found.carrier))
    };
    while !has_carrier(root)? && Instant::now() < deadline {
        std::thread::sleep(INTERFACE_RETRY);
    }
    let megabits = u32::try_from(rate.0 / 1_000_000).unwrap_or(u32::MAX);
    let change = LinkChange::of(interface).function_rate(number, megabits);
    root.apply(&change.request())
        .map_err(unsettled(link, interface, number))
}

/// The error of a card that does not take the settings of a function.
fn unsettled(
    link: &LinkBuilder<'_>,
    interface: &str,
    number: u32,
) -> impl FnOnce(latlab_netlink::Error) -> Error {
    let (link, interface) = (link.plan().name.clone(), interface.to_owned());
    move |source| Error::Undivided {
        link,
        interface,
        reason: format!("its driver refuses the settings of function {number}: {source}"),
        hint: "not every card has `spoof_check`, `trust` and `max_tx_rate`, which is at most the speed of its wire",
    }
}

/// Binds a function to its driver again and waits for its interface: the index.
fn bound(
    link: &LinkBuilder<'_>,
    root: &mut Handle,
    interface: &str,
    function: &Device,
) -> Result<u32, Error> {
    let deadline = Instant::now() + INTERFACE_TIMEOUT;
    let mut is_bound = false;
    loop {
        is_bound = is_bound || function.bind_again().map_err(link.failed())?;
        // Its name may change between the two questions.
        let name = function.interface().filter(|_| is_bound);
        let found = name.map(|name| root.link(&name)).transpose();
        if let Some(found) = found.map_err(link.refused())?.flatten() {
            return Ok(found.index);
        }
        if Instant::now() >= deadline {
            let reason = match is_bound {
                true => "its driver makes no interface",
                false => "it has no driver",
            };
            return Err(Error::Undivided {
                link: link.plan().name.clone(),
                interface: interface.to_owned(),
                reason: format!("function {}: {reason}", function.address),
                hint: "load the driver of its virtual functions, for example `modprobe igbvf`",
            });
        }
        std::thread::sleep(INTERFACE_RETRY);
    }
}

/// Keeps the interrupts of functions on the CPUs of the nodes that have them, where their packets are read. An interrupt is
/// there once its interface was up, and goes with the function.
pub(in crate::links) fn keep_interrupts(plan: &Plan) {
    for (index, link) in plan.links.iter().enumerate() {
        for (end, card) in functions_of(link).iter().enumerate() {
            let node = &plan.nodes[link.endpoints[end].node];
            let number = number(plan, index, end, card);
            let function = Device::of_interface(card).and_then(|card| card.function(number).ok());
            if let (Some(cpus), Some(function)) = (&node.cpuset, function) {
                function.keep_interrupts(cpus);
            }
        }
    }
}

/// The cards that a plan divides, as they are now. Fails for one that cannot be divided so.
pub(crate) fn divided(plan: &Plan) -> Result<Vec<Divided>, Error> {
    let mut divided: Vec<Divided> = Vec::new();
    for link in &plan.links {
        for interface in functions_of(link) {
            if divided.iter().any(|known| known.interface == *interface) {
                continue;
            }
            let card = card(&link.name, interface)?;
            let refused = |reason, hint| Error::Undivided {
                link: link.name.clone(),
                interface: interface.clone(),
                reason,
                hint,
            };
            let (most, wanted) = (card.max_functions(), wanted(plan, interface));
            if wanted > most {
                let reason =
                    format!("it can have {most} virtual functions, and the lab wants {wanted}");
                let hint = "use another card, or enable SR-IOV in the firmware";
                return Err(refused(reason, hint));
            }
            let there = card.functions();
            if there > 0 {
                let reason = format!("it is divided already ({there})");
                let hint = "they may be others'; if not, write 0 to its sriov_numvfs in sysfs";
                return Err(refused(reason, hint));
            }
            let found = Handle::open().and_then(|mut handle| handle.link(interface));
            divided.push(Divided {
                interface: interface.clone(),
                device: card.address,
                up: found
                    .map_err(Error::of_link(link))?
                    .is_some_and(|found| found.up),
            });
        }
    }
    Ok(divided)
}

impl Divided {
    /// Removes the functions, with the interfaces that they are; the card is as it was.
    pub(crate) fn unite(&self) -> Result<(), Error> {
        let card = Device {
            address: self.device.clone(),
        };
        // First, because the functions' driver waits for a card that is down.
        if card.functions() > 0 {
            // The kernel waits without end for a program that has one.
            for number in 0..card.functions() {
                if let Ok(function) = card.function(number) {
                    function.wait_until_released()?;
                }
            }
            card.set_functions(0)?;
        }
        if self.up {
            return Ok(());
        }
        let down = LinkChange::of(&self.interface).up(false);
        let downed = Handle::open().and_then(|mut handle| handle.apply(&down.request()));
        match downed {
            Err(source) if !source.is_not_found() => Err(Error::Return {
                interface: self.interface.clone(),
                source,
            }),
            _ => Ok(()),
        }
    }
}

pub(super) fn card(link: &str, interface: &str) -> Result<Device, Error> {
    Device::of_interface(interface).ok_or_else(|| Error::Undivided {
        link: link.to_owned(),
        interface: interface.to_owned(),
        reason: "there is no device of the PCI bus behind it".into(),
        hint: "`latlab doctor` lists the network cards",
    })
}

fn functions_of(link: &LinkPlan) -> &[String] {
    match &link.medium {
        Medium::Sriov { interfaces, .. } => interfaces,
        _ => &[],
    }
}

/// How many functions of a card a plan wants.
fn wanted(plan: &Plan, interface: &str) -> u32 {
    let all = plan.links.iter().flat_map(functions_of);
    all.filter(|name| *name == interface).count() as u32
}

/// Which function of its card an end has: they are counted over all links.
fn number(plan: &Plan, link: usize, end: usize, interface: &str) -> u32 {
    let before = plan.links[..link].iter().flat_map(functions_of);
    let own = functions_of(&plan.links[link])[..end].iter();
    before.chain(own).filter(|name| *name == interface).count() as u32
}
