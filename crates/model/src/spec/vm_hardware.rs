//! `hardware:` of a VM: its CPU, timers and memory.

use super::reader::{FromYaml, Object, read_words};
use crate::diagnostic::{Diagnostics, Spanned};
use crate::kinds::{LostTicks, ToldTopology, VmHardware};

read_words!(LostTicks, "a policy for lost ticks", "delay");
read_words!(ToldTopology, "what a vm is told of its CPUs", "hidden");

/// A word that QEMU finds no second one in.
fn is_plain(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.bytes().all(allowed)
}

/// The name of a CPU model.
struct Model(String);

impl FromYaml for Model {
    const EXPECTED: &'static str = "a CPU model of QEMU";
    const EXAMPLE: &'static str = "`host`";
    fn from_text(text: &str) -> Option<Self> {
        is_plain(text).then(|| Model(text.to_owned()))
    }
    fn hint(_: &str) -> String {
        "`qemu-system-x86_64 -cpu help` lists them; features go below `features`".into()
    }
}

/// A difference from a CPU model.
struct Feature(String);

impl FromYaml for Feature {
    const EXPECTED: &'static str = "a CPU feature of QEMU";
    const EXAMPLE: &'static str = "`-avx512f`";
    fn from_text(text: &str) -> Option<Self> {
        let is_feature = match text.split_once('=') {
            Some((name, value)) => is_plain(name) && is_plain(value),
            None => text.strip_prefix(['+', '-']).is_some_and(is_plain),
        };
        is_feature.then(|| Feature(text.to_owned()))
    }
    fn hint(_: &str) -> String {
        "`+NAME`, `-NAME` or `NAME=VALUE`, for example `+pmu` or `hv-relaxed=on`".into()
    }
}

/// Reads `hardware:` of `o`, with the mark of the whole.
pub(super) fn read(o: &mut Object<'_>, errors: &mut Diagnostics) -> Option<Spanned<VmHardware>> {
    let mut own = o.object("hardware", errors)?;
    let at = own.at;
    let features = own.list::<Feature>("features", errors);
    let hardware = VmHardware {
        cpu: own.value("cpu", errors).map(|Model(name)| name),
        features: features.into_iter().map(|one| one.value.0).collect(),
        hpet: own.value("hpet", errors).unwrap_or_default(),
        pit: own.value("pit", errors).unwrap_or_default(),
        topology: own.value("topology", errors).unwrap_or_default(),
        huge_pages: own.value("huge_pages", errors),
        preallocate: own.value("preallocate", errors),
        lock_memory: own.value("lock_memory", errors),
    };
    own.finish(errors);
    Some(Spanned::new(hardware, at))
}
