//! Capabilities that need no trial, because what was read is the proof: hardware, boot parameters, reserved pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::PermissionsExt;

use latlab_model::facts::Facts;

use super::machine::{self, Source};
use super::prove::report::{NEEDS_ROOT, Outcome, is_root};
use super::texts;

/// Those of the wanted capabilities that are seen and not tried.
pub(super) fn all(source: &Source, wanted: &BTreeSet<String>) -> BTreeMap<&'static str, Outcome> {
    type See = fn(&Source) -> Outcome;
    let see: [(&'static str, See); 4] = [
        (Facts::HUGE_PAGES, huge_pages),
        (Facts::REALTIME, realtime),
        (Facts::ISOLATED_CPUS, isolated),
        (Facts::IRQ_AFFINITY, interrupts),
    ];
    let wanted = see.into_iter().filter(|(name, _)| wanted.contains(*name));
    wanted.map(|(name, see)| (name, see(source))).collect()
}

/// Works if `yes` has words for it.
fn seen(yes: Option<String>, no: &str) -> Outcome {
    yes.map_or_else(|| Outcome::Fails(no.into()), Outcome::Works)
}

fn huge_pages(source: &Source) -> Outcome {
    let memory = machine::memory(source);
    let (all, free) = (memory.huge_pages, memory.huge_pages_free);
    let kib = memory.huge_page_bytes >> 10;
    let words = (all > 0).then(|| format!("{all} of {kib} KiB reserved, {free} free"));
    seen(words, "none are reserved")
}

fn realtime(source: &Source) -> Outcome {
    let kernel = machine::kernel(source);
    let words = kernel.realtime.then(|| kernel.version.clone());
    seen(words, "the kernel is not built with PREEMPT_RT")
}

fn isolated(source: &Source) -> Outcome {
    let list = |name: &str| {
        let text = source.text(&format!("sys/devices/system/cpu/{name}"));
        texts::cpu_list(&text)
    };
    let words = list("isolated").map(|isolated| match list("nohz_full") {
        Some(nohz) => format!("isolated {isolated}, without tick {nohz}"),
        None => format!("isolated {isolated}, all with a tick"),
    });
    seen(words, "no CPUs were isolated at boot")
}

/// An interrupt whose affinity file opens for writing can be moved. (Those that the kernel places
/// itself have a file that is read-only, since Linux 6.9.)
fn interrupts(source: &Source) -> Outcome {
    let (mut all, mut movable, mut first_error) = (0, 0, None);
    let numbers = source.names("proc/irq").into_iter();
    for number in numbers.filter(|name| name.parse::<u32>().is_ok()) {
        let path = source.path(&format!("proc/irq/{number}/smp_affinity_list"));
        // Not every number has a device.
        if !path.exists() {
            continue;
        }
        all += 1;
        let writable = std::fs::metadata(&path).is_ok_and(|m| m.permissions().mode() & 0o200 != 0);
        match OpenOptions::new().write(true).open(&path) {
            Ok(_) if writable => movable += 1,
            Ok(_) => {}
            Err(error) => first_error = Some(error),
        }
    }
    match first_error {
        _ if movable > 0 => Outcome::Works(format!("{movable} of {all} can be moved")),
        Some(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_root() => {
            Outcome::Unproven(NEEDS_ROOT.into())
        }
        Some(error) => Outcome::Fails(error.to_string()),
        None => Outcome::Fails("there is no interrupt that can be moved".into()),
    }
}
