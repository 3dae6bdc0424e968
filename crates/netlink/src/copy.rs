//! Tables of one namespace, made again in another one whose interfaces have the same names and numbers.
//!
//! An entry is sent back as the kernel told it, as `ip route save` and `restore` do: whatever a person or a program has
//! set inside comes along, also what this crate has no words for.

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};

use crate::attribute::attributes;
use crate::error::Error;
use crate::handle::Handle;
use crate::request::Request;

/// Routes that the kernel makes itself (`RTPROT_KERNEL`), from addresses and interfaces.
const BY_KERNEL: u8 = 2;
/// Its table of own addresses (`RT_TABLE_LOCAL`).
const LOCAL: u8 = 255;
/// The one flag of a route that is a wish: its gateway is on the link.
const ONLINK: u32 = 4;
const CLONED: u32 = 0x200;

const AF_BRIDGE: u8 = 7;
const NUD_REACHABLE: u16 = 0x02;
const NUD_STALE: u16 = 0x04;
const NUD_DELAY: u16 = 0x08;
const NUD_PROBE: u16 = 0x10;
const NUD_PERMANENT: u16 = 0x80;

/// A table of a network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    Addresses,
    Rules,
    Routes,
    /// Neighbours whose addresses are known.
    Neighbours,
}

/// How the kernel speaks of a table: its messages, the length of their fixed part, and the flags of a new entry.
struct Words {
    name: &'static str,
    new: u16,
    get: u16,
    header_bytes: usize,
    flags: u16,
}

impl Table {
    fn words(self) -> Words {
        let words = |name, new, get, header_bytes, flags| Words {
            name,
            new,
            get,
            header_bytes,
            flags: NLM_F_CREATE | flags,
        };
        match self {
            Self::Addresses => words("addresses", 20, 22, 8, NLM_F_REPLACE),
            Self::Routes => words("routes", 24, 26, 12, 0),
            Self::Neighbours => words("neighbours", 28, 30, 12, NLM_F_REPLACE),
            Self::Rules => words("routing rules", 32, 34, 12, NLM_F_EXCL),
        }
    }

    /// The entry as it is to be made; none where the kernel makes it, or is about to forget it.
    fn wanted(self, entry: &[u8]) -> Option<Vec<u8>> {
        let mut entry = entry.to_vec();
        match self {
            Self::Addresses | Self::Rules => {}
            Self::Routes => {
                let flags = u32::from_ne_bytes(entry.get(8..12)?.try_into().ok()?);
                if entry[4] == LOCAL || entry[5] == BY_KERNEL || flags & CLONED != 0 {
                    return None;
                }
                entry[8..12].copy_from_slice(&(flags & ONLINK).to_ne_bytes());
            }
            Self::Neighbours => {
                let state = u16::from_ne_bytes(entry.get(8..10)?.try_into().ok()?);
                let state = match state {
                    NUD_REACHABLE | NUD_STALE | NUD_PERMANENT => state,
                    NUD_DELAY | NUD_PROBE => NUD_STALE,
                    _ => return None,
                };
                if entry[0] == AF_BRIDGE {
                    return None;
                }
                entry[8..10].copy_from_slice(&state.to_ne_bytes());
            }
        }
        Some(entry)
    }

    /// The part by which an entry is told from others: an address has its age beside it, and one that is set again may
    /// lose its route.
    fn identity(self, entry: &[u8]) -> Vec<u8> {
        const IFA_CACHEINFO: u16 = 6;
        let (Self::Addresses, Some((header, rest))) = (self, entry.split_at_checked(8)) else {
            return entry.to_vec();
        };
        let mut identity = header.to_vec();
        for (kind, value) in attributes(rest).filter(|(kind, _)| *kind != IFA_CACHEINFO) {
            identity.extend(kind.to_ne_bytes());
            identity.extend(value);
        }
        identity
    }
}

