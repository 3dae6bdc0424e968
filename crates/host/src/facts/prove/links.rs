//! Links: every kind is made in a network namespace that nothing pins, so that it vanishes, with all
//! that was made in it, when the thread ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use latlab_model::facts::Facts;
use latlab_netlink::{Handle, Interface, LinkKind, Netem, NewLink, Parent, Qdisc, Tbf, Vxlan};

use super::report::{Outcome, Refusal, Report, outcome, refused};
use crate::programs;
use crate::sys::command::output;
use crate::sys::netns::{self, NetNs};
use crate::sys::{self, feature, tap};

pub(super) const COVERS: &[&str] = &[
    Facts::VETH,
    Facts::NETKIT,
    Facts::BRIDGE,
    Facts::MACVLAN,
    Facts::MACVTAP,
    Facts::VXLAN,
    Facts::TAP,
    Facts::TBF,
    Facts::NETEM,
    Facts::AF_XDP,
];

const MADE: &str = "made in a fresh network namespace";

/// Index of the loopback interface in every network namespace.
const LOOPBACK: u32 = 1;

/// The rules that links of type `nat` load, for both families, with addresses for documentation.
const RULES: &str = "table inet latlab_proof {
    chain before {
        type nat hook prerouting priority dstnat; policy accept;
        iifname \"eth0\" dnat ip to ip daddr map { 192.0.2.1 : 192.0.2.2 }
        iifname \"eth0\" dnat ip6 to ip6 daddr map { 2001:db8::1 : 2001:db8::2 }
    }
    chain after {
        type nat hook postrouting priority srcnat; policy accept;
        oifname \"eth0\" meta nfproto ipv4 masquerade
        oifname \"eth0\" snat ip6 to 2001:db8::1
    }
}
";

/// nft takes milliseconds, but may load modules first.
const NFT_TIMEOUT: Duration = Duration::from_secs(10);

/// IANA's port for VXLAN.
const VXLAN_PORT: u16 = 4789;

pub(super) fn run(report: &Report) {
    if let Err(error) = netns::unshare() {
        return report.refuse_all(COVERS, &error);
    }
    let mut handle = match Handle::open() {
        Ok(handle) => handle,
        Err(error) => return report.refuse_all(COVERS, &error),
    };
    report.try_one(Facts::TAP, MADE, || {
        let here = NetNs::current()?;
        tap::create_tap(here.as_fd(), "proof-tap", 1)
    });
    report.try_one(Facts::AF_XDP, "bound in a fresh network namespace", || {
        feature::bind_xdp_socket(LOOPBACK)
    });
    // Each under a handle of its own: the kernel refuses another kind under the same.
    for (name, qdisc, major) in [(Facts::TBF, tbf(), 1), (Facts::NETEM, netem(), 2)] {
        report.try_one(name, "set in a fresh network namespace", || {
            let set = handle.apply(&qdisc.replace(LOOPBACK, Parent::Root, major));
            set.map_err(|error| Unknown::explain(error, "queueing discipline", name))
        });
    }
    report.try_one(Facts::BRIDGE, MADE, || {
        make(&mut handle, "proof-br", LinkKind::Bridge)
    });
    report.try_one(Facts::NETKIT, MADE, || {
        let peer = LinkKind::Netkit(Interface::new("proof-nb"));
        make(&mut handle, "proof-na", peer)
    });
    report.try_one(Facts::VXLAN, MADE, || {
        make(&mut handle, "proof-vx", LinkKind::Vxlan(vxlan()))
    });
    on_ethernet(report, &mut handle);
}

