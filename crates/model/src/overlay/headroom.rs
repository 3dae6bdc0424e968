//! Room for headers at containers' interfaces: the label of what gives it.

/// The label (`ip link` shows it as `alias`) of the interfaces by which the daemon gives containers room for
/// headers. They carry nothing, and are to stay down.
pub const HEADROOM_ALIAS: &str = "latlab overlay: room for headers, never up";
