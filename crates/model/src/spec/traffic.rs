//! The traffic of a measurement, and the device that carries it on: the words of `arrival`, `via`, `device`, `poll`.

use super::reader::words;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Arrival {
    #[default]
    Constant,
    Poisson,
}
words!(Arrival, "a way packets arrive", { "constant" => Constant, "poisson" => Poisson });

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// UDP sockets, one system call a packet: as applications send.
    Socket,
    /// A packet socket, several frames in one call when several are due. They pass the taps.
    Packet,
    /// AF_XDP: the fastest. They pass no filter of their interface, and so no tap.
    Xdp,
}
words!(Via, "a way packets leave", { "socket" => Socket, "packet" => Packet, "xdp" => Xdp });

/// The device that carries packets on in the nodes that a `forward` measurement goes through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Device {
    /// The device that the lab has there: the kernel, or a program of the node's own.
    #[default]
    Lab,
    /// A bridge in the node's kernel.
    Bridge,
    /// IP forwarding by the node's kernel.
    Route,
    /// The same with masquerading by nftables.
    Nat,
    /// An XDP program that sends frames on where they come in.
    Xdp,
    /// latlab's layer-2 forwarder in user space, over packet sockets.
    AfPacket,
    /// The same over AF_XDP.
    AfXdp,
    /// DPDK's `dpdk-testpmd`, forwarding between both interfaces.
    Testpmd,
}
words!(Device, "a device under test", {
    "lab" => Lab, "bridge" => Bridge, "route" => Route, "nat" => Nat, "xdp" => Xdp,
    "af-packet" => AfPacket, "af-xdp" => AfXdp, "testpmd" => Testpmd,
});

impl Device {
    /// Whether it decides by IP address, so that its neighbours send to it and not through it.
    pub fn routes(self) -> bool {
        matches!(self, Device::Route | Device::Nat)
    }

    /// Whether it is latlab's own program, which can wait in two ways.
    pub fn is_own_program(self) -> bool {
        matches!(self, Device::AfPacket | Device::AfXdp)
    }

    /// Whether it takes frames before any filter of its interface sees them.
    pub fn precedes_taps(self) -> bool {
        matches!(self, Device::Xdp | Device::AfXdp)
    }

    pub fn describe(self) -> &'static str {
        match self {
            Device::Lab => "the lab's own",
            Device::Bridge => "a bridge of the kernel",
            Device::Route => "the kernel's IP forwarding",
            Device::Nat => "the kernel's IP forwarding with masquerading",
            Device::Xdp => "an XDP forwarder",
            Device::AfPacket => "latlab's layer-2 forwarder over packet sockets",
            Device::AfXdp => "latlab's layer-2 forwarder over AF_XDP",
            Device::Testpmd => "dpdk-testpmd",
        }
    }
}

/// Whether latlab's forwarder spins or sleeps while nothing comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Polling {
    #[default]
    Busy,
    Block,
}
words!(Polling, "a way to wait", { "busy" => Busy, "block" => Block });
