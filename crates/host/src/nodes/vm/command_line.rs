//! The words of QEMU's command line.

use std::ffi::OsString;
use std::path::Path;

#[derive(Default)]
pub(super) struct Line(pub(super) Vec<OsString>);

impl Line {
    pub(super) fn option(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.push(name.into());
        self.0.push(value.into());
    }

    pub(super) fn path(&mut self, name: &str, start: &str, path: &Path) {
        let mut value = OsString::from(start);
        value.push(escaped(path));
        self.option(name, value);
    }
}

/// QEMU separates properties by commas and takes a doubled one for itself.
fn escaped(path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut bytes = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        bytes.push(*byte);
        if *byte == b',' {
            bytes.push(b',');
        }
    }
    OsString::from_vec(bytes)
}

/// The name of a guest's QEMU. Thread names make the vCPUs recognisable in the host's tools.
pub(super) fn process_name(guest: &str) -> String {
    format!("latlab-{},debug-threads=on", escaped_text(guest))
}

pub(super) fn escaped_text(text: &str) -> String {
    text.replace(',', ",,")
}
