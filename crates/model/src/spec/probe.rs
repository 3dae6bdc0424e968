//! The words of `probe` and `protocol`.

use super::reader::words;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Request/response, one transaction in flight.
    Rr,
    /// Open-loop packets at a fixed rate, timed one way from their intended send time.
    Packets,
    /// Bulk transfer by iperf3.
    Stream,
    /// Packets through a device under test, each timed by taps before and behind it, and the slow ones
    /// explained by what the kernel did meanwhile.
    Forward,
    /// A program that runs in nodes, and a figure from its output.
    Workload,
}
words!(Probe, "a probe", {
    "rr" => Rr, "packets" => Packets, "stream" => Stream, "forward" => Forward,
    "workload" => Workload,
});

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
    Icmp,
}
words!(Protocol, "a protocol", { "tcp" => Tcp, "udp" => Udp, "icmp" => Icmp });
