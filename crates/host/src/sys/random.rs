//! Random numbers of the kernel.

use rustix::rand::{GetRandomFlags, getrandom};

use crate::hex::digits;

/// `BYTES` random bytes as hexadecimal digits.
pub fn hex<const BYTES: usize>() -> String {
    let mut bytes = [0; BYTES];
    // With flags 0 it blocks in the first moments of a boot, where a signal may end it. Up to 256 bytes come at once.
    while getrandom(&mut bytes, GetRandomFlags::empty()).is_err() {}
    digits(&bytes)
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
