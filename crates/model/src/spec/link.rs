//! A link as written: brief (`endpoints: ["a:eth0", "b:eth0"]`) or extended (endpoints as mappings),
//! both in containerlab's shape.

use ipnet::IpNet;

use super::reader::{Fraction, FromYaml, Object, items, read, read_words, words};
use super::yaml::{Value, Yaml};
use crate::diagnostic::{Diagnostics, Mark, Spanned, shown};
use crate::kinds::{
    Cable, Carrier, FunctionSettings, HostTunnel, Impairment, LinkKind, Mac, Streams, Timestamps,
    VmAttachment,
};
use crate::units::{BitsPerSecond, Nanos};

read_words!(LinkKind, "a type of link", "veth");
read_words!(VmAttachment, "a way to give a function to a VM", "vfio");
read_words!(Timestamps, "a source of timestamps", "hardware");

words!(Carrier, "a carrier", {
    "local" => Local, "vxlan" => Vxlan, "udp" => Udp, "sealed" => Sealed, "direct" => Direct,
});

words!(Streams, "a kind of streams", {
    "false" => Off,
    "true" => Auto,
    "unix" => Unix,
    "tcp" => Tcp,
});
words!(Cable, "a cable", { "veth" => Veth, "netkit" => Netkit });

impl FromYaml for Mac {
    const EXPECTED: &'static str = "a unicast MAC address";
    const EXAMPLE: &'static str = "`02:00:00:00:00:01`";
    fn from_text(text: &str) -> Option<Self> {
        Mac::parse(text).filter(|m| !m.is_group() && m.0 != [0; 6])
    }
}

#[derive(Clone, Copy, Default)]
struct WrittenImpairment {
    rate: Option<Spanned<BitsPerSecond>>,
    delay: Option<Spanned<Nanos>>,
    jitter: Option<Spanned<Nanos>>,
    loss: Option<Spanned<Fraction>>,
}

/// Slowest rate: below, the kernel's token bucket cannot hold one frame for a sensible time.
const MIN_RATE: BitsPerSecond = BitsPerSecond(1_000);
/// Longest delay: beyond, a queue holds more than it can.
const MAX_DELAY: Nanos = Nanos(60_000_000_000);

impl WrittenImpairment {
    fn read(o: &mut Object<'_>, errors: &mut Diagnostics) -> WrittenImpairment {
        let read = WrittenImpairment {
            rate: o.get("rate", errors),
            delay: o.get("delay", errors),
            jitter: o.get("jitter", errors),
            loss: o.get("loss", errors),
        };
        if let Some(rate) = read.rate.filter(|r| r.value < MIN_RATE) {
            let message = format!("`rate` of {} is {}", o.what, rate.value);
            errors.add(
                rate.at,
                message,
                format!("at least {MIN_RATE}, for example `1Gbit`"),
            );
        }
        if let Some(delay) = read.delay.filter(|d| d.value > MAX_DELAY) {
            let message = format!("`delay` of {} is {}", o.what, delay.value);
            errors.add(
                delay.at,
                message,
                format!("at most {MAX_DELAY}, for example `10ms`"),
            );
        }
        read
    }

    fn over(self, below: WrittenImpairment) -> WrittenImpairment {
        WrittenImpairment {
            rate: self.rate.or(below.rate),
            delay: self.delay.or(below.delay),
            jitter: self.jitter.or(below.jitter),
            loss: self.loss.or(below.loss),
        }
    }

    /// Mistakes that only the merged values of a link and its end show.
    fn check(&self, link: &str, errors: &mut Diagnostics) {
        match (self.delay, self.jitter) {
            (None, Some(jitter)) => {
                let hint = "add `delay:`; jitter varies around it";
                errors.add(
                    jitter.at,
                    format!("{link} has `jitter` but no `delay`"),
                    hint,
                );
            }
            (Some(delay), Some(jitter)) if jitter.value > delay.value => {
                let message = format!(
                    "`jitter` {} of {link} is more than its `delay` {}",
                    jitter.value, delay.value
                );
                let hint = "a frame cannot arrive before it was sent: lower one or raise the other";
                errors.add(jitter.at, message, hint);
            }
            _ => {}
        }
    }

    fn values(&self) -> Impairment {
        Impairment {
            rate: self.rate.map(|s| s.value),
            delay: self.delay.map(|s| s.value),
            jitter: self.jitter.map(|s| s.value),
            loss: self.loss.map(|s| s.value.0),
        }
    }

