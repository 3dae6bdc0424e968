//! A profile: which knobs of the machine to turn, and to what.
//!
//! A profile says *what for* and not *where*: processors are named by their part (`housekeeping`,
//! `isolated`), so that the same file serves every machine; which processors have which part is
//! decided by placement, by `--cpus`, or by the profile's own `cores`. Its knobs are a map, so that
//! one can be wanted alone or left out of the whole, which is how the effect of each is measured.
//!
//! ```yaml
//! name: mine
//! about: As isolated, but the network stack spins
//! extends: isolated        # or another profile's name; this one's lines win
//! cores: isolated          # shared, isolated (which ones is placement's choice), or a list: 2-7
//! knobs:
//!   busy-read: 50us
//!   thp: leave             # what the parent wants is not wanted
//! boot:                    # for the kernel's command line
//!   nohz_full: isolated
//! ```

mod builtin;
pub mod catalogue;
mod check;
mod value;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of, nearest, shown};
use crate::spec::reader::Object;
use crate::spec::yaml::{Value, Yaml};
use crate::units::CpuList;

pub use check::Cores;
pub use value::{CpuChoice, Kind, Policy, ThreadPolicy, Wanted, fits};

/// A profile, its parents merged into it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it is for, in a line.
    pub about: String,
    /// Whether it keeps cores for itself.
    pub cores: Isolation,
    /// What it wants of each knob; a knob that is not here is left alone.
    pub knobs: BTreeMap<&'static str, Wanted>,
    /// Parameters of the kernel's command line.
    pub boot: BTreeMap<&'static str, Wanted>,
}

/// Whether a profile keeps cores for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// No: every core does everything.
    #[default]
    Shared,
    /// Yes; which ones is not the profile's choice.
    Isolated,
    /// Yes, these.
    Listed(CpuList),
}

/// Finds the text of a profile that is not built in, by the name or path in `extends`.
pub type Find<'f> = &'f dyn Fn(&str) -> Option<String>;

/// Most parents above one another.
const MAX_PARENTS: usize = 8;

/// `only placement`: none of a profile's knobs.
pub const PLACEMENT: &str = "placement";

impl Profile {
    /// The names of the built-in profiles, from the quietest for the machine to the harshest.
    pub fn builtin_names() -> Vec<&'static str> {
        builtin::ALL.iter().map(|(name, _)| *name).collect()
    }

    /// The YAML text of a built-in profile, to copy from.
    pub fn builtin_text(name: &str) -> Option<&'static str> {
        let found = builtin::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| *text)
    }

    /// A built-in profile.
    pub fn builtin(name: &str) -> Option<Profile> {
        // A test reads every one.
        Profile::parse(Profile::builtin_text(name)?, &|_| None).ok()
    }

    /// Reads a profile from its text; `find` gives the text of parents that are not built in.
    ///
    /// # Errors
    /// All mistakes that can be seen without the machine; [`Cores::new`] finds the rest.
    pub fn parse(text: &str, find: Find<'_>) -> Result<Profile, Diagnostics> {
        parse_below(text, find, &mut Vec::new())
    }

    /// Wants `text` of a knob, as `--knob NAME=VALUE` does.
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub fn want(&mut self, name: &str, text: &str) -> Result<(), (String, String)> {
        let (name, kind) = catalogue::knob(name).ok_or_else(|| unknown_knob(name))?;
        let yaml = Yaml::parse(text).map_err(|_| wrong_knob(name, text, kind))?;
        let mut errors = Diagnostics::default();
        let read = read_wanted(&yaml, &format!("knob `{name}`"), kind, &mut errors);
        match (read, errors.iter().next()) {
            (Some(wanted), None) => {
                self.knobs.insert(name, wanted);
                Ok(())
            }
            (_, Some(mistake)) => Err((mistake.message.clone(), mistake.hint.clone())),
            (None, None) => Err(wrong_knob(name, text, kind)),
        }
    }

    /// Keeps only these knobs, and no boot parameters.
    ///
    /// # Errors
    /// When a name is no knob, or one that this profile does not want: what, and what to do.
    pub fn only(&mut self, names: &[&str]) -> Result<(), (String, String)> {
        for name in names {
            self.must_want(name)?;
        }
        self.knobs.retain(|name, _| names.contains(name));
        self.boot.clear();
        Ok(())
    }

    /// Leaves a knob out.
    ///
    /// # Errors
    /// As [`Profile::only`].
    pub fn without(&mut self, name: &str) -> Result<(), (String, String)> {
        self.must_want(name)?;
        self.knobs.remove(name);
        Ok(())
    }

    fn must_want(&self, name: &str) -> Result<(), (String, String)> {
        let (name, _) = catalogue::knob(name).ok_or_else(|| unknown_knob(name))?;
        if self.knobs.contains_key(name) {
            return Ok(());
        }
        let message = format!("profile `{}` wants nothing of knob `{name}`", self.name);
        Err((message, format!("give the value too: `{name}=VALUE`")))
    }

    /// The profile that a lab names: its name, and `without KNOB...` or `only KNOB...` after it; `only
    /// placement` leaves no knob, but processors of its own. `find` gives the profile of a name.
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

    /// What of it is for the inside of a guest with so many processors: the first does the housekeeping,
    /// as at its boot ([`crate::boot::of_guest`]). With one there is nothing to divide. Lists of processors
    /// are the host's, and so are its memory and the threads that a profile names.
    pub fn in_guest(&self, vcpus: u32) -> Profile {
        let mut inside = self.clone();
        let is_divided = vcpus > 1 && self.cores != Isolation::Shared;
        inside.boot.clear();
        inside.cores = match is_divided {
            true => Isolation::Listed(CpuList::new((1..vcpus).collect())),
            false => Isolation::Shared,
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

    /// Mistakes between values that are each good, with places where there are some.
    ///
    /// # Errors
    /// The first contradiction: what, and what to do.
    pub fn check(&self) -> Result<(), (String, String)> {
        match check::contradictions(self).into_iter().next() {
            Some(found) => Err((found.message, found.hint)),
            None => Ok(()),
        }
    }
}

/// Whether there is such a knob.
///
/// # Errors
/// What is wrong, and what to do.
pub fn known_knob(name: &str) -> Result<(), (String, String)> {
    catalogue::knob(name)
        .map(drop)
        .ok_or_else(|| unknown_knob(name))
}

fn unknown_knob(name: &str) -> (String, String) {
    let names: Vec<&str> = catalogue::KNOBS.iter().map(|(name, _)| *name).collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("`latlab tune show` lists them; {}", hint_one_of("", &names)),
    };
    (format!("unknown knob `{}`", shown(name)), hint)
}