/// Makes the kinds that are put on an Ethernet interface, after one of those.
fn on_ethernet(report: &Report, handle: &mut Handle) {
    let on_veth = [Facts::VETH, Facts::MACVLAN, Facts::MACVTAP];
    if !on_veth.iter().any(|name| report.wants(name)) {
        return;
    }
    let peer = LinkKind::Veth(Interface::new("proof-b"));
    let veth = make(handle, "proof-a", peer);
    report.note(Facts::VETH, outcome(&veth, MADE));
    let Ok(parent) = veth else {
        for name in [Facts::MACVLAN, Facts::MACVTAP] {
            let why = "there is no veth to put it on".to_owned();
            report.note(name, Outcome::Unproven(why));
        }
        return;
    };
    report.try_one(Facts::MACVLAN, MADE, || {
        make(handle, "proof-mv", LinkKind::Macvlan(parent))
    });
    if report.wants(Facts::MACVTAP) {
        // Without the device that a virtual machine opens, the interface is worth nothing.
        let result = make(
            handle,
            "proof-mt",
            LinkKind::Macvtap {
                parent,
                is_alone: false,
            },
        );
        let outcome = match result {
            Ok(_) => outcome(
                &open_macvtap("proof-mt"),
                "made and opened in a fresh namespace",
            ),
            Err(error) => refused(&error),
        };
        report.note(Facts::MACVTAP, outcome);
    }
}

fn open_macvtap(name: &str) -> Result<Vec<OwnedFd>, sys::Error> {
    let here = NetNs::current()?;
    tap::open_macvtap(here.as_fd(), name, 1)
}

pub(super) fn masquerade(report: &Report) {
    if let Err(error) = netns::unshare() {
        return report.refuse_all(&[Facts::MASQUERADE], &error);
    }
    let how = "rule loaded in a fresh network namespace";
    report.try_one(Facts::MASQUERADE, how, || {
        let nft = programs::find("nft").ok_or_else(|| io::Error::other("nft is not installed"))?;
        output(nft.as_os_str(), &["-f", "-"], RULES, NFT_TIMEOUT)
    });
}

fn make(handle: &mut Handle, name: &str, kind: LinkKind<'_>) -> Result<u32, Unknown> {
    let word = match &kind {
        LinkKind::Veth(_) => "veth",
        LinkKind::Netkit(_) => "netkit",
        LinkKind::Bridge => "bridge",
        LinkKind::Macvlan(_) => "macvlan",
        LinkKind::Macvtap { .. } => "macvtap",
        LinkKind::Vxlan(_) => "vxlan",
    };
    let made = handle.apply(&NewLink::new(Interface::new(name), kind).request());
    made.and_then(|()| handle.link_index(name))
        .map_err(|error| Unknown::explain(error, "links of kind", word))
}

/// A refusal, in plain words where it means that the kernel was built without the thing.
#[derive(Debug, thiserror::Error)]
enum Unknown {
    #[error("this kernel has no {what} {kind}")]
    Kind {
        what: &'static str,
        kind: &'static str,
    },
    #[error(transparent)]
    Other(latlab_netlink::Error),
}

impl Unknown {
    /// The kernel answers "no such file" for an unknown queueing discipline and "not supported" for
    /// an unknown kind of link.
    fn explain(error: latlab_netlink::Error, what: &'static str, kind: &'static str) -> Unknown {
        match error.errno() {
            Some(libc::ENOENT | libc::EOPNOTSUPP) => Unknown::Kind { what, kind },
            _ => Unknown::Other(error),
        }
    }
}

impl Refusal for Unknown {
    fn errno(&self) -> Option<i32> {
        match self {
            Unknown::Kind { .. } => None,
            Unknown::Other(error) => error.errno(),
        }
    }
}

fn tbf() -> Qdisc {
    Qdisc::Tbf(Tbf {
        rate_bits_per_second: 1_000_000_000,
        burst_bytes: 128 << 10,
        limit_bytes: 1 << 20,
    })
}

fn netem() -> Qdisc {
    Qdisc::Netem(Netem {
        delay: Duration::from_millis(1),
        limit_packets: 1000,
        ..Netem::default()
    })
}

fn vxlan() -> Vxlan {
    Vxlan {
        vni: 1,
        local: None,
        remote: None,
        parent: None,
        port: VXLAN_PORT,
        udp_checksum: false,
        learning: false,
    }
}
