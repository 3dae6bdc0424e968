//! The loopback of the supervisor's own network namespace.

use std::fs;

use latlab_netlink::{Error, Handle, LinkChange};

/// Connections in TIME_WAIT that a namespace keeps (kernel: networking/ip-sysctl).
const MAX_WAITING: &str = "/proc/sys/net/ipv4/tcp_max_tw_buckets";

/// Which ends of a namespace may send data with the first segment (kernel: networking/ip-sysctl).
const FAST_OPEN: &str = "/proc/sys/net/ipv4/tcp_fastopen";

/// Sets the loopback interface of the calling thread's namespace up.
pub fn loopback_up() -> Result<(), Error> {
    Handle::open()?.apply(&LinkChange::of("lo").up(true).request())
}

/// Makes the calling thread's namespace one of shadows.
///
/// Its closed connections keep no port for a minute. Nothing is late on a loopback, nor on a lab's wire between two namespaces,
/// that would have to be waited for, and there are ports for 470 connections a second only. A kernel that has this for all
/// namespaces alone refuses it, and short connections are fewer.
///
/// No program connects a shadow anew that was reset, by sending data (sendto(2), MSG_FASTOPEN): no filter sees that, and it
/// would be a connection of this namespace.
pub fn keep_shadows() {
    fs::write(MAX_WAITING, "0").ok();
    fs::write(FAST_OPEN, "0").ok();
}