fn wrong_knob(name: &str, text: &str, kind: Kind) -> (String, String) {
    let message = format!(
        "knob `{name}` must be {}, not `{}`",
        kind.expected(),
        shown(text)
    );
    (message, format!("see `latlab tune show {name}`"))
}

/// The places of a profile's own lines, for mistakes that are found later.
#[derive(Default)]
struct Places {
    cores: Option<Mark>,
    knobs: BTreeMap<&'static str, Mark>,
    boot: BTreeMap<&'static str, Mark>,
}

fn parse_below(
    text: &str,
    find: Find<'_>,
    below: &mut Vec<String>,
) -> Result<Profile, Diagnostics> {
    let yaml = Yaml::parse(text)?;
    let mut errors = Diagnostics::default();
    let mut top = Object::new(&yaml, "the profile", &mut errors);
    top.require("name", &mut errors);
    let name = top.get::<String>("name", &mut errors);
    if let Some(name) = &name {
        crate::spec::check_name("profile", name, &mut errors);
    }
    let about = top.get::<String>("about", &mut errors);
    let parent = top.get::<String>("extends", &mut errors);
    let cores = top.take("cores").map(|y| (y, read_cores(y, &mut errors)));
    let knobs = top.take("knobs");
    let boot = top.take("boot");
    let at = top.at;
    top.finish(&mut errors);
    let name = name.map_or_else(String::new, |n| n.value);
    below.push(name.clone());
    let inherited = parent.and_then(|p| read_parent(&p, find, below, &mut errors));
    let mut profile = Profile {
        name,
        about: about.map_or_else(String::new, |a| a.value),
        ..inherited.unwrap_or_else(Profile::empty)
    };
    let mut places = Places::default();
    if let Some((yaml, Some(cores))) = cores {
        places.cores = Some(yaml.at);
        profile.cores = cores;
    }
    if let Some(yaml) = knobs {
        let to = (&mut profile.knobs, &mut places.knobs);
        read_map(yaml, "knob", catalogue::KNOBS, to, &mut errors);
    }
    if let Some(yaml) = boot {
        let to = (&mut profile.boot, &mut places.boot);
        read_map(yaml, "boot parameter", catalogue::BOOT, to, &mut errors);
    }
    for found in check::contradictions(&profile) {
        errors.add(
            found.place(&places).unwrap_or(at),
            found.message,
            found.hint,
        );
    }
    errors.into_result(profile)
}

impl Profile {
    /// One that wants nothing.
    pub fn empty() -> Profile {
        Profile {
            name: "none".into(),
            about: "Nothing is wanted".into(),
            cores: Isolation::Shared,
            knobs: BTreeMap::new(),
            boot: BTreeMap::new(),
        }
    }
}