    /// The first key that needs the kernel's netem.
    fn netem_at(&self) -> Option<Mark> {
        let places = [
            self.delay.map(|s| s.at),
            self.jitter.map(|s| s.at),
            self.loss.map(|s| s.at),
        ];
        places.into_iter().flatten().min()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    pub node: Spanned<String>,
    pub interface: Spanned<String>,
    pub mac: Option<Spanned<Mac>>,
    /// Fixed addresses; assigned from the link's subnets otherwise.
    pub addresses: Vec<Spanned<IpNet>>,
    pub impairment: Impairment,
    /// Where delay, jitter or loss was asked for; on the end, or on its link.
    pub netem_at: Option<Mark>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    pub at: Mark,
    /// Its name; `l0`, `l1`, … by position when not given.
    pub name: Spanned<String>,
    pub kind: Spanned<LinkKind>,
    pub endpoints: Vec<Endpoint>,
    /// How many ends were written, those that could not be read included.
    pub(super) written_ends: usize,
    pub(super) has_endpoints: bool,
    pub mtu: Option<Spanned<u32>>,
    /// `subnets:` from which addresses are assigned; latlab chooses otherwise.
    pub subnets: Vec<Spanned<IpNet>>,
    /// `parent:` host interface below a macvlan.
    pub parent: Option<Spanned<String>>,
    pub vni: Option<Spanned<u32>>,
    /// `port:` UDP port of a vxlan.
    pub port: Option<Spanned<u16>>,
    /// `carrier:` what joins the hosts of an overlay.
    pub carrier: Option<Spanned<Carrier>>,
    /// `cable:` what joins processes and containers to an overlay.
    pub cable: Option<Spanned<Cable>>,
    /// `streams:` the sockets without a network that TCP connections over an overlay take.
    pub streams: Option<Spanned<Streams>>,
    /// `stream_ports:` of the servers whose connections take them; none are all.
    pub stream_ports: Vec<Spanned<u16>>,
    /// `interfaces:` of the host, one for each end of a phys, sriov or passthrough, in their order.
    pub interfaces: Vec<Spanned<String>>,
    /// `vlan:` of a sriov, whose frames the card tags.
    pub vlan: Option<Spanned<u16>>,
    /// `spoof_check:` of a sriov.
    pub spoof_check: Option<Spanned<bool>>,
    /// `trust:` of a sriov.
    pub trust: Option<Spanned<bool>>,
    /// `max_tx_rate:` of a sriov.
    pub max_tx_rate: Option<Spanned<BitsPerSecond>>,
    /// `queues:` of each function of a sriov.
    pub queues: Option<Spanned<u32>>,
    /// `vm:` how VMs have their functions of a sriov.
    pub vm: Option<Spanned<VmAttachment>>,
    /// `timestamps:` of a phys, whose cards take them.
    pub timestamps: Option<Spanned<Timestamps>>,
    /// The tunnel to the ends on other hosts; set where a lab on several is divided.
    pub tunnel: Option<HostTunnel>,
}

impl Link {
    pub fn carrier(&self) -> Carrier {
        self.carrier.map_or(Carrier::default(), |c| c.value)
    }

    /// Whether its ends may be on several hosts.
    pub fn may_join_hosts(&self) -> bool {
        let carrier = self.carrier.map(|carrier| carrier.value);
        self.kind.value == LinkKind::Overlay && carrier.is_some_and(Carrier::is_between_hosts)
    }

    pub fn function_settings(&self) -> FunctionSettings {
        FunctionSettings {
            vlan: self.vlan.map(|vlan| vlan.value),
            spoof_check: self.spoof_check.map(|on| on.value),
            trust: self.trust.map(|on| on.value),
            max_tx_rate: self.max_tx_rate.map(|rate| rate.value),
            queues: self.queues.map(|count| count.value),
        }
    }

    /// The source of its packets' times.
    pub fn timestamps(&self) -> Timestamps {
        self.timestamps.map(|by| by.value).unwrap_or_default()
    }

    pub fn vm(&self) -> VmAttachment {
        self.vm.map(|vm| vm.value).unwrap_or_default()
    }

    /// Whether it leaves its interfaces to the machine's file: it asks for a wire.
    pub fn wants_wire(&self) -> bool {
        self.kind.value.is_hardware() && self.interfaces.is_empty() && self.written_ends == 2
    }

    pub fn interfaces(&self) -> Vec<String> {
        self.interfaces.iter().map(|i| i.value.clone()).collect()
    }

    /// The cable that joins processes and containers, if it is an overlay.
    pub fn cable(&self) -> Cable {
        self.cable.map_or(Cable::default(), |c| c.value)
    }

    /// The sockets without a network that TCP connections between its ends take.
    pub fn streams(&self) -> Streams {
        self.streams.map_or(Streams::default(), |s| s.value)
    }

