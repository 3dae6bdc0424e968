//! Whether a controller is that of the machine on which latlab runs.

use std::fs;

use crate::controller::Controller;

/// The UUID of this machine's firmware, readable by root.
const OWN_UUID: &str = "/sys/class/dmi/id/product_uuid";

/// Whether the controller tells the UUID of this machine. False where either of them tells none.
pub fn is_this_machine(controller: &dyn Controller) -> bool {
    let Ok(own) = fs::read_to_string(OWN_UUID) else {
        return false;
    };
    let told = controller.uuid().ok().flatten();
    told.is_some_and(|told| same_uuid(&told, &own))
}

/// Compares two UUIDs whose bytes may be in any of three orders: as written, SMBIOS's (first three fields little-endian) and
/// IPMI's (all bytes reversed; IPMI 2.0, 20.8).
pub fn same_uuid(a: &str, b: &str) -> bool {
    let (Some(a), Some(b)) = (bytes(a), bytes(b)) else {
        return false;
    };
    if a.iter().all(|byte| *byte == 0) || a.iter().all(|byte| *byte == 0xff) {
        return false;
    }
    let mut reversed = a;
    reversed.reverse();
    [a, reversed]
        .iter()
        .any(|order| *order == b || swapped(*order) == b)
}

fn swapped(mut uuid: [u8; 16]) -> [u8; 16] {
    uuid[..4].reverse();
    uuid[4..6].reverse();
    uuid[6..8].reverse();
    uuid
}

fn bytes(text: &str) -> Option<[u8; 16]> {
    let digits: Option<Vec<u32>> = text
        .trim()
        .chars()
        .filter(|c| *c != '-')
        .map(|c| c.to_digit(16))
        .collect();
    let pairs: Vec<u8> = digits?
        .chunks_exact(2)
        .filter_map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok())
        .collect();
    pairs.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_recognised_in_every_order_of_its_bytes() {
        let own = "00112233-4455-6677-8899-aabbccddeeff";
        assert!(same_uuid(own, "00112233-4455-6677-8899-AABBCCDDEEFF\n"));
        assert!(same_uuid("33221100-5544-7766-8899-aabbccddeeff", own));
        assert!(same_uuid("ffeeddcc-bbaa-9988-7766-554433221100", own));
        assert!(!same_uuid("00112233-4455-6677-8899-aabbccddeefe", own));
    }

    #[test]
    fn what_is_no_uuid_is_no_machine() {
        let zero = "00000000-0000-0000-0000-000000000000";
        assert!(!same_uuid(zero, zero));
        assert!(!same_uuid("Not Settable", "Not Settable"));
        assert!(!same_uuid("", ""));
    }
}
