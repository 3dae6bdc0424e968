//! A device under test by hand.

use clap::{Args, ValueEnum};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ForwardBy {
    /// Packet sockets: two system calls per frame, works on every interface.
    #[default]
    AfPacket,
    /// AF_XDP: frames in memory shared with the kernel, taken before its network stack.
    AfXdp,
    /// An XDP program in the kernel that redirects each frame at the driver.
    Xdp,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab forward eth1 eth2
  latlab forward eth1 eth2 --by af-xdp --cpu 3            (polls: it occupies CPU 3)
  latlab forward eth1 eth2 --by af-packet --block         (sleeps while no frame arrives)
  ip netns exec middle latlab forward in out --by xdp --duration 10s

It joins two interfaces of this network namespace: every frame received on one leaves at the other, whatever \
its destination, and bypasses the kernel's network stack. With af-packet the stack gets a copy as well, so give \
the interfaces no addresses. It is the device under test of `latlab run forwarder`, timed by taps from outside; \
in a lab's measurement it is `device: af-packet`, `af-xdp` or `xdp`.

Polling (the default) occupies a whole CPU and has no wake-up in its latency; --block is interrupt-driven. \
AF_XDP loses checksum and segmentation offloads of the sender: on veth, `ethtool -K IF tx off` at both far ends \
lets TCP and UDP of ordinary sockets through; ARP, ICMP and latlab's own generator need no change. XDP programs \
are removed with the process, however it ends.")]
pub struct Forward {
    /// One interface.
    #[arg(value_name = "INTERFACE")]
    pub first: String,
    /// The other.
    #[arg(value_name = "INTERFACE")]
    pub second: String,
    /// Forwarding method.
    #[arg(long, value_enum, default_value_t)]
    pub by: ForwardBy,
    /// Sleep until a frame arrives instead of polling.
    #[arg(long)]
    pub block: bool,
    /// Run on these CPUs, e.g. 3 or 2-3.
    #[arg(long, value_name = "LIST")]
    pub cpu: Option<String>,
    /// Stop after this time [default: at Ctrl-C].
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
}
