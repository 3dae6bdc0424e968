//! IPv6 settings of every node, in namespaces that the host makes and in guests.
//!
//! Addresses must be usable at once (no duplicate address detection on the link-local ones either) and nothing may be sent
//! that the lab did not ask for: router solicitations would disturb a measurement and could configure addresses from
//! outside. The repetition of multicast membership reports, up to a second after everything is ready, is put off to some
//! time in a day.

/// Names in an interface's directory below `/proc/sys/net/ipv6/conf`, and their values.
pub const QUIET_IPV6: [(&str, &str); 4] = [
    ("accept_dad", "0"),
    ("accept_ra", "0"),
    ("router_solicitations", "0"),
    ("mldv2_unsolicited_report_interval", "86400000"),
];
