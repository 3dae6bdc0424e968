//! Messages of 9P2000.L and 9P2000.u (Linux `include/net/9p/9p.h`; intro(5) of Plan 9).

pub const STATFS: u8 = 8;
pub const LOPEN: u8 = 12;
pub const LCREATE: u8 = 14;
pub const SYMLINK: u8 = 16;
pub const MKNOD: u8 = 18;
pub const RENAME: u8 = 20;
pub const READLINK: u8 = 22;
pub const GETATTR: u8 = 24;
pub const SETATTR: u8 = 26;
pub const XATTRWALK: u8 = 30;
pub const XATTRCREATE: u8 = 32;
pub const READDIR: u8 = 40;
pub const FSYNC: u8 = 50;
pub const LOCK: u8 = 52;
pub const GETLOCK: u8 = 54;
pub const LINK: u8 = 70;
pub const MKDIR: u8 = 72;
pub const RENAMEAT: u8 = 74;
pub const UNLINKAT: u8 = 76;
pub const VERSION: u8 = 100;
pub const AUTH: u8 = 102;
pub const ATTACH: u8 = 104;
pub const FLUSH: u8 = 108;
pub const WALK: u8 = 110;
pub const OPEN: u8 = 112;
pub const CREATE: u8 = 114;
pub const READ: u8 = 116;
pub const WRITE: u8 = 118;
pub const CLUNK: u8 = 120;
pub const REMOVE: u8 = 122;
pub const STAT: u8 = 124;
pub const WSTAT: u8 = 126;

/// The fields of each message. `f`: fid, `b`, `h`, `w`, `q`: numbers of 1, 2, 4, 8 bytes, `n`: name, `*`: a list of names,
/// `d`: data, `s`: a stat.
pub const FIELDS: [(u8, &str); 32] = [
    (STATFS, "f"),
    (LOPEN, "fw"),
    (LCREATE, "fnwww"),
    (SYMLINK, "fnnw"),
    (MKNOD, "fnwwww"),
    (RENAME, "ffn"),
    (READLINK, "f"),
    (GETATTR, "fq"),
    (SETATTR, "fwwwwqqqqq"),
    (XATTRWALK, "ffn"),
    (XATTRCREATE, "fnqw"),
    (READDIR, "fqw"),
    (FSYNC, "fw"),
    (LOCK, "fbwqqwn"),
    (GETLOCK, "fbqqwn"),
    (LINK, "ffn"),
    (MKDIR, "fnww"),
    (RENAMEAT, "fnfn"),
    (UNLINKAT, "fnw"),
    (VERSION, "wn"),
    (AUTH, "fnnw"),
    (ATTACH, "ffnnw"),
    (FLUSH, "h"),
    (WALK, "ff*"),
    (OPEN, "fb"),
    (CREATE, "fnwbn"),
    (READ, "fqw"),
    (WRITE, "fqd"),
    (CLUNK, "f"),
    (REMOVE, "f"),
    (STAT, "f"),
    (WSTAT, "fs"),
];

pub const NO_FID: u32 = u32::MAX;
const NO_TAG: u16 = u16::MAX;

/// A message's kind and what follows its header.
#[derive(Clone)]
pub struct Message {
    pub kind: u8,
    pub tag: u16,
    pub body: Vec<u8>,
}

impl Message {
    pub fn new(kind: u8) -> Self {
        let tag = if kind == VERSION { NO_TAG } else { 1 };
        let body = Vec::new();
        Self { kind, tag, body }
    }

    pub fn raw(kind: u8, body: &[u8]) -> Self {
        Self::new(kind).bytes(body)
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.body.extend(bytes);
        self
    }

    pub fn b(self, number: u8) -> Self {
        self.bytes(&[number])
    }

    pub fn h(self, number: u16) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    pub fn w(self, number: u32) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    pub fn q(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    pub fn n(self, name: impl AsRef<[u8]>) -> Self {
        let name = name.as_ref();
        self.h(name.len() as u16).bytes(name)
    }

    pub fn names(self, names: &[&[u8]]) -> Self {
        let begun = self.h(names.len() as u16);
        names.iter().fold(begun, Message::n)
    }

    /// A stat of 9P2000.u that changes what is given: a mode, a length, a name.
    pub fn stat(self, mode: u32, length: u64, name: &[u8]) -> Self {
        let same = Self::new(0).h(u16::MAX).w(u32::MAX).bytes(&[0xff; 13]);
        let times = same.w(mode).w(u32::MAX).w(u32::MAX).q(length);
        let names = times.n(name).n("").n("").n("").n("");
        let stat = names.w(u32::MAX).w(u32::MAX).w(u32::MAX).body;
        let size = stat.len() as u16;
        self.h(size.wrapping_add(2)).h(size).bytes(&stat)
    }

    pub fn tagged(mut self, tag: u16) -> Self {
        self.tag = tag;
        self
    }

    /// With the header that belongs to it.
    pub fn encoded(&self) -> Vec<u8> {
        self.encoded_as(7 + self.body.len() as u32)
    }

    /// With a length that the header alone claims.
    pub fn encoded_as(&self, length: u32) -> Vec<u8> {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.push(self.kind);
        bytes.extend(self.tag.to_le_bytes());
        bytes.extend(&self.body);
        bytes
    }
}

/// An answer of the server.
#[derive(Debug, Clone)]
pub struct Answer {
    pub kind: u8,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (header, body) = bytes.split_at_checked(7)?;
        let (kind, body) = (header[4], body.to_vec());
        Some(Self { kind, body })
    }

    /// Rlerror or Rerror.
    pub fn is_error(&self) -> bool {
        [7, 107].contains(&self.kind)
    }

    fn number<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.body.get(at..at + N)?.try_into().ok()
    }

    fn qid(&self, at: usize) -> Option<u64> {
        self.number(at + 5).map(u64::from_le_bytes)
    }

    /// The numbers that the server gives files, in all answers that tell some.
    pub fn files(&self) -> Vec<u64> {
        let found: Vec<Option<u64>> = match self.kind.wrapping_sub(1) {
            ATTACH | LOPEN | LCREATE | SYMLINK | MKNOD | MKDIR | OPEN | CREATE => {
                vec![self.qid(0)]
            }
            GETATTR => vec![self.qid(8)],
            STAT => vec![self.qid(10)],
            WALK => {
                let count = self.number(0).map_or(0, u16::from_le_bytes);
                let places = (0..usize::from(count)).map(|index| 2 + 13 * index);
                places.map(|at| self.qid(at)).collect()
            }
            READDIR => self.entries().into_iter().map(Some).collect(),
            _ => Vec::new(),
        };
        found.into_iter().flatten().collect()
    }

    fn entries(&self) -> Vec<u64> {
        let mut found = Vec::new();
        let mut at = 4;
        while let (Some(file), Some(length)) = (self.qid(at), self.number(at + 22)) {
            found.push(file);
            at += 24 + usize::from(u16::from_le_bytes(length));
        }
        found
    }
}
