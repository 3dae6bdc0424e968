//! Random numbers of the kernel.

use std::fmt::Write;

use rustix::rand::{GetRandomFlags, getrandom};

/// `BYTES` random bytes as hexadecimal digits.
pub fn hex<const BYTES: usize>() -> String {
    let mut bytes = [0; BYTES];
    // With flags 0 it blocks in the first moments of a boot, where a signal may end it. Up to 256 bytes come at once.
    while getrandom(&mut bytes, GetRandomFlags::empty()).is_err() {}
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn two_differ() {
        let two = [hex::<16>(), hex::<16>()];
        assert_ne!(two[0], two[1]);
        assert!(two.iter().all(|text| text.len() == 32));
    }
}
