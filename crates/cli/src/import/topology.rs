//! A topology of containerlab as a lab.

use std::path::Path;

use latlab_model::containerlab::{Surroundings, import};

use crate::args::ImportTopology;
use crate::conversion;
use crate::failure::{Failure, Hint, Outcome};
use crate::files::Source;

pub fn run(file: &Path, args: &ImportTopology) -> Outcome {
    let source = Source::read(file)?;
    let read = |path: &str| {
        let path = source.directory.join(path);
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    };
    let directory = elsewhere(&source.directory, args.output.output.as_deref())?;
    let around = Surroundings {
        variable: &|name| std::env::var(name).ok(),
        file: &read,
        directory: &directory,
        image: args.image.as_deref(),
    };
    let imported = import(&source.text, &around).map_err(|all| source.mistakes(all))?;
    args.output.write(&imported.text(&source.name))?;
    Ok(conversion::tell(&imported.remarks, &source.name))
}

/// The topology's directory, unless the lab comes there too: paths are relative to the file that has them.
fn elsewhere(topology: &Path, lab: Option<&Path>) -> Result<String, Failure> {
    let of = |path: &Path| match path.as_os_str().is_empty() {
        true => std::fs::canonicalize("."),
        false => std::fs::canonicalize(path),
    };
    let topology = of(topology)?;
    let Some(lab) = lab else {
        return Ok(String::new());
    };
    let lab = of(lab.parent().unwrap_or(Path::new("")));
    match lab.hint("name a file in a directory that is there")? == topology {
        true => Ok(String::new()),
        false => Ok(topology.display().to_string()),
    }
}
