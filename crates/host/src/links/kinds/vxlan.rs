//! `vxlan`: every end sits behind a tunnel end of its own, as a pod does on a node of a cluster.
//!
//! ```text
//! node ── port ─ switch ─ tunnel ── under ── p0 ─ underlay ─ p1 ── under ── tunnel ─ switch ─ port ── node
//!         └──────── @LINK.0 ────────┘  └───────── @LINK ─────────┘ └──────── @LINK.1 ────────┘
//! ```
//!
//! That is the path of a packet between two flannel pods on two machines, with a switch for the
//! wire. Broadcast frames are copied to each other tunnel end by static entries: no multicast
//! group is needed, as in a cluster. Tunnel ends learn from what they receive. The outer UDP
//! checksum is on, as the standard allows and receivers with checksum offload prefer.

use ipnet::IpNet;
use latlab_model::plan::VxlanPlan;
use latlab_netlink::{Interface, LinkChange, LinkKind, Neighbour, NewLink, Request, Vxlan};

use crate::links::attach;
use crate::links::builder::LinkBuilder;
use crate::links::error::Error;
use crate::links::netns_handle::NetnsHandle;
use crate::links::underlay::Underlay;
use crate::links::vm_end::VmEnd;

/// In each tunnel end's namespace: the switch, and the tunnel.
const SWITCH: &str = "switch";
const TUNNEL: &str = "tunnel";

pub(super) fn make(link: &LinkBuilder<'_>, plan: &VxlanPlan) -> Result<Vec<VmEnd>, Error> {
    let mut underlay = Underlay::make(link, plan.underlay_mtu)?;
    let mut taps = Vec::new();
    for end in link.ends() {
        let mut at = NetnsHandle::open(link, link.tunnel(end)?)?;
        underlay.plug_in(link, end, &plan.underlay, &mut at)?;
        let switch = at.make_bridge(link, SWITCH)?;
        make_tunnel(link, plan, end, &mut at, switch)?;
        taps.extend(attach::to_bridge(link, &mut at, switch, end..end + 1)?);
    }
    Ok(taps)
}

fn make_tunnel(
    link: &LinkBuilder<'_>,
    plan: &VxlanPlan,
    end: usize,
    at: &mut NetnsHandle,
    switch: u32,
) -> Result<(), Error> {
    let refused = link.refused();
    let vxlan = Vxlan {
        vni: plan.vni,
        local: Some(plan.underlay[end].addr()),
        remote: None,
        parent: None,
        port: plan.port,
        udp_checksum: true,
        learning: true,
    };
    let interface = Interface::new(TUNNEL).mtu(Some(link.plan().mtu));
    let tunnel = NewLink::new(interface, LinkKind::Vxlan(vxlan))
        .master(switch)
        .up();
    let label = LinkChange::of(TUNNEL).alias(&link.network.alias).request();
    at.handle
        .apply_all(&[tunnel.request(), label])
        .map_err(&refused)?;
    let index = at.handle.link_index(TUNNEL).map_err(&refused)?;
    let floods: Vec<Request<'_>> = others(&plan.underlay, end)
        .map(|peer| Neighbour::flood_to(index, peer.addr()))
        .collect();
    at.handle.apply_all(&floods).map_err(&refused)
}

/// The underlay addresses of all tunnel ends but one.
fn others(underlay: &[IpNet], end: usize) -> impl Iterator<Item = &IpNet> {
    underlay
        .iter()
        .enumerate()
        .filter(move |(at, _)| *at != end)
        .map(|(_, address)| address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_end_floods_to_all_others_and_not_to_itself() {
        let underlay: Vec<IpNet> = ["10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"]
            .map(|a| a.parse().unwrap())
            .into();
        let others: Vec<_> = others(&underlay, 1).map(IpNet::addr).collect();
        assert_eq!(others, [underlay[0].addr(), underlay[2].addr()]);
    }
}
