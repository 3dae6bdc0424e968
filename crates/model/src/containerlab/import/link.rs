//! A link as containerlab writes it: brief (two texts `node:interface`) or extended (mappings).

use ipnet::IpNet;

use crate::containerlab::remarks::Remarks;
use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of, shown};
use crate::spec::reader::{FromYaml, Object, read};
use crate::spec::yaml::{Value, Yaml};

/// The type of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Veth,
    /// To the host's own network.
    Host,
    Macvlan,
    MgmtNet,
    /// To another host.
    Vxlan,
    Dummy,
}

/// The types' words. A link that is stitched has a part that the host sees, and is otherwise the same.
const TYPES: [(&str, Type); 8] = [
    ("veth", Type::Veth),
    ("veth-stitch", Type::Veth),
    ("host", Type::Host),
    ("macvlan", Type::Macvlan),
    ("mgmt-net", Type::MgmtNet),
    ("vxlan", Type::Vxlan),
    ("vxlan-stitch", Type::Vxlan),
    ("dummy", Type::Dummy),
];

impl FromYaml for Type {
    const EXPECTED: &'static str = "a type of link";
    const EXAMPLE: &'static str = "`veth`";
    fn from_text(text: &str) -> Option<Type> {
        let found = TYPES.iter().find(|(word, _)| *word == text);
        found.map(|(_, kind)| *kind)
    }
    fn hint(text: &str) -> String {
        hint_one_of(text, &TYPES.map(|(word, _)| word))
    }
}

impl Type {
    pub(super) fn word(self) -> &'static str {
        let found = TYPES.iter().find(|(_, kind)| *kind == self);
        found.map_or("", |(word, _)| word)
    }
}

#[derive(Debug, Clone)]
pub(super) struct End {
    pub node: Spanned<String>,
    pub interface: Spanned<String>,
    pub mac: Option<Spanned<String>>,
    pub addresses: Vec<Spanned<IpNet>>,
}

#[derive(Debug)]
pub(super) struct Link {
    pub at: Mark,
    pub kind: Spanned<Type>,
    /// Two of a veth, otherwise one.
    pub ends: Vec<End>,
    /// The host's interface at the other side.
    pub host_interface: Option<Spanned<String>>,
    /// `mode:` of a macvlan.
    pub mode: Option<Spanned<String>>,
    pub mtu: Option<Spanned<u32>>,
}

impl Link {
    /// Reads the link; None after a mistake that leaves it without ends.
    pub(super) fn read(
        yaml: &Yaml,
        index: usize,
        remarks: &mut Remarks,
        errors: &mut Diagnostics,
    ) -> Option<Link> {
        let mut o = Object::new(yaml, format!("link {index}"), errors);
        let kind = o
            .get("type", errors)
            .unwrap_or(Spanned::new(Type::Veth, yaml.at));
        let families = [
            o.list::<String>("ipv4", errors),
            o.list::<String>("ipv6", errors),
        ];
        let ends = match kind.value == Type::Veth {
            true => read_two(&mut o, remarks, errors),
            false => o
                .require("endpoint", errors)
                .and_then(|end| Some(vec![End::read(end, &o.what, remarks, errors)?])),
        };
        let mut link = Link {
            at: yaml.at,
            kind,
            ends: ends.unwrap_or_default(),
            host_interface: o.get("host-interface", errors),
            mode: o.get("mode", errors),
            mtu: o.get::<u32>("mtu", errors).filter(|mtu| mtu.value > 0),
        };
        // Keys of a tunnel to another host, which has no equivalent.
        for key in [
            "remote",
            "vni",
            "dst-port",
            "udp-port",
            "src-port",
            "parent-interface",
        ] {
            o.take(key);
        }
        tell_unused(&mut o, &["vars", "labels"], remarks);
        for addresses in &families {
            link.add_addresses(addresses, &o.what, errors);
        }
        o.finish(errors);
        link.take_host();
        (!link.ends.is_empty()).then_some(link)
    }

