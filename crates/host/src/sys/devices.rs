//! Which devices the processes of a cgroup may open or make.
//!
//! On the unified tree that is a BPF program attached to the group (kernel: bpf/prog_cgroup_device), which goes away
//! with the group; on version 1 the `devices` controller (cgroup-v1/devices). Both are given the same list here.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::Error;
use super::bpf::{self, instruction};
use crate::sync;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// A block device, else a character device.
    pub block: bool,
    pub major: u32,
    /// Its minor number; any, if none is given.
    pub minor: Option<u32>,
}

/// Devices that every program expects: null, zero, full, random, urandom, tty, ptmx, its own
/// terminals, and the clone device of tun and tap interfaces (kernel: admin-guide/devices).
pub const COMMON: [Device; 9] = [
    character(1, Some(3)),
    character(1, Some(5)),
    character(1, Some(7)),
    character(1, Some(8)),
    character(1, Some(9)),
    character(5, Some(0)),
    character(5, Some(2)),
    character(136, None),
    character(10, Some(200)),
];

const fn character(major: u32, minor: Option<u32>) -> Device {
    Device {
        block: false,
        major,
        minor,
    }
}

impl Device {
    /// The device that the file `path` stands for; `None` if it is no device.
    pub fn of_file(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        let kind = found.file_type();
        let device = found.rdev();
        (kind.is_block_device() || kind.is_char_device()).then(|| Self {
            block: kind.is_block_device(),
            major: rustix::fs::major(device),
            minor: Some(rustix::fs::minor(device)),
        })
    }

    /// As the controller of version 1 reads it.
    pub fn rule(&self) -> String {
        let kind = if self.block { 'b' } else { 'c' };
        let minor = self.minor.map_or("*".to_owned(), |m| m.to_string());
        format!("{kind} {}:{minor} rwm", self.major)
    }
}

/// Programs that were loaded, by their list of devices. Nodes with the same list share one: the kernel takes 0.3 ms to
/// verify and compile a program.
#[derive(Debug, Default, Clone)]
pub struct Programs(Arc<Mutex<Vec<Loaded>>>);

#[derive(Debug)]
struct Loaded {
    allowed: Vec<Device>,
    program: OwnedFd,
}

impl Programs {
    /// Restricts the group at `dir`, on the unified tree, to the devices of `allowed`.
    pub fn restrict(&self, dir: &Path, allowed: &[Device]) -> Result<(), Error> {
        let failed = |source| Error::of("restrict the devices of", dir.display())(source);
        let group = File::open(dir).map_err(failed)?;
        // A list that is only added to is whole after a panic, too.
        let mut loaded = sync::lock(&self.0);
        let at = match loaded.iter().position(|one| one.allowed == allowed) {
            Some(at) => at,
            None => {
                let program = bpf::load(bpf::CGROUP_DEVICE, &program(allowed)).map_err(failed)?;
                loaded.push(Loaded {
                    allowed: allowed.to_vec(),
                    program,
                });
                loaded.len() - 1
            }
        };
        bpf::attach_to_cgroup(group.as_fd(), loaded[at].program.as_fd()).map_err(failed)
    }
}

/// Returns 1 for the devices of the list and 0 for all others. The context holds three words: in
/// the lower half of the first the kind of device, then its major and minor numbers.
fn program(allowed: &[Device]) -> Vec<[u8; 8]> {
    const LOAD: u8 = 0x61;
    const AND: u8 = 0x54;
    const SET: u8 = 0xb7;
    const JUMP_UNLESS_EQUAL: u8 = 0x56;
    const EXIT: u8 = 0x95;
    const BLOCK: i32 = 1;
    const CHARACTER: i32 = 2;
    let mut program = vec![
        instruction(LOAD, 0x12, 0, 0),
        instruction(AND, 0x02, 0, 0xffff),
        instruction(LOAD, 0x13, 4, 0),
        instruction(LOAD, 0x14, 8, 0),
    ];
    for device in allowed {
        let kind = if device.block { BLOCK } else { CHARACTER };
        let mut tests = vec![(2, kind), (3, device.major as i32)];
        tests.extend(device.minor.map(|minor| (4, minor as i32)));
        // The rest of this device's tests, and the two instructions of its answer.
        for (at, (register, value)) in tests.iter().enumerate() {
            let skip = (tests.len() - at - 1 + 2) as i16;
            program.push(instruction(JUMP_UNLESS_EQUAL, *register, skip, *value));
        }
        program.push(instruction(SET, 0, 0, 1));
        program.push(instruction(EXIT, 0, 0, 0));
    }
    program.push(instruction(SET, 0, 0, 0));
    program.push(instruction(EXIT, 0, 0, 0));
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_written_as_the_controller_reads_them() {
        assert_eq!(COMMON[0].rule(), "c 1:3 rwm");
        assert_eq!(COMMON[7].rule(), "c 136:* rwm");
        let disk = Device {
            block: true,
            ..character(254, Some(0))
        };
        assert_eq!(disk.rule(), "b 254:0 rwm");
    }

    #[test]
    fn only_files_of_devices_are_devices() {
        assert_eq!(Device::of_file(Path::new("/dev/null")), Some(COMMON[0]));
        assert_eq!(Device::of_file(Path::new("/etc/passwd")), None);
        assert_eq!(Device::of_file(Path::new("/no/such/file")), None);
    }
}