    pub fn read(yaml: &Yaml, index: usize, errors: &mut Diagnostics) -> Link {
        let mut o = Object::new(yaml, format!("link {index}"), errors);
        let name = o
            .get::<String>("name", errors)
            .unwrap_or_else(|| Spanned::new(format!("l{index}"), yaml.at));
        o.what = format!("link `{}`", shown(&name));
        let kind = o
            .get("type", errors)
            .unwrap_or(Spanned::new(LinkKind::Veth, yaml.at));
        let common = WrittenImpairment::read(&mut o, errors);
        let what = format!("`endpoints` of {}", o.what);
        let hint = "for example `endpoints: [\"a:eth0\", \"b:eth0\"]`";
        let written = o.require("endpoints", errors);
        let written = written.and_then(|yaml| items(yaml, &what, hint, errors));
        let ends = written.unwrap_or_default();
        let endpoints = ends
            .iter()
            .filter_map(|i| Endpoint::read(i, &o.what, common, errors))
            .collect();
        let link = Link {
            at: yaml.at,
            name,
            kind,
            endpoints,
            written_ends: ends.len(),
            has_endpoints: written.is_some(),
            mtu: o.get("mtu", errors),
            subnets: o.list("subnets", errors),
            parent: o.get("parent", errors),
            vni: o.get("vni", errors),
            port: o.get("port", errors),
            carrier: o.get("carrier", errors),
            cable: o.get("cable", errors),
            streams: o.get("streams", errors),
            stream_ports: o.list("stream_ports", errors),
            interfaces: o.list("interfaces", errors),
            vlan: o.get("vlan", errors),
            spoof_check: o.get("spoof_check", errors),
            trust: o.get("trust", errors),
            max_tx_rate: o.get("max_tx_rate", errors),
            queues: o.get("queues", errors),
            vm: o.get("vm", errors),
            timestamps: o.get("timestamps", errors),
            tunnel: None,
        };
        o.finish(errors);
        link
    }
}

impl Endpoint {
    fn read(
        yaml: &Yaml,
        link: &str,
        common: WrittenImpairment,
        errors: &mut Diagnostics,
    ) -> Option<Endpoint> {
        if yaml.scalar().is_some() {
            return Endpoint::read_brief(yaml, link, common, errors);
        }
        let mut o = Object::new(yaml, format!("an endpoint of {link}"), errors);
        let node = o.need::<String>("node", errors);
        let interface = o.need::<String>("interface", errors);
        if let (Some(node), Some(interface)) = (&node, &interface) {
            o.what = format!("end `{}:{}` of {link}", shown(node), shown(interface));
        }
        let own = WrittenImpairment::read(&mut o, errors).over(common);
        own.check(link, errors);
        let mac = o.get("mac", errors);
        let mut addresses = o.list::<IpNet>("addresses", errors);
        for (key, ipv6) in [("ipv4", false), ("ipv6", true)] {
            for address in o.list::<IpNet>(key, errors) {
                if address.addr().is_ipv6() != ipv6 {
                    let message = format!("`{key}` of {} is {}", o.what, *address);
                    let hint = "`ipv4:` and `ipv6:` take their own family; `addresses:` takes both";
                    errors.add(address.at, message, hint);
                }
                addresses.push(address);
            }
        }
        for address in &addresses {
            check_address(address, &o.what, errors);
        }
        o.finish(errors);
        Some(Endpoint {
            node: node?,
            interface: interface?,
            mac,
            addresses,
            impairment: own.values(),
            netem_at: own.netem_at(),
        })
    }

    /// `node:interface`.
    fn read_brief(
        yaml: &Yaml,
        link: &str,
        common: WrittenImpairment,
        errors: &mut Diagnostics,
    ) -> Option<Endpoint> {
        let text = read::<String>(yaml, &format!("an endpoint of {link}"), errors)?;
        common.check(link, errors);
        let Some((node, interface)) = text.split_once(':') else {
            let text = shown(&text);
            let message = format!("endpoint `{text}` of {link} must be `node:interface`");
            errors.add(yaml.at, message, format!("for example `{text}:eth0`"));
            return None;
        };
        let quote = usize::from(matches!(yaml.value, Value::Scalar { quoted: true, .. }));
        let interface_at = Mark {
            column: yaml.at.column + quote + node.chars().count() + 1,
            ..yaml.at
        };
        Some(Endpoint {
            node: Spanned::new(node.trim().to_string(), yaml.at),
            interface: Spanned::new(interface.trim().to_string(), interface_at),
            mac: None,
            addresses: Vec::new(),
            impairment: common.values(),
            netem_at: common.netem_at(),
        })
    }
}

/// An interface's address must be one that a host can have.
fn check_address(address: &Spanned<IpNet>, what: &str, errors: &mut Diagnostics) {
    let (ip, length) = (address.addr(), address.prefix_len());
    let why = if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
        "is not an address that an interface can have"
    } else if ip.is_ipv4() && length < 31 && ip == address.network() {
        "is the name of its whole network"
    } else if ip.is_ipv4() && length < 31 && ip == address.broadcast() {
        "is the broadcast address of its network"
    } else {
        return;
    };
    let message = format!("address {} of {what} {why}", **address);
    errors.add(address.at, message, "for example `10.1.0.1/24`");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses_are_unicast_and_complete() {
        assert_eq!(
            Mac::from_text("02:00:00:00:00:0a").unwrap().to_string(),
            "02:00:00:00:00:0a"
        );
        for bad in [
            "01:00:00:00:00:00",
            "00:00:00:00:00:00",
            "02:0:0:0:0:1",
            "02:00:00:00:00",
            "x",
        ] {
            assert_eq!(Mac::from_text(bad), None, "{bad}");
        }
    }
}
