//! CRC-32C, which says whether a frame is one.

/// CRC-32C (Castagnoli, reflected 0x82F63B78), eight bytes a step: under software emulation a
/// byte-at-a-time table would be the channel's slowest part.
pub(super) fn frame_crc(header: &[u8], payload: &[u8]) -> u32 {
    !crc_update(crc_update(!0, header), payload)
}

fn crc_update(mut crc: u32, bytes: &[u8]) -> u32 {
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let low = crc ^ u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        let [a, b, c, d] = low.to_le_bytes();
        crc = CRC_TABLES[7][usize::from(a)]
            ^ CRC_TABLES[6][usize::from(b)]
            ^ CRC_TABLES[5][usize::from(c)]
            ^ CRC_TABLES[4][usize::from(d)]
            ^ CRC_TABLES[3][usize::from(chunk[4])]
            ^ CRC_TABLES[2][usize::from(chunk[5])]
            ^ CRC_TABLES[1][usize::from(chunk[6])]
            ^ CRC_TABLES[0][usize::from(chunk[7])];
    }
    for byte in chunks.remainder() {
        crc = (crc >> 8) ^ CRC_TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    crc
}

static CRC_TABLES: [[u32; 256]; 8] = crc_tables();

const fn crc_tables() -> [[u32; 256]; 8] {
    let mut tables = [[0_u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0x82F6_3B78
            } else {
                crc >> 1
            };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_is_castagnoli() {
        // The check value of CRC-32C in every catalogue, plus the byte-wise tail on its own.
        assert_eq!(frame_crc(b"", b"123456789"), 0xE306_9283);
        assert_eq!(frame_crc(b"123", b"456789"), 0xE306_9283);
    }
}
