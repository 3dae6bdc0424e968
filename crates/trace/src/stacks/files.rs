//! Copies of the files with code, and their tables for unwinding.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use object::{Object, ObjectSection, ObjectSegment, SegmentFlags, elf};
use rustix::fs::{MemfdFlags, memfd_create};

use super::maps::Mapping;

/// A larger file stays without names.
const MAX_FILE_BYTES: u64 = 512 << 20;
/// Memory without a file: the vDSO has two pages.
const MAX_MEMORY_BYTES: u64 = 1 << 20;
/// All files together.
const MAX_BYTES: u64 = 2 << 30;

/// Bytes of a section, and where it lies in the file's own addresses.
#[derive(Debug, Clone)]
pub struct Section {
    pub address: u64,
    pub bytes: Arc<[u8]>,
}

/// A file with code.
pub struct Code {
    /// The copy. The file itself may change, or shrink below a mapped reader.
    copy: OwnedFd,
    /// Address, begin in the file and length of each segment with code.
    segments: Vec<(u64, u64, u64)>,
    pub eh_frame: Option<Section>,
    pub eh_frame_hdr: Option<Section>,
}

/// Index of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId(usize);

/// All files of the sampled processes.
#[derive(Default)]
pub struct Files {
    all: Vec<Code>,
    known: HashMap<(String, u64), Option<FileId>>,
    bytes: u64,
}

impl Files {
    pub fn get(&self, id: FileId) -> &Code {
        &self.all[id.0]
    }

    /// The file of a mapping; `None` if it cannot be read, or is not ELF.
    pub fn of(&mut self, process: u32, mapping: &Mapping) -> Option<FileId> {
        let is_file = mapping.file.1 != 0;
        if !is_file && !mapping.is_vdso() {
            return None;
        }
        if let Some(known) = self.known.get(&mapping.file).filter(|_| is_file) {
            return *known;
        }
        let bytes = match is_file {
            true => mapped_file(process, mapping, MAX_BYTES.saturating_sub(self.bytes)),
            false => memory(process, mapping),
        };
        let read = bytes.and_then(|bytes| {
            self.bytes += bytes.len() as u64;
            Code::read(&bytes)
        });
        let id = read.map(|code| {
            self.all.push(code);
            FileId(self.all.len() - 1)
        });
        if is_file {
            self.known.insert(mapping.file.clone(), id);
        }
        id
    }
}

impl Code {
    fn read(bytes: &[u8]) -> Option<Code> {
        let file = object::File::parse(bytes).ok()?;
        let section = |name| {
            let section = file.section_by_name(name)?;
            Some(Section {
                address: section.address(),
                bytes: section.data().ok()?.into(),
            })
        };
        let is_code = |flags| match flags {
            SegmentFlags::Elf { p_flags } => p_flags & elf::PF_X != 0,
            _ => false,
        };
        let segments = file.segments().filter(|segment| is_code(segment.flags()));
        let segments = segments.map(|segment| {
            let (offset, length) = segment.file_range();
            (segment.address(), offset, length)
        });
        let copy = memfd_create("latlab-code", MemfdFlags::CLOEXEC).ok()?;
        let mut copy = File::from(copy);
        copy.write_all(bytes).ok()?;
        Some(Code {
            segments: segments.collect(),
            eh_frame: section(".eh_frame"),
            eh_frame_hdr: section(".eh_frame_hdr"),
            copy: copy.into(),
        })
    }

    /// A path at which this process finds the copy.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.copy.as_raw_fd()).into()
    }

    /// The difference of mapped addresses from the file's own.
    pub fn bias(&self, mapping: &Mapping) -> Option<u64> {
        let page = rustix::param::page_size() as u64;
        let holds = |&&(_, offset, length): &&(u64, u64, u64)| {
            let from = offset - offset % page;
            (from..offset.saturating_add(length)).contains(&mapping.offset)
        };
        let (address, offset, _) = self.segments.iter().find(holds)?;
        // The address at which the file's first byte would be.
        let first = mapping.start.checked_sub(mapping.offset)?;
        first.checked_add(*offset)?.checked_sub(*address)
    }
}

/// The file behind a mapping, whatever is at its path now.
fn mapped_file(process: u32, mapping: &Mapping, most: u64) -> Option<Vec<u8>> {
    let (start, end) = (mapping.start, mapping.end);
    let file = File::open(format!("/proc/{process}/map_files/{start:x}-{end:x}")).ok()?;
    let found = file.metadata().ok()?;
    let length = found.len();
    if !found.is_file() || length > MAX_FILE_BYTES.min(most) {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some(bytes)
}

/// The memory of a mapping without a file.
fn memory(process: u32, mapping: &Mapping) -> Option<Vec<u8>> {
    let length = (mapping.end - mapping.start).min(MAX_MEMORY_BYTES);
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let memory = File::open(format!("/proc/{process}/mem")).ok()?;
    memory.read_exact_at(&mut bytes, mapping.start).ok()?;
    Some(bytes)
}
