//! The identity of a guest that began as a copy of another one, which was saved before it had an identity or with one.

use std::fs::File;
use std::os::fd::AsFd;

use latlab_netlink::{Handle, LinkChange, MacAddress};
use latlab_wire::channel::{Identity, Renewal};
use rustix::time::{ClockId, Timespec, clock_settime};

use crate::kernel_line::Parameters;
use crate::step::step;
use crate::{cards, image, network, os};

const RANDOM: &str = "/dev/urandom";

/// Takes the identity and mounts the root. The random numbers come first: all that follows may draw some.
pub fn take(identity: &Identity) -> Result<(), String> {
    let parameters = Parameters::parse(&identity.parameters)?;
    renew(&identity.renewal)?;
    cards::bind()?;
    image::enter(&parameters)?;
    set_macs(&identity.macs).map_err(|error| format!("set hardware addresses: {error}"))
}

/// Takes the place of the identity that the guest was saved with. Its root stays. Its cards are down afterwards, without
/// addresses: what they are to have comes with the network's configuration.
pub fn change(identity: &Identity) -> Result<(), String> {
    let parameters = Parameters::parse(&identity.parameters)?;
    renew(&identity.renewal)?;
    image::name(&parameters)?;
    // A change that was cut off may have been done already.
    let macs: Vec<_> = identity
        .macs
        .iter()
        .flat_map(|(from, to)| [*from, *to])
        .collect();
    let changed = network::clear(&macs).and_then(|()| set_macs(&identity.macs));
    changed.map_err(|error| format!("set hardware addresses: {error}"))
}

/// Takes random numbers and the time of day.
pub fn renew(renewal: &Renewal) -> Result<(), String> {
    let random = step(File::options().write(true).open(RANDOM), || {
        format!("open {RANDOM}")
    })?;
    step(os::add_entropy(random.as_fd(), &renewal.entropy), || {
        "add entropy".into()
    })?;
    let now = Timespec {
        tv_sec: (renewal.realtime_ns / 1_000_000_000) as i64,
        tv_nsec: (renewal.realtime_ns % 1_000_000_000) as i64,
    };
    let set = clock_settime(ClockId::Realtime, now);
    Ok(step(set, || "set the clock".into())?)
}

/// QEMU's saved state has the addresses of the cards of the guest that was saved.
fn set_macs(macs: &[([u8; 6], [u8; 6])]) -> Result<(), latlab_netlink::Error> {
    if macs.is_empty() {
        return Ok(());
    }
    let mut handle = Handle::open()?;
    let links = handle.links()?;
    let changes = macs.iter().filter_map(|(from, to)| {
        let link = links
            .iter()
            .find(|link| link.mac == Some(MacAddress(*from)))?;
        Some(
            LinkChange::of_index(link.index)
                .mac(MacAddress(*to))
                .request(),
        )
    });
    let changes: Vec<_> = changes.collect();
    // A card that is not there shows when the network is set up, with its name.
    handle.apply_all(&changes)
}
