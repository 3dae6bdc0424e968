//! A profile as data: what it wants of each knob, and how it is narrowed to some knobs, to a guest, or back to text.

use std::collections::BTreeMap;

use super::catalogue::known_knob;
use super::value::{CpuChoice, Wanted};
use crate::units::CpuList;

/// A profile, its parents merged into it.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    pub name: String,
    /// Its purpose, in a line.
    pub about: String,
    pub cores: Isolation,
    /// Its wish of each knob; a knob that is not here is left alone.
    pub knobs: BTreeMap<&'static str, Wanted>,
    /// Parameters of the kernel's command line.
    pub boot: BTreeMap<&'static str, Wanted>,
}

/// Whether a profile keeps cores for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Isolation {
    /// No: every core does everything.
    #[default]
    Shared,
    /// Yes; which ones is not the profile's choice.
    Isolated,
    Listed(CpuList),
}

/// The profiles that come with latlab: YAML like a user's own, to read and to copy from.
const BUILTIN: &[(&str, &str)] = &[
    ("default", include_str!("builtin/default.yaml")),
    ("throughput", include_str!("builtin/throughput.yaml")),
    ("isolated", include_str!("builtin/isolated.yaml")),
    ("realtime", include_str!("builtin/realtime.yaml")),
];

/// `only placement`: none of a profile's knobs.
pub const PLACEMENT: &str = "placement";

impl Profile {
    pub fn empty() -> Profile {
        Profile {
            name: "none".into(),
            about: "Nothing is wanted".into(),
            cores: Isolation::Shared,
            knobs: BTreeMap::new(),
            boot: BTreeMap::new(),
        }
    }

    /// The names of the built-in profiles, from the quietest for the machine to the harshest.
    pub fn builtin_names() -> Vec<&'static str> {
        BUILTIN.iter().map(|(name, _)| *name).collect()
    }

    /// The YAML text of a built-in profile, to copy from.
    pub fn builtin_text(name: &str) -> Option<&'static str> {
        let found = BUILTIN.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| *text)
    }

    /// Keeps only these knobs, and no boot parameters. Fails when a name is no knob, or one that this profile does not
    /// want: what, and what to do.
    pub fn only(&mut self, names: &[&str]) -> Result<(), (String, String)> {
        for name in names {
            self.must_want(name)?;
        }
        self.knobs.retain(|name, _| names.contains(name));
        self.boot.clear();
        Ok(())
    }

    pub fn without(&mut self, name: &str) -> Result<(), (String, String)> {
        self.must_want(name)?;
        self.knobs.remove(name);
        Ok(())
    }

    fn must_want(&self, name: &str) -> Result<(), (String, String)> {
        let (name, _) = known_knob(name)?;
        if self.knobs.contains_key(name) {
            return Ok(());
        }
        let message = format!("profile `{}` wants nothing of knob `{name}`", self.name);
        Err((message, format!("give the value too: `{name}=VALUE`")))
    }

    /// The profile that a lab names: its name, and `without KNOB...` or `only KNOB...` after it; `only
    /// placement` leaves no knob, but CPUs of its own. `find` gives the profile of a name.
    pub fn named(text: &str, find: &dyn Fn(&str) -> Option<Profile>) -> Option<Profile> {
        let mut words = text.split_whitespace();
        let mut profile = find(words.next()?)?;
        let how = words.next();
        let knobs: Vec<&str> = words.collect();
        match how {
            Some("without") => knobs.iter().try_for_each(|knob| profile.without(knob)),
            Some("only") if knobs == [PLACEMENT] => profile.only(&[]),
            Some("only") => profile.only(&knobs),
            _ => Ok(()),
        }
        .ok()?;
        if how.is_some() {
            profile.name = text.to_string();
        }
        Some(profile)
    }

    /// The part of it for the inside of a guest with `vcpus` CPUs: the first does the housekeeping,
    /// as at its boot ([`crate::boot::of_guest`]). With one there is nothing to divide. Lists of CPUs
    /// are the host's, and so are its memory and the threads that a profile names.
    pub fn in_guest(&self, vcpus: u32) -> Profile {
        let mut inside = self.clone();
        let is_divided = vcpus > 1 && self.cores != Isolation::Shared;
        inside.boot.clear();
        inside.cores = if is_divided {
            Isolation::Listed(CpuList::new((1..vcpus).collect()))
        } else {
            Isolation::Shared
        };
        inside.knobs.retain(|name, wanted| match wanted {
            Wanted::Cpus(CpuChoice::List(_)) | Wanted::Size(_) => false,
            Wanted::Cpus(CpuChoice::Housekeeping | CpuChoice::Isolated) => is_divided,
            Wanted::Threads(_) | Wanted::Names(_) => false,
            _ => *name != "cpuset" || is_divided,
        });
        // Several measured threads want to be spread over what is quiet.
        if let Some(kind) = inside.knobs.get_mut("cpuset").filter(|_| vcpus > 2) {
            *kind = Wanted::Word("root");
        }
        inside
    }

    /// The whole of it as a document, without a parent: [`Profile::parse`] reads it back.
    pub fn document(&self) -> String {
        let cores = match &self.cores {
            Isolation::Shared => "shared".to_string(),
            Isolation::Isolated => "isolated".to_string(),
            Isolation::Listed(cpus) => cpus.to_string(),
        };
        // Names of the document are quoted as JSON quotes them, which YAML reads too.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let name = self.name.split_whitespace().next().unwrap_or("profile");
        let mut out = format!(
            "name: {name}\nabout: {}\ncores: {}\n",
            quoted(&self.about),
            quoted(&cores)
        );
        for (section, wanted) in [("knobs", &self.knobs), ("boot", &self.boot)] {
            let lines = wanted.iter().map(|(name, wanted)| match wanted {
                Wanted::Threads(_) | Wanted::Switch(_) | Wanted::Number(_) => {
                    format!("  {name}: {wanted}\n")
                }
                _ => format!("  {name}: {}\n", quoted(&wanted.to_string())),
            });
            let lines: String = lines.collect();
            if !lines.is_empty() {
                out += &format!("{section}:\n{lines}");
            }
        }
        out
    }
}
