//! Drivers of a guest's network cards.
//!
//! A card that no driver uses has no state beyond its reset, so a guest can be saved with one server of its cards and go on
//! with another. Drivers of hardware that the guest was given are among the kernel's modules, which the image's `modprobe`
//! loads: no other program looks for them in a guest of latlab.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{StepError, step};

const DRIVER: &str = "/sys/bus/virtio/drivers/virtio_net";
const DEVICES: &str = "/sys/bus/virtio/devices";
/// A network card's number among virtio's devices (virtio 1.2, section 5).
const NETWORK_CARD: &str = "0x0001";

const BUS: &str = "/sys/bus/pci/devices";
/// Network controllers (PCI Code and ID Assignment, 1.3).
const NETWORK_CLASS: &str = "0x02";

/// Loads the drivers of network cards on the PCI bus that have none yet.
pub fn load_drivers() -> Result<(), StepError> {
    let entries = step(fs::read_dir(BUS), || format!("list {BUS}"))?;
    for card in entries.flatten().map(|entry| entry.path()) {
        let text = |file: &str| fs::read_to_string(card.join(file)).unwrap_or_default();
        if text("class").starts_with(NETWORK_CLASS) && !card.join("driver").exists() {
            let name = card.file_name().unwrap_or_default().to_string_lossy();
            step(load_driver(text("modalias").trim()), || {
                format!("load the driver of network card {name}")
            })?;
        }
    }
    Ok(())
}

fn load_driver(alias: &str) -> io::Result<()> {
    let path = "/usr/sbin:/usr/bin:/sbin:/bin";
    let said = Command::new("modprobe")
        .args(["--", alias])
        .env("PATH", path)
        .output()?;
    match said.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(
            String::from_utf8_lossy(&said.stderr).trim().to_owned(),
        )),
    }
}

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
