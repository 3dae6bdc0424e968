//! One netlink request as bytes, with the words for its error message.
//!
//! Requests are encoded when they are made, so that a batch can be prepared (in parallel, if need
//! be) and sent in one go. A request that names a file descriptor borrows it: the descriptor must
//! still be open when the kernel reads the message.

use std::marker::PhantomData;

use netlink_packet_core::{Emitable, NLM_F_REQUEST};
use netlink_packet_route::RouteNetlinkMessage;

const FLAGS: std::ops::Range<usize> = 6..8;
const SEQUENCE: std::ops::Range<usize> = 8..12;

/// An encoded request. `'fd` is the life of the namespace descriptors it refers to.
#[derive(Debug, Clone)]
pub struct Request<'fd> {
    bytes: Vec<u8>,
    flags: u16,
    action: String,
    descriptors: PhantomData<&'fd ()>,
}

impl Request<'_> {
    /// Encodes `message`; `flags` are added to `NLM_F_REQUEST`.
    pub(crate) fn new(message: &RouteNetlinkMessage, flags: u16, action: String) -> Self {
        let mut payload = vec![0; message.buffer_len()];
        message.emit(&mut payload);
        Self::raw(message.message_type(), flags, &payload, action)
    }

    /// A message of type `kind` whose payload the kernel gave; `flags` are added to `NLM_F_REQUEST`.
    pub(crate) fn raw(kind: u16, flags: u16, payload: &[u8], action: String) -> Self {
        const HEADER_BYTES: usize = 16;
        let flags = flags | NLM_F_REQUEST;
        let padded = payload.len().next_multiple_of(4);
        let length = (HEADER_BYTES + padded) as u32;
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend(payload);
        bytes.resize(HEADER_BYTES + padded, 0);
        Self {
            bytes,
            flags,
            action,
            descriptors: PhantomData,
        }
    }

    pub fn action(&self) -> &str {
        &self.action
    }

    /// Length in bytes when sent. Netlink messages are padded to four bytes, and every attribute
    /// is, so no padding between messages is needed.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the message to `buffer` with this sequence number and these extra flags.
    pub(crate) fn emit(&self, buffer: &mut Vec<u8>, sequence: u32, extra_flags: u16) {
        let start = buffer.len();
        buffer.extend_from_slice(&self.bytes);
        let message = &mut buffer[start..];
        message[FLAGS].copy_from_slice(&(self.flags | extra_flags).to_ne_bytes());
        message[SEQUENCE].copy_from_slice(&sequence.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NLM_F_ACK, NetlinkMessage};
    use netlink_packet_route::link::LinkMessage;

    use super::*;

    #[test]
    fn sequence_and_flags_are_patched_in_place() {
        let request = Request::new(
            &RouteNetlinkMessage::GetLink(LinkMessage::default()),
            0,
            "read".into(),
        );
        let mut buffer = vec![0xaa; 4];
        request.emit(&mut buffer, 0x0102_0304, NLM_F_ACK);
        let parsed = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&buffer[4..]).unwrap();
        assert_eq!(parsed.header.sequence_number, 0x0102_0304);
        assert_eq!(parsed.header.flags, NLM_F_REQUEST | NLM_F_ACK);
        assert_eq!(parsed.header.length as usize, request.len());
        assert_eq!(request.len() % 4, 0);
    }
}
