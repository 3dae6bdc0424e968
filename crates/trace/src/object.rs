//! BPF objects, loaded with the size of a map and with constants, and the memory of their maps.

use std::os::fd::AsFd;

use latlab_bpf::{listen, said};
use libbpf_rs::{MapCore, Object, ObjectBuilder, ProgramMut};

use crate::error::Error;
use crate::sys::Shared;

/// CPUs that the programs know, as in `latlab.h`.
pub(crate) const MAX_CPUS: usize = 1024;

/// Loads an object: the map of a name gets as many entries, and `constants` fills the read-only data. Fails with libbpf's
/// reason.
pub(crate) fn load(
    what: &'static str,
    bytes: &[u8],
    (sized, entries): (&str, u32),
    constants: impl Fn(&mut [u8]),
) -> Result<Object, Error> {
    listen();
    let failed = |error: libbpf_rs::Error| refused(what, said(&error));
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

/// The beginning of the map whose name ends so.
pub(crate) fn map(
    what: &'static str,
    object: &Object,
    suffix: &str,
    length: usize,
) -> Result<Shared, Error> {
    let mut maps = object.maps();
    let map = maps.find(|map| map.name().to_string_lossy().ends_with(suffix));
    let map = map.ok_or_else(|| refused(what, format!("its map {suffix} is missing")))?;
    Shared::map(map.as_fd(), length).map_err(|source| Error::Map { what, source })
}

/// The tracepoint that a program is written for, or another section's name.
pub(crate) fn tracepoint(program: &ProgramMut<'_>) -> String {
    let section = program.section().to_string_lossy();
    section.trim_start_matches("raw_tp/").to_string()
}

pub(crate) fn refused(what: &'static str, reason: String) -> Error {
    Error::Load { what, reason }
}
