//! The messages of the channel.

use std::net::IpAddr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    Stdin,
    Stdout,
    Stderr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitStatus {
    Code(u8),
    Signal(u8),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exec {
    /// The program and its arguments. A first element of `latlab-agent` means the agent's own binary,
    /// which need not be in the guest's file system.
    pub argv: Vec<String>,
    /// Environment entries set over the agent's own small default (`PATH`, `HOME`, `TERM`).
    pub env: Vec<(String, String)>,
    /// The directory to start in; `/` when absent.
    pub cwd: Option<String>,
    /// The user to run as; root when absent. The group has the same number.
    pub uid: Option<u32>,
    /// Start it with all three streams on `/dev/null` and report success as soon as it runs: it then
    /// belongs to the guest, not to the session, and outlives the client.
    pub detach: bool,
}

/// One interface to set up, found by its hardware address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub mac: [u8; 6],
    /// The address by which it is found, where that is another one: a card of hardware has its own.
    pub own_mac: Option<[u8; 6]>,
    /// The name the lab gives it, at most 15 bytes.
    pub name: String,
    /// MTU in bytes, when not the device's own.
    pub mtu: Option<u32>,
    pub addresses: Vec<(IpAddr, u8)>,
}

/// One route to add after all interfaces are up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Destination network; `0.0.0.0/0` or `::/0` for the default route.
    pub destination: (IpAddr, u8),
    pub gateway: Option<IpAddr>,
    /// Outgoing interface, by the lab's name.
    pub interface: Option<String>,
}

/// The guest's whole network set-up in one request. The loopback is always brought up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkConfig {
    /// Interfaces, in the order they are named and brought up.
    pub interfaces: Vec<Interface>,
    pub routes: Vec<Route>,
    /// The text of `/etc/hosts`, if it is the guest's.
    pub hosts: Option<String>,
}

/// The identity of a guest that began as a copy of another one. One that has no root yet mounts it then; one that
/// was saved with an identity changes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The words that a guest which boots has on its kernel's command line for its agent.
    pub parameters: String,
    /// Hardware addresses of its network cards: that of the guest that was saved, and its own.
    pub macs: Vec<([u8; 6], [u8; 6])>,
    pub renewal: Renewal,
}

/// News for a guest that goes on where it was saved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewal {
    /// Random bytes that no other guest gets, for the kernel's generator.
    pub entropy: Vec<u8>,
    /// The time of day, in nanoseconds since 1970.
    pub realtime_ns: u64,
}

/// Everything that can be said on the channel. Sessions are numbered by the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Host: a new client begins.
    Hello {
        version: u16,
        /// Any number the client has not used before; comes back in the answer.
        nonce: u64,
    },
    /// Agent: the port is this client's.
    HelloAck {
        version: u16,
        nonce: u64,
        /// Nanoseconds of the guest's monotonic clock (about: since its boot) at this answer.
        guest_monotonic_ns: u64,
        /// Why the guest is unusable although its agent runs (a root that would not mount), if so.
        failure: Option<String>,
    },
    /// Host: start a process as this session.
    Exec { session: u32, exec: Exec },
    /// Bytes of a stream, against credit.
    Data {
        session: u32,
        stream: Stream,
        /// At most [`MAX_PAYLOAD`](super::MAX_PAYLOAD) bytes.
        data: Vec<u8>,
    },
    /// No more bytes will follow on this stream.
    End { session: u32, stream: Stream },
    /// The receiver of a stream has consumed this many bytes of it.
    Credit {
        session: u32,
        stream: Stream,
        /// Bytes that may be sent beyond what was allowed before.
        bytes: u32,
    },
    /// Host: send a signal to the session's process group.
    Signal {
        session: u32,
        /// Signal number as on the guest.
        signal: u8,
    },
    /// Agent: the process ended and all its output was sent. The session is over.
    Exit { session: u32, status: ExitStatus },
    /// Host: a copy becomes a guest of its own. Answered by `Done` or `Failed` with the same session number.
    Identify { session: u32, identity: Identity },
    /// Host: a guest goes on where it was saved. Answered by `Done` or `Failed` with the same session number.
    Renew { session: u32, renewal: Renewal },
    /// Host: set the network up. Answered by `Done` or `Failed` with the same session number.
    Network { session: u32, config: NetworkConfig },
    /// Agent: the request succeeded.
    Done { session: u32 },
    /// Agent: the request or the start of the process failed. The session is over.
    Failed {
        session: u32,
        /// The error number, or 0 where there is none.
        errno: u32,
        /// Object and action, one line.
        message: String,
    },
    /// Host: end all processes, flush, and turn the machine off.
    PowerOff,
}
