//! Facts in a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use latlab_model::facts::Facts;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read facts from {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} does not describe a machine: {source}", path.display())]
    Parse {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{} has format `{format}`, not `{}`", path.display(), Facts::FORMAT)]
    Format { path: PathBuf, format: String },
}

/// Reads facts from a file that `latlab doctor --format json` wrote, or a person.
pub fn load(path: &Path) -> Result<Facts, Error> {
    let text = fs::read_to_string(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    let facts: Facts = serde_json::from_str(&text).map_err(|source| Error::Parse {
        path: path.to_owned(),
        source,
    })?;
    if facts.format.is_empty() || facts.format == Facts::FORMAT {
        return Ok(facts);
    }
    Err(Error::Format {
        path: path.to_owned(),
        format: facts.format,
    })
}
