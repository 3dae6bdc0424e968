//! The Internet checksum (RFC 1071) of bytes whose checksum field is 0.

pub fn checksum(message: &[u8]) -> u16 {
    let pairs = message.chunks_exact(2);
    let last = pairs
        .remainder()
        .first()
        .map_or(0, |&byte| u32::from(byte) << 8);
    let mut sum = pairs.fold(last, |sum, pair| {
        sum + u32::from(u16::from_be_bytes([pair[0], pair[1]]))
    });
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_folds_all_carries() {
        assert_eq!(checksum(&[0xff; 65_508]), 0);
        assert_eq!(checksum(&[]), 0xffff);
    }
}
