//! Access to the programs' maps.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::error::Error;

pub(super) fn write(
    map: &MapHandle,
    key: &[u8],
    value: &[u8],
    action: &'static str,
) -> Result<(), Error> {
    map.update(key, value, MapFlags::ANY)
        .map_err(|error| Error::map(action, &error))
}

pub(super) fn read(
    map: &MapHandle,
    key: &[u8],
    action: &'static str,
) -> Result<Option<Vec<u8>>, Error> {
    map.lookup(key, MapFlags::ANY)
        .map_err(|error| Error::map(action, &error))
}

pub(super) fn remove(map: &MapHandle, key: &[u8], action: &'static str) -> Result<(), Error> {
    match map.delete(key) {
        Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
            Err(Error::map(action, &error))
        }
        _ => Ok(()),
    }
}

/// Sets a value of all CPUs to zero.
pub(super) fn clear(
    map: &MapHandle,
    key: &[u8],
    bytes: usize,
    action: &'static str,
) -> Result<(), Error> {
    let cpus = libbpf_rs::num_possible_cpus().map_err(|error| Error::map(action, &error))?;
    let zeros = vec![vec![0; bytes]; cpus];
    map.update_percpu(key, &zeros, MapFlags::ANY)
        .map_err(|error| Error::map(action, &error))
}
