//! Socket addresses in the kernel's form.

use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::{c_int, c_void, sockaddr_storage};

use super::socket::length;

#[derive(Clone, Copy)]
pub struct Address {
    pub(super) storage: sockaddr_storage,
    pub(super) len: libc::socklen_t,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", read_address(&self.storage))
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        // SAFETY: all zeros is a `sockaddr_storage`.
        let mut storage: sockaddr_storage = unsafe { zeroed() };
        let start = (&raw mut storage).cast::<c_void>();
        let len = match address {
            SocketAddr::V4(v4) => {
                let form = libc::sockaddr_in {
                    sin_family: libc::AF_INET as u16,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                // SAFETY: the storage has room and alignment for every form of address.
                unsafe { start.cast::<libc::sockaddr_in>().write(form) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let form = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as u16,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { start.cast::<libc::sockaddr_in6>().write(form) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        Address {
            storage,
            len: length(len),
        }
    }
}

pub(super) fn read_address(storage: &sockaddr_storage) -> SocketAddr {
    let start = (&raw const *storage).cast::<c_void>();
    if c_int::from(storage.ss_family) == libc::AF_INET6 {
        // SAFETY: the family says which form it has.
        let form = unsafe { start.cast::<libc::sockaddr_in6>().read() };
        let ip = IpAddr::V6(Ipv6Addr::from(form.sin6_addr.s6_addr)).to_canonical();
        SocketAddr::new(ip, u16::from_be(form.sin6_port))
    } else {
        // SAFETY: the storage is large enough; other families give a meaningless address.
        let form = unsafe { start.cast::<libc::sockaddr_in>().read() };
        let ip = Ipv4Addr::from(form.sin_addr.s_addr.to_ne_bytes());
        SocketAddr::new(ip.into(), u16::from_be(form.sin_port))
    }
}
