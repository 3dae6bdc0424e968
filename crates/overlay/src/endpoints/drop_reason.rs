//! Reasons why frames are dropped.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// No route, no learned address, and no port to flood to.
    NoRoute,
    /// The source address is bound to another port.
    Spoofed,
    NoBuffer,
    Down,
    /// Longer than the port takes, and it cannot be cut.
    TooLong,
    /// Invalid headers, descriptors or lengths.
    Malformed,
    Limited,
    /// The frame returned to a host that it had left.
    Loop,
    /// The peer or the network is not configured here.
    Unknown,
    /// The kernel refused to send it.
    Refused,
    /// Not authentic, or seen before (encrypted links).
    Unauthentic,
    /// Other slices of the frame never arrived.
    Incomplete,
}

impl DropReason {
    /// All, in the order of the counters.
    pub const ALL: [DropReason; 12] = [
        DropReason::NoRoute,
        DropReason::Spoofed,
        DropReason::NoBuffer,
        DropReason::Down,
        DropReason::TooLong,
        DropReason::Malformed,
        DropReason::Limited,
        DropReason::Loop,
        DropReason::Unknown,
        DropReason::Refused,
        DropReason::Unauthentic,
        DropReason::Incomplete,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::NoRoute => "no_route",
            DropReason::Spoofed => "spoofed_source",
            DropReason::NoBuffer => "no_buffer",
            DropReason::Down => "down",
            DropReason::TooLong => "too_long",
            DropReason::Malformed => "malformed",
            DropReason::Limited => "limited",
            DropReason::Loop => "loop",
            DropReason::Unknown => "unknown_peer",
            DropReason::Refused => "refused",
            DropReason::Unauthentic => "unauthentic",
            DropReason::Incomplete => "incomplete",
        }
    }
}