fn read_parent(
    parent: &Spanned<String>,
    find: Find<'_>,
    below: &mut Vec<String>,
    errors: &mut Diagnostics,
) -> Option<Profile> {
    let named = shown(parent);
    if below.contains(&parent.value) || below.len() > MAX_PARENTS {
        let message = format!("profile `{named}` extends itself: {}", below.join(" → "));
        errors.add(parent.at, message, "extend a profile further up, or none");
        return None;
    }
    let text = match Profile::builtin_text(parent) {
        Some(text) => text.to_string(),
        None => find(parent).or_else(|| {
            let hint = hint_one_of(parent, &Profile::builtin_names());
            let message = format!("there is no profile `{named}` to extend");
            errors.add(parent.at, message, format!("{hint}; or the path of a file"));
            None
        })?,
    };
    match parse_below(&text, find, below) {
        Ok(profile) => Some(profile),
        Err(wrong) => {
            let first = wrong.iter().next()?;
            let message = format!(
                "profile `{named}`, which this one extends, is wrong in line {}: {}",
                first.at.line, first.message
            );
            errors.add(parent.at, message, first.hint.clone());
            None
        }
    }
}

fn read_cores(yaml: &Yaml, errors: &mut Diagnostics) -> Option<Isolation> {
    let text = yaml.scalar().unwrap_or_default();
    let found = match text {
        "shared" => Some(Isolation::Shared),
        "isolated" => Some(Isolation::Isolated),
        list => CpuList::parse(list).map(Isolation::Listed),
    };
    if found.is_none() {
        let what = yaml
            .scalar()
            .map_or(yaml.kind().to_string(), |t| format!("`{}`", shown(t)));
        let message = format!(
            "`cores` of the profile must be `shared`, `isolated` or a list of processors, not {what}"
        );
        let hint = match nearest(text, ["shared", "isolated"]) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "for example `isolated` or `2-7` (processors up to 8191)".into(),
        };
        errors.add(yaml.at, message, hint);
    }
    found
}

/// Reads a mapping of names to values over what was inherited.
fn read_map(
    yaml: &Yaml,
    what: &str,
    known: &'static [(&'static str, Kind)],
    (to, places): (
        &mut BTreeMap<&'static str, Wanted>,
        &mut BTreeMap<&'static str, Mark>,
    ),
    errors: &mut Diagnostics,
) {
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let object = Object::new(
        yaml,
        format!("`{}s`", what.rsplit(' ').next().unwrap_or(what)),
        errors,
    );
    for (key, value) in object.entries() {
        let Some((name, kind)) = known.iter().find(|(name, _)| *name == key.value) else {
            let message = format!("unknown {what} `{}`", shown(key.value));
            errors.add(key.at, message, hint_one_of(key.value, &names));
            continue;
        };
        places.insert(name, value.at);
        if value.scalar() == Some("leave") {
            to.remove(name);
        } else if let Some(wanted) = read_wanted(value, &format!("{what} `{name}`"), *kind, errors)
        {
            to.insert(name, wanted);
        }
    }
}

fn read_wanted(yaml: &Yaml, what: &str, kind: Kind, errors: &mut Diagnostics) -> Option<Wanted> {
    match (kind, &yaml.value) {
        (Kind::Threads, _) => read_threads(yaml, what, errors),
        (Kind::Names, Value::Seq(items)) => {
            let texts: Vec<&str> = items.iter().filter_map(Yaml::scalar).collect();
            parse_wanted(kind, &texts.join(","), yaml.at, what, errors)
        }
        (_, Value::Scalar { .. }) if !yaml.is_null() => {
            let text = yaml.scalar().unwrap_or_default();
            parse_wanted(kind, text, yaml.at, what, errors)
        }
        _ => {
            let is = if yaml.is_null() {
                "nothing"
            } else {
                yaml.kind()
            };
            let message = format!("{what} must be {}, not {is}", kind.expected());
            errors.add(yaml.at, message, "write the value after the colon");
            None
        }
    }
}

fn parse_wanted(
    kind: Kind,
    text: &str,
    at: Mark,
    what: &str,
    errors: &mut Diagnostics,
) -> Option<Wanted> {
    match kind.parse(text) {
        Ok(wanted) => Some(wanted),
        Err((expected, hint)) => {
            let message = format!("{what} must be {expected}, not `{}`", shown(text));
            errors.add(at, message, hint);
            None
        }
    }
}

fn read_threads(yaml: &Yaml, what: &str, errors: &mut Diagnostics) -> Option<Wanted> {
    let object = Object::new(yaml, what.to_string(), errors);
    let mut all = Vec::new();
    for (pattern, value) in object.entries() {
        if !value::good_pattern(pattern.value) {
            let message = format!(
                "{what} has `{}`, which names no thread",
                shown(pattern.value)
            );
            let hint = "a thread's name has at most 15 characters; `*` stands for any of them";
            errors.add(pattern.at, message, hint);
            continue;
        }
        let text = value.scalar().unwrap_or_default();
        match Policy::parse(text) {
            Ok(policy) => all.push(ThreadPolicy {
                pattern: pattern.value.to_string(),
                policy,
            }),
            Err((expected, hint)) => {
                let message = format!(
                    "policy of `{}` in {what} must be {expected}, not `{}`",
                    shown(pattern.value),
                    shown(text)
                );
                errors.add(value.at, message, hint);
            }
        }
    }
    object.is_mapping().then_some(Wanted::Threads(all))
}

#[cfg(test)]
mod tests;
