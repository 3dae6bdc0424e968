//! Sets the guest's network up as the lab describes it, through netlink: names by hardware address,
//! MTU, addresses, links up, routes. No tool of the image takes part.

use std::fs;
use std::iter;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use latlab_netlink::{Address, Handle, Link, LinkChange, MacAddress, Route};
use latlab_wire::channel::NetworkConfig;
use latlab_wire::quiet::QUIET_IPV6;

use crate::files;

const HOSTS: &str = "/etc/hosts";
/// Settings of IPv6: a directory for each interface, one for those to come.
const IPV6_SETTINGS: &str = "/proc/sys/net/ipv6/conf";

/// How long an interface may take to appear after its driver was loaded.
const APPEAR: Duration = Duration::from_secs(5);
/// How long a link may take to have carrier after it was set up. A card of hardware agrees with its wire first.
const CARRIER: Duration = Duration::from_secs(20);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("set the guest's network up: {0}")]
    Netlink(#[from] latlab_netlink::Error),
    #[error("find the guest's interface with MAC {mac}: none after {} s; the guest has {have}", APPEAR.as_secs())]
    NoInterface { mac: String, have: String },
    #[error("wait for carrier on {name}: none after {} s", CARRIER.as_secs())]
    NoCarrier { name: String },
    #[error("write {HOSTS}: {0}")]
    Hosts(std::io::Error),
    /// A route names an interface the lab did not give this guest.
    #[error("add a route through {name}: the guest has no such interface")]
    UnknownInterface { name: String },
}

impl Error {
    /// The kernel's error number, or 0.
    pub fn errno(&self) -> u32 {
        match self {
            Self::Netlink(error) => error.errno().unwrap_or(0).unsigned_abs(),
            _ => 0,
        }
    }
}

/// As in the namespaces of native and container nodes: addresses are usable at once, without duplicate
/// address detection, and nothing is sent that the lab did not ask for.
///
/// A card copies the defaults when its driver makes it, and its own settings are what counts. So those of the cards that
/// are there already are written too; the defaults come first, for a card that appears meanwhile.
pub fn quiet_ipv6() {
    let default = PathBuf::from(IPV6_SETTINGS).join("default");
    // A kernel without IPv6 has no such files and nothing to quieten.
    let all = fs::read_dir(IPV6_SETTINGS).into_iter().flatten().flatten();
    for scope in iter::once(default).chain(all.map(|entry| entry.path())) {
        for (name, value) in QUIET_IPV6 {
            let _ = fs::write(scope.join(name), value);
        }
    }
}

/// Applies the whole configuration and returns once every link has carrier: addresses are then usable.
pub fn apply(config: &NetworkConfig) -> Result<(), Error> {
    let mut handle = Handle::open()?;
    let mut requests = vec![LinkChange::of("lo").up(true).request()];
    let indices = rename(&mut handle, config)?;
    for (interface, index) in config.interfaces.iter().zip(&indices) {
        let mut change = LinkChange::of_index(*index);
        if let Some(mtu_bytes) = interface.mtu {
            change = change.mtu(mtu_bytes);
        }
        requests.push(change.up(true).request());
        for (address, prefix_length) in &interface.addresses {
            let address = Address {
                interface: *index,
                address: *address,
                prefix_length: *prefix_length,
            };
            requests.push(address.add());
        }
    }
    handle.apply_all(&requests)?;
    wait_for_carrier(&mut handle, config, &indices)?;
    let mut routes = Vec::new();
    for route in &config.routes {
        let interface = route
            .interface
            .as_ref()
            .map(|name| {
                let at = config.interfaces.iter().position(|i| i.name == *name);
                at.map(|at| indices[at])
                    .ok_or_else(|| Error::UnknownInterface { name: name.clone() })
            })
            .transpose()?;
        let route = Route {
            destination: route.destination,
            via: route.gateway,
            interface,
        };
        routes.push(route.add());
    }
    handle.apply_all(&routes)?;
    match &config.hosts {
        Some(hosts) => files::write(HOSTS, &mut hosts.as_bytes()).map_err(Error::Hosts),
        None => Ok(()),
    }
}

/// Takes all addresses from the interfaces with these hardware addresses, and sets them down. The kernel removes their
/// routes and neighbours with that.
pub fn clear(macs: &[[u8; 6]]) -> Result<(), latlab_netlink::Error> {
    let mut handle = Handle::open()?;
    let links = handle.links()?.into_iter();
    let ours = links.filter(|link| link.mac.is_some_and(|mac| macs.contains(&mac.0)));
    let indices: Vec<u32> = ours.map(|link| link.index).collect();
    let addresses = handle.addresses()?.into_iter().map(|known| known.address);
    let theirs = addresses.filter(|address| indices.contains(&address.interface));
    let mut requests: Vec<_> = theirs.map(|address| address.remove()).collect();
    let down = indices.iter().map(|index| LinkChange::of_index(*index));
    requests.extend(down.map(|change| change.up(false).request()));
    handle.apply_all(&requests)
}

/// Gives each interface the lab's name and returns their indices. The kernel's own names may be the
/// lab's names of other interfaces (its eth0 may have to become eth1), so all move out of the way first.
fn rename(handle: &mut Handle, config: &NetworkConfig) -> Result<Vec<u32>, Error> {
    let mut indices = Vec::new();
    for interface in &config.interfaces {
        let mac = interface.own_mac.unwrap_or(interface.mac);
        indices.push(find(handle, MacAddress(mac))?.index);
    }
    let aside: Vec<_> = indices
        .iter()
        .zip(&config.interfaces)
        .map(|(index, interface)| {
            let aside = LinkChange::rename(*index, &format!("latlab{index}")).up(false);
            match interface.own_mac {
                Some(_) => aside.mac(MacAddress(interface.mac)).request(),
                None => aside.request(),
            }
        })
        .collect();
    let home: Vec<_> = indices
        .iter()
        .zip(&config.interfaces)
        .map(|(index, interface)| LinkChange::rename(*index, &interface.name).request())
        .collect();
    handle.apply_all(&aside)?;
    handle.apply_all(&home)?;
    Ok(indices)
}

fn find(handle: &mut Handle, mac: MacAddress) -> Result<Link, Error> {
    let deadline = Instant::now() + APPEAR;
    loop {
        let links = handle.links()?;
        let have = links
            .iter()
            .map(|link| link.name.clone())
            .collect::<Vec<_>>()
            .join(", ");
        if let Some(link) = links.into_iter().find(|link| link.mac == Some(mac)) {
            return Ok(link);
        }
        if Instant::now() > deadline {
            return Err(Error::NoInterface {
                mac: mac.to_string(),
                have,
            });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn wait_for_carrier(
    handle: &mut Handle,
    config: &NetworkConfig,
    indices: &[u32],
) -> Result<(), Error> {
    let deadline = Instant::now() + CARRIER;
    for (interface, index) in config.interfaces.iter().zip(indices) {
        while !handle
            .link_by_index(*index)?
            .is_some_and(|link| link.carrier)
        {
            if Instant::now() > deadline {
                return Err(Error::NoCarrier {
                    name: interface.name.clone(),
                });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    Ok(())
}