    /// `ipv4:` or `ipv6:` of a link: an address for each end, which may be empty.
    fn add_addresses(
        &mut self,
        addresses: &[Spanned<String>],
        what: &str,
        errors: &mut Diagnostics,
    ) {
        if let Some(extra) = addresses.get(2) {
            errors.add(
                extra.at,
                format!("a third address of {what}"),
                "one for each of its two ends, in their order",
            );
        }
        for (end, address) in self
            .ends
            .iter_mut()
            .zip(addresses)
            .filter(|(_, address)| !address.is_empty())
        {
            let text = Yaml::text(address.at, address.value.trim());
            end.addresses
                .extend(read(&text, &format!("an address of {what}"), errors));
        }
    }

    /// A brief link names the other side in the place of a node: `host:eth1`, `macvlan:eth1`, `mgmt-net:eth1`.
    fn take_host(&mut self) {
        let other = |end: &End| match end.node.as_str() {
            "host" => Some(Type::Host),
            "macvlan" => Some(Type::Macvlan),
            "mgmt-net" => Some(Type::MgmtNet),
            _ => None,
        };
        let found = self.ends.iter().position(|end| other(end).is_some());
        if let (Some(index), 2) = (found, self.ends.len()) {
            let host = self.ends.remove(index);
            self.kind = Spanned::new(other(&host).unwrap_or(Type::Host), host.node.at);
            self.host_interface = Some(host.interface);
        }
    }
}

/// Tells of the keys that are there.
fn tell_unused(o: &mut Object<'_>, keys: &[&'static str], remarks: &mut Remarks) {
    for key in keys {
        o.take(key);
        if let Some(at) = o.key_at(key) {
            let message = format!("`{key}` of {} has no equivalent", o.what);
            remarks.add(at, message, "it is for templates of containerlab");
        }
    }
}

fn read_two(
    o: &mut Object<'_>,
    remarks: &mut Remarks,
    errors: &mut Diagnostics,
) -> Option<Vec<End>> {
    let yaml = o.require("endpoints", errors)?;
    let Value::Seq(items) = &yaml.value else {
        let message = format!(
            "`endpoints` of {} must be a list, not {}",
            o.what,
            yaml.kind()
        );
        errors.add(
            yaml.at,
            message,
            "for example `endpoints: [\"a:eth1\", \"b:eth1\"]`",
        );
        return None;
    };
    if items.len() != 2 {
        let message = format!("{} has {} endpoints", o.what, items.len());
        errors.add(
            yaml.at,
            message,
            "exactly two; a node of kind `bridge` joins more",
        );
        return None;
    }
    let ends = items
        .iter()
        .map(|item| End::read(item, &o.what, remarks, errors));
    let ends: Vec<Option<End>> = ends.collect();
    ends.into_iter().collect()
}

impl End {
    fn read(
        yaml: &Yaml,
        link: &str,
        remarks: &mut Remarks,
        errors: &mut Diagnostics,
    ) -> Option<End> {
        if let Some(text) = yaml.scalar() {
            return End::brief(text, yaml.at, link, errors);
        }
        let mut o = Object::new(yaml, format!("an endpoint of {link}"), errors);
        let node = o.need("node", errors);
        let interface = o.need("interface", errors);
        let mac = o.get::<String>("mac", errors);
        let mut addresses = o.list("ipv4", errors);
        addresses.extend(o.list("ipv6", errors));
        tell_unused(&mut o, &["vars"], remarks);
        o.finish(errors);
        Some(End {
            node: node?,
            interface: interface?,
            mac,
            addresses,
        })
    }

    fn brief(text: &str, at: Mark, link: &str, errors: &mut Diagnostics) -> Option<End> {
        let Some((node, interface)) = text.split_once(':') else {
            let text = shown(text);
            let message = format!("endpoint `{text}` of {link} must be `node:interface`");
            errors.add(at, message, format!("for example `{text}:eth1`"));
            return None;
        };
        Some(End {
            node: Spanned::new(node.trim().to_string(), at),
            interface: Spanned::new(interface.trim().to_string(), at),
            mac: None,
            addresses: Vec::new(),
        })
    }
}
