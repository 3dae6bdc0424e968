//! A link as written: brief (`endpoints: ["a:eth0", "b:eth0"]`) or extended (endpoints as mappings),
//! both in containerlab's shape.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::reader::{Fraction, FromYaml, Object, words};
use super::yaml::{Value, Yaml};
use crate::diagnostic::{Diagnostics, Mark, Spanned};
use crate::units::{BitsPerSecond, Nanos};

/// What joins a link's end points.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// Point to point.
    #[default]
    Veth,
    /// A learning switch.
    Bridge,
    /// A bridge behind a router that masquerades: what Docker's users get.
    Nat,
    /// MAC-addressed slices of one parent interface.
    Macvlan,
    /// An Ethernet over UDP: every end point behind a tunnel end of its own.
    Vxlan,
}
words!(LinkKind, "a type of link", {
    "veth" => Veth, "bridge" => Bridge, "nat" => Nat, "macvlan" => Macvlan, "vxlan" => Vxlan,
});

/// An Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Reads `02:00:00:00:00:01`.
    pub fn parse(text: &str) -> Option<Mac> {
        let mut bytes = [0u8; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2)?;
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        parts.next().is_none().then_some(Mac(bytes))
    }
}

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let b = self.0;
        write!(
            f,
            "{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}",
            b[0], b[1], b[2], b[3], b[4], b[5]
        )
    }
}

impl TryFrom<String> for Mac {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Mac::parse(&text).ok_or_else(|| format!("`{text}` is not a MAC address"))
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> String {
        mac.to_string()
    }
}

impl FromYaml for Mac {
    const EXPECTED: &'static str = "a unicast MAC address";
    const EXAMPLE: &'static str = "`02:00:00:00:00:01`";
    fn from_text(text: &str) -> Option<Self> {
        Mac::parse(text).filter(|m| m.0[0] & 1 == 0 && m.0 != [0; 6])
    }
}

/// What a link does to frames on purpose. One-way by definition: it acts on what an end point
/// sends, so a delay of 1 ms on both ends adds 2 ms to a round trip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Impairment {
    /// Bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitsPerSecond>,
    /// Constant part of the delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Nanos>,
    /// Random part of the delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Nanos>,
    /// Share of frames dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}

impl Impairment {
    /// True when frames pass untouched.
    pub fn is_none(&self) -> bool {
        *self == Impairment::default()
    }

    /// True when it needs the kernel's netem queueing discipline.
    pub fn needs_netem(&self) -> bool {
        self.delay.is_some() || self.jitter.is_some() || self.loss.is_some()
    }

    fn over(self, below: Impairment) -> Impairment {
        Impairment {
            rate: self.rate.or(below.rate),
            delay: self.delay.or(below.delay),
            jitter: self.jitter.or(below.jitter),
            loss: self.loss.or(below.loss),
        }
    }

    fn read(o: &mut Object<'_>, errors: &mut Diagnostics) -> Impairment {
        let read = Impairment {
            rate: o.get::<BitsPerSecond>("rate", errors).map(|s| s.value),
            delay: o.get::<Nanos>("delay", errors).map(|s| s.value),
            jitter: o.get::<Nanos>("jitter", errors).map(|s| s.value),
            loss: o.get::<Fraction>("loss", errors).map(|s| s.value.0),
        };
        if read.rate == Some(BitsPerSecond(0)) {
            errors.add(
                o.at,
                format!("`rate` of {} is zero", o.what),
                "for example `rate: 1Gbit`",
            );
        }
        if read.jitter.is_some() && read.delay.is_none() {
            let hint = "add `delay:`; jitter varies around it";
            errors.add(
                o.at,
                format!("{} has `jitter` but no `delay`", o.what),
                hint,
            );
        }
        read
    }
}

/// One end of a link, as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// Node's name.
    pub node: Spanned<String>,
    /// Interface's name inside the node.
    pub interface: Spanned<String>,
    /// Fixed MAC address.
    pub mac: Option<Spanned<Mac>>,
    /// Fixed addresses; assigned from the link's subnets otherwise.
    pub addresses: Vec<Spanned<IpNet>>,
    /// What it does to the frames that it sends.
    pub impairment: Impairment,
}

