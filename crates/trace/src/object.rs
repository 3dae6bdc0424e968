//! BPF objects, loaded with the size of a map and with constants.

use latlab_bpf::{listen, said};
use libbpf_rs::{Object, ObjectBuilder};

/// Loads an object: the map of a name gets as many entries, and `constants` fills the read-only data. Fails with libbpf's
/// reason.
pub(crate) fn load(
    bytes: &[u8],
    (sized, entries): (&str, u32),
    constants: impl Fn(&mut [u8]),
) -> Result<Object, String> {
    listen();
    let failed = |error: libbpf_rs::Error| said(&error);
    let mut open = ObjectBuilder::default()
        .open_memory(bytes)
        .map_err(failed)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name == sized {
            map.set_max_entries(entries.max(1)).map_err(failed)?;
        } else if name.ends_with(".rodata") {
            if let Some(value) = map.initial_value_mut() {
                constants(value);
            }
        }
    }
    open.load().map_err(failed)
}