/// Whether a route leads over a gateway, which another route must reach first.
fn has_gateway(route: &[u8]) -> bool {
    const RTA_VIA: u16 = 18;
    let by_gateway = [libc::RTA_GATEWAY, libc::RTA_MULTIPATH, RTA_VIA];
    attributes(route.get(12..).unwrap_or_default()).any(|(kind, _)| by_gateway.contains(&kind))
}

impl Handle {
    fn entries(&mut self, table: Table) -> Result<Vec<Vec<u8>>, Error> {
        let words = table.words();
        let question = vec![0; words.header_bytes];
        let action = format!("list {}", words.name);
        let request = Request::raw(words.get, 0, &question, action);
        self.dump(&request, |entry| table.wanted(entry))
    }

    /// Makes the entries of `from`'s table that this namespace lacks. Fails with what the kernel refuses.
    pub fn copy_table(&mut self, from: &mut Handle, table: Table) -> Result<(), Error> {
        let words = table.words();
        let present = self.entries(table)?;
        let mut missing = from.entries(table)?;
        let present: Vec<Vec<u8>> = present.iter().map(|entry| table.identity(entry)).collect();
        missing.retain(|entry| !present.contains(&table.identity(entry)));
        if table == Table::Routes {
            missing.sort_by_key(|route| has_gateway(route));
        }
        let action = format!("copy {}", words.name);
        let requests: Vec<Request<'_>> = missing
            .iter()
            .map(|entry| Request::raw(words.new, words.flags, entry, action.clone()))
            .collect();
        self.apply_all(&requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_of_the_kernel_and_unsure_neighbours_are_left_out() {
        let route = |table: u8, protocol: u8, flags: u32| {
            let mut entry = vec![2, 24, 0, 0, table, protocol, 0, 1];
            entry.extend(flags.to_ne_bytes());
            entry
        };
        let routes = |entry: Vec<u8>| Table::Routes.wanted(&entry);
        assert_eq!(routes(route(LOCAL, 4, 0)), None);
        assert_eq!(routes(route(254, BY_KERNEL, 0)), None);
        assert_eq!(routes(route(254, 4, CLONED)), None);
        // A link that was down is no wish.
        let wanted = routes(route(254, 4, ONLINK | 16));
        assert_eq!(wanted, Some(route(254, 4, ONLINK)));
        let neighbour = |family: u8, state: u16| {
            let mut entry = vec![family, 0, 0, 0, 2, 0, 0, 0];
            entry.extend(state.to_ne_bytes());
            entry.extend([0, 1]);
            entry
        };
        let neighbours = |entry: Vec<u8>| Table::Neighbours.wanted(&entry);
        assert_eq!(neighbours(neighbour(2, 0x20)), None);
        assert_eq!(neighbours(neighbour(AF_BRIDGE, NUD_PERMANENT)), None);
        let wanted = neighbours(neighbour(2, NUD_PROBE));
        assert_eq!(wanted, Some(neighbour(2, NUD_STALE)));
        for table in [Table::Routes, Table::Neighbours] {
            assert_eq!(table.wanted(&[2, 0]), None);
        }
    }

    #[test]
    fn an_address_is_the_same_at_another_age() {
        let address = |value: u8, age: u8| {
            let header = [2, 24, 0, 0, 2, 0, 0, 0];
            let local = [8, 0, 2, 0, 10, 0, 0, value];
            let info = [8, 0, 6, 0, age, 0, 0, 0];
            Table::Addresses.identity(&[header, local, info].concat())
        };
        assert_eq!(address(1, 1), address(1, 2));
        assert_ne!(address(1, 1), address(2, 1));
    }

    #[test]
    fn a_gateway_is_seen() {
        let mut route = vec![0; 12];
        assert!(!has_gateway(&route));
        route.extend([8, 0, 5, 0, 10, 0, 0, 1]);
        assert!(has_gateway(&route));
    }
}
