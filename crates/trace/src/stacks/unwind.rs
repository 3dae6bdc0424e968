//! Unwinds copies of user stacks with the tables that compilers write for exceptions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use framehop::{
    CacheNative, ExplicitModuleSectionInfo, Module, UnwindRegsNative, Unwinder, UnwinderNative,
};
use latlab_wire::trace::StackSample;

use super::files::{FileId, Files, Section};
use super::maps::{self, Mapping};

/// Frames of a stack at most.
const MAX_FRAMES: usize = 128;

/// The code of a process.
pub struct Process {
    mappings: Vec<(Mapping, Option<(FileId, u64)>)>,
    unwinder: UnwinderNative<Arc<[u8]>, framehop::MayAllocateDuringUnwind>,
    cache: CacheNative<framehop::MayAllocateDuringUnwind>,
}

/// Addresses of one stack, the innermost first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unwound {
    pub addresses: Vec<u64>,
    /// There are further frames, which were not copied or have no table.
    pub is_cut: bool,
}

impl Process {
    pub fn read(process: u32, files: &mut Files) -> Process {
        let mut read = Process {
            mappings: Vec::new(),
            unwinder: UnwinderNative::new(),
            cache: CacheNative::new_in(),
        };
        for mapping in maps::of(process) {
            let file = files.of(process, &mapping).and_then(|id| {
                let bias = files.get(id).bias(&mapping)?;
                Some((id, bias))
            });
            if let Some((id, bias)) = file {
                read.add(&mapping, bias, files.get(id));
            }
            read.mappings.push((mapping, file));
        }
        read
    }

    fn add(&mut self, mapping: &Mapping, bias: u64, code: &super::files::Code) {
        let range =
            |section: &Section| section.address..section.address + section.bytes.len() as u64;
        let table = |section: &Section| Arc::clone(&section.bytes);
        let tables = ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_svma: code.eh_frame.as_ref().map(range),
            eh_frame: code.eh_frame.as_ref().map(table),
            eh_frame_hdr_svma: code.eh_frame_hdr.as_ref().map(range),
            eh_frame_hdr: code.eh_frame_hdr.as_ref().map(table),
            ..Default::default()
        };
        let range = mapping.start..mapping.end;
        let module = || Module::new(mapping.name(), range, bias, tables);
        // A damaged table may upset its reader; the file stays without one then.
        if let Ok(module) = catch_unwind(AssertUnwindSafe(module)) {
            self.unwinder.add_module(module);
        }
    }

    /// The mapping of an address, and its file with the bias.
    pub fn find(&self, address: u64) -> Option<&(Mapping, Option<(FileId, u64)>)> {
        let next = self.mappings.partition_point(|(one, _)| one.end <= address);
        self.mappings
            .get(next)
            .filter(|(one, _)| one.start <= address)
    }

    /// The user's part of a sample's stack.
    pub fn unwound(&mut self, sample: &StackSample) -> Unwound {
        let walk = AssertUnwindSafe(|| self.walk(sample));
        let first = || Unwound {
            addresses: vec![sample.ip],
            is_cut: true,
        };
        // As above.
        catch_unwind(walk).unwrap_or_else(|_| first())
    }

    fn walk(&mut self, sample: &StackSample) -> Unwound {
        let mut walked = Unwound::default();
        if sample.ip == 0 {
            return walked;
        }
        let mut read = |address: u64| {
            let at = address
                .checked_sub(sample.sp)
                .and_then(|at| usize::try_from(at).ok());
            let word = at.and_then(|at| sample.stack.get(at..at.checked_add(8)?));
            let word = word.and_then(|word| word.try_into().ok());
            word.map(u64::from_le_bytes).ok_or(())
        };
        let registers = registers(sample);
        let mut frames =
            self.unwinder
                .iter_frames(sample.ip, registers, &mut self.cache, &mut read);
        while walked.addresses.len() < MAX_FRAMES {
            match frames.next() {
                Ok(Some(frame)) => walked.addresses.push(frame.address_for_lookup()),
                Ok(None) => return walked,
                Err(_) => break,
            }
        }
        walked.is_cut = true;
        walked
    }
}

#[cfg(target_arch = "x86_64")]
fn registers(sample: &StackSample) -> UnwindRegsNative {
    UnwindRegsNative::new(sample.ip, sample.sp, sample.bp)
}

#[cfg(target_arch = "aarch64")]
fn registers(sample: &StackSample) -> UnwindRegsNative {
    UnwindRegsNative::new(sample.lr, sample.sp, sample.bp)
}