/// A link, as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Where it begins.
    pub at: Mark,
    /// Its name; `l0`, `l1`, … by position when not given.
    pub name: Spanned<String>,
    /// Its type.
    pub kind: Spanned<LinkKind>,
    /// Its ends.
    pub endpoints: Vec<Endpoint>,
    /// `mtu:`
    pub mtu: Option<Spanned<u32>>,
    /// `subnets:` from which addresses are assigned; latlab chooses otherwise.
    pub subnets: Vec<Spanned<IpNet>>,
    /// `parent:` host interface below a macvlan.
    pub parent: Option<Spanned<String>>,
    /// `vni:` of a vxlan.
    pub vni: Option<Spanned<u32>>,
    /// `port:` UDP port of a vxlan.
    pub port: Option<Spanned<u16>>,
}

impl Link {
    /// Reads the link at position `index`.
    pub fn read(yaml: &Yaml, index: usize, errors: &mut Diagnostics) -> Link {
        let mut o = Object::new(yaml, format!("link {index}"), errors);
        let name = o
            .get::<String>("name", errors)
            .unwrap_or_else(|| Spanned::new(format!("l{index}"), yaml.at));
        o.what = format!("link `{}`", *name);
        let kind = o
            .get("type", errors)
            .unwrap_or(Spanned::new(LinkKind::Veth, yaml.at));
        let common = Impairment::read(&mut o, errors);
        let endpoints = match o.require("endpoints", errors).map(|y| (&y.value, y.at)) {
            Some((Value::Seq(items), _)) => items
                .iter()
                .filter_map(|i| Endpoint::read(i, &o.what, common, errors))
                .collect(),
            Some((_, at)) => {
                let message = format!("`endpoints` of {} must be a list", o.what);
                errors.add(at, message, "for example [\"a:eth0\", \"b:eth0\"]");
                Vec::new()
            }
            None => Vec::new(),
        };
        let link = Link {
            at: yaml.at,
            name,
            kind,
            endpoints,
            mtu: o.get("mtu", errors),
            subnets: o.list("subnets", errors),
            parent: o.get("parent", errors),
            vni: o.get("vni", errors),
            port: o.get("port", errors),
        };
        o.finish(errors);
        link
    }
}

impl Endpoint {
    fn read(
        yaml: &Yaml,
        link: &str,
        common: Impairment,
        errors: &mut Diagnostics,
    ) -> Option<Endpoint> {
        if let Some(text) = yaml.scalar() {
            let Some((node, interface)) = text.split_once(':') else {
                let message = format!("end point `{text}` of {link} must be `node:interface`");
                errors.add(yaml.at, message, format!("for example `{text}:eth0`"));
                return None;
            };
            return Some(Endpoint {
                node: Spanned::new(node.trim().to_string(), yaml.at),
                interface: Spanned::new(interface.trim().to_string(), yaml.at),
                mac: None,
                addresses: Vec::new(),
                impairment: common,
            });
        }
        let mut o = Object::new(yaml, format!("an end point of {link}"), errors);
        let own = Impairment::read(&mut o, errors);
        let node = o.require("node", errors).is_some();
        let interface = o.require("interface", errors).is_some();
        let mut addresses = o.list::<IpNet>("addresses", errors);
        addresses.extend(o.list::<IpNet>("ipv4", errors));
        addresses.extend(o.list::<IpNet>("ipv6", errors));
        let endpoint = (node && interface).then(|| {
            Some(Endpoint {
                node: o.get("node", errors)?,
                interface: o.get("interface", errors)?,
                mac: o.get("mac", errors),
                addresses,
                impairment: own.over(common),
            })
        });
        o.get::<Mac>("mac", &mut Diagnostics::default());
        o.finish(errors);
        endpoint.flatten()
    }
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
