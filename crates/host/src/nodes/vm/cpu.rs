//! The CPU model of a guest, as its lab wants it.

use std::ffi::OsStr;
use std::time::Duration;

use latlab_model::kinds::VmHardware;

use super::accelerator::{Accelerator, PROGRAM};
use super::error::Error;
use crate::sys::command::output;

/// QEMU makes a machine in 50 ms.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The value of QEMU's `-cpu`. What a lab asks for is there, or QEMU does not start: it would leave out a feature with
/// a warning only.
pub(super) fn chosen(accelerator: Accelerator, hardware: &VmHardware) -> String {
    let model = hardware.cpu.as_deref();
    let mut cpu = model.unwrap_or(accelerator.cpu_model()).to_owned();
    for feature in &hardware.features {
        cpu.push(',');
        cpu.push_str(feature);
    }
    if model.is_some() || !hardware.features.is_empty() {
        cpu.push_str(",enforce");
    }
    cpu
}

/// Has QEMU make a machine with the CPU, which it does not start, before anything is changed for the lab.
pub(super) fn check(accelerator: Accelerator, hardware: &VmHardware) -> Result<(), Error> {
    if hardware.cpu.is_none() && hardware.features.is_empty() {
        return Ok(());
    }
    let cpu = chosen(accelerator, hardware);
    let arguments = [
        "-nodefaults",
        "-no-user-config",
        "-S",
        "-display",
        "none",
        "-machine",
        "q35,sata=off",
        "-m",
        "16M",
        "-monitor",
        "stdio",
        "-accel",
        accelerator.qemu_name(),
        "-cpu",
        &cpu,
    ];
    match output(OsStr::new(PROGRAM), &arguments, "quit\n", TIMEOUT) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::Cpu {
            cpu,
            reason: error.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_without_wishes_is_the_accelerators() {
        let plain = VmHardware::default();
        assert_eq!(chosen(Accelerator::Tcg, &plain), "max");
        assert_eq!(chosen(Accelerator::Kvm, &plain), "host");
    }

    #[test]
    fn what_is_asked_for_is_insisted_on() {
        let features = vec!["-avx2".to_owned(), "hv-relaxed=on".to_owned()];
        let mut hardware = VmHardware {
            features,
            ..VmHardware::default()
        };
        let cpu = chosen(Accelerator::Kvm, &hardware);
        assert_eq!(cpu, "host,-avx2,hv-relaxed=on,enforce");
        hardware.features.clear();
        hardware.cpu = Some("Nehalem".into());
        assert_eq!(chosen(Accelerator::Tcg, &hardware), "Nehalem,enforce");
    }
}
