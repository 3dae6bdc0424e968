//! The profiles that come with latlab: YAML like a user's own, to read and to copy from.

pub(super) const ALL: &[(&str, &str)] = &[
    ("default", include_str!("builtin/default.yaml")),
    ("throughput", include_str!("builtin/throughput.yaml")),
    ("isolated", include_str!("builtin/isolated.yaml")),
    ("realtime", include_str!("builtin/realtime.yaml")),
];
