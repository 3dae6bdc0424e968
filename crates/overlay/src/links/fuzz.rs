//! Parsers of outside bytes, for the fuzz targets.

use std::net::SocketAddr;
use std::time::Instant;

use latlab_wire::overlay::PrivateHeader;

use super::udp::{Outcome, Reassembly};

pub fn reassemble<'a>(datagrams: impl IntoIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut reassembly = Reassembly::default();
    let mut frames = Vec::new();
    let now = Instant::now();
    for (nth, datagram) in datagrams.into_iter().enumerate() {
        let Ok((header, slice)) = PrivateHeader::parse(datagram) else {
            continue;
        };
        let from = SocketAddr::from(([192, 0, 2, 1], u16::from(header.hops % 4)));
        if let Outcome::Whole(header, segment) = reassembly.add(from, &header, slice, now, |_| ()) {
            let mut frame = vec![0; segment.len()];
            segment.copy_to(&mut frame);
            assert_eq!(frame.len(), header.whole as usize);
            frames.push(frame);
        }
        if nth % 8 == 7 {
            reassembly.complete();
        }
    }
    frames
}
