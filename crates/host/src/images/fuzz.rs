//! Entry points for fuzzing: each takes any bytes and must neither panic nor hang.

use std::io::Cursor;

use super::{archive::Archive, budget::Budget, codec, layer as layers, manifest};

/// The bytes as an archive: its table of contents and its documents.
pub fn archive(bytes: &[u8]) {
    if let Ok(mut archive) = Archive::read(Cursor::new(bytes)) {
        let _ = manifest::find(&mut archive);
    }
}

/// The bytes as a compressed layer, up to the list of what it would change.
pub fn layer(bytes: &[u8]) {
    let mut budget = Budget::of_bytes(1 << 30);
    let layer = codec::decompress(Cursor::new(bytes));
    let _ = layer.map(|layer| layers::scan(layer, &mut budget));
}
