//! Profiles by name: built in, a file, or in the machine's directory.

use std::fs;
use std::path::{Path, PathBuf};

use latlab_model::profile::Profile;

use crate::failure::Failure;

/// The machine's profiles, unless LATLAB_PROFILE_DIR names another directory.
const DIRECTORY: &str = "/etc/latlab/profiles";

pub fn load(name: &str) -> Result<Profile, Failure> {
    if let Some(profile) = Profile::builtin(name) {
        return Ok(profile);
    }
    let path = path_of(name);
    let text = fs::read_to_string(&path).map_err(|error| {
        let names = Profile::builtin_names();
        let hint = match latlab_model::diagnostic::nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("built in are {}; others are files", names.join(", ")),
        };
        let path = path.display();
        Failure::new(
            format!("no profile `{name}`: cannot read {path}: {error}"),
            hint,
        )
    })?;
    let beside = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let find = |parent: &str| {
        let own = beside.join(path_name(parent));
        let text = fs::read_to_string(own).ok();
        text.or_else(|| fs::read_to_string(path_of(parent)).ok())
    };
    Profile::parse(&text, &find).map_err(|mistakes| {
        let text = mistakes.render(&path.display().to_string());
        let mut lines = text.trim_end().lines();
        let first = lines.next().unwrap_or_default().to_string();
        let hint = lines.next().unwrap_or_default().trim();
        let hint = hint.strip_prefix("hint: ").unwrap_or(hint).to_string();
        for line in lines {
            eprintln!("{line}");
        }
        Failure::new(first, hint)
    })
}

/// Whether a profile of this name or path exists, valid or not.
pub fn is_there(name: &str) -> bool {
    !name.is_empty() && (Profile::builtin(name).is_some() || path_of(name).exists())
}

/// A path, or the name of a file in the directory.
fn path_of(name: &str) -> PathBuf {
    if is_path(name) {
        return name.into();
    }
    let directory = std::env::var_os("LATLAB_PROFILE_DIR").filter(|d| !d.is_empty());
    Path::new(&directory.unwrap_or_else(|| DIRECTORY.into())).join(path_name(name))
}

fn path_name(name: &str) -> PathBuf {
    if is_path(name) {
        name.into()
    } else {
        format!("{name}.yaml").into()
    }
}

fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml")
}
