//! Options whose values are pairs.

/// `HOST=KEY`, a key of Curve25519 in hexadecimal.
pub(super) fn peer_key(text: &str) -> Result<(String, String), String> {
    let is_key = |key: &str| key.len() == 64 && key.chars().all(|c| c.is_ascii_hexdigit());
    match text.split_once('=') {
        Some((host, key)) if !host.is_empty() && is_key(key) => {
            Ok((host.into(), key.to_lowercase()))
        }
        _ => Err("write HOST=KEY, as `latlab host-key` prints it: 64 hexadecimal digits".into()),
    }
}

/// `NODE=HOST`.
pub(super) fn node_place(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((node, host)) if !node.is_empty() && !host.is_empty() => {
            Ok((node.into(), host.into()))
        }
        _ => Err("write NODE=HOST".into()),
    }
}
