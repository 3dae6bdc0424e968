//! A profile from its text, with the place of every mistake.

use std::collections::BTreeMap;

use super::catalogue::{self, known_knob, wrong_knob};
use super::check::{Places, contradictions};
use super::document::{Isolation, Profile};
use super::value::{Kind, Policy, ThreadPolicy, Wanted, good_pattern};
use crate::diagnostic::{Diagnostics, Mark, Spanned, hint_one_of, nearest, shown};
use crate::spec::name::check_name;
use crate::spec::reader::Object;
use crate::spec::yaml::{Value, Yaml};
use crate::units::CpuList;

/// Finds the text of a profile that is not built in, by the name or path in `extends`.
pub type Find<'f> = &'f dyn Fn(&str) -> Option<String>;

const MAX_PARENTS: usize = 8;

impl Profile {
    pub fn builtin(name: &str) -> Option<Profile> {
        // A test reads every one.
        Profile::parse(Profile::builtin_text(name)?, &|_| None).ok()
    }

    /// Reads a profile from its text; `find` gives the text of parents that are not built in. Errors: all mistakes
    /// that can be seen without the machine; [`Cores::new`](super::Cores::new) finds the rest.
    pub fn parse(text: &str, find: Find<'_>) -> Result<Profile, Diagnostics> {
        parse_below(text, find, &mut Vec::new())
    }

    /// Wants `text` of a knob, as `--knob NAME=VALUE` does.
    pub fn want(&mut self, name: &str, text: &str) -> Result<(), (String, String)> {
        let (name, kind) = known_knob(name)?;
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
}

fn parse_below(
    text: &str,
    find: Find<'_>,
    below: &mut Vec<String>,
) -> Result<Profile, Diagnostics> {
    let yaml = Yaml::parse(text)?;
    let mut errors = Diagnostics::default();
    let mut top = Object::new(&yaml, "the profile", &mut errors);
    let name = top.need::<String>("name", &mut errors);
    if let Some(name) = &name {
        check_name("profile", name, &mut errors);
    }
    let about = top.value("about", &mut errors);
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
        about: about.unwrap_or_default(),
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
    for found in contradictions(&profile) {
        errors.add(
            found.place(&places).unwrap_or(at),
            found.message,
            found.hint,
        );
    }
    errors.into_result(profile)
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
            "`cores` of the profile must be `shared`, `isolated` or a list of CPUs, not {what}"
        );
        let hint = match nearest(text, ["shared", "isolated"]) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "for example `isolated` or `2-7` (CPUs up to 8191)".into(),
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
        if !good_pattern(pattern.value) {
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
