//! Network cards without their driver. A card that no driver uses has no state beyond its reset, so a guest can be saved
//! with one server of its cards and go on with another.

use std::fs;
use std::path::{Path, PathBuf};

use crate::step::{StepError, step};

const DRIVER: &str = "/sys/bus/virtio/drivers/virtio_net";
const DEVICES: &str = "/sys/bus/virtio/devices";
/// A network card's number among virtio's devices (virtio 1.2, section 5).
const NETWORK_CARD: &str = "0x0001";

/// Takes the driver from all cards, which resets them.
pub fn release() -> Result<(), StepError> {
    all("unbind", |card| card.join("driver").exists())
}

/// Gives the driver to all cards.
pub fn bind() -> Result<(), StepError> {
    all("bind", |card| !card.join("driver").exists())
}

/// Writes the names of cards to a file of the driver's.
fn all(file: &str, is_wanted: impl Fn(&Path) -> bool) -> Result<(), StepError> {
    let file = format!("{DRIVER}/{file}");
    for card in cards()?.iter().filter(|card| is_wanted(card)) {
        let name = card.file_name().unwrap_or_default();
        step(fs::write(&file, name.as_encoded_bytes()), || {
            format!("write {} to {file}", name.to_string_lossy())
        })?;
    }
    Ok(())
}

fn cards() -> Result<Vec<PathBuf>, StepError> {
    let entries = step(fs::read_dir(DEVICES), || format!("list {DEVICES}"))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let is_card = |path: &PathBuf| {
        fs::read_to_string(path.join("device")).is_ok_and(|number| number.trim() == NETWORK_CARD)
    };
    Ok(paths.filter(is_card).collect())
}
