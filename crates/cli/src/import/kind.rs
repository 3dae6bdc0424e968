//! The kind of an import, by the names of its files.

use std::path::Path;

use super::{captures, topology};
use crate::args::Import;
use crate::failure::{Failure, Outcome};

pub fn run(args: &Import) -> Outcome {
    match &args.files[..] {
        [file] if is_yaml(file) => {
            refuse(
                args.captures.named(),
                "names captures",
                "a topology needs none of captures' options",
            )?;
            topology::run(file, &args.topology)
        }
        files if files.iter().any(|file| is_yaml(file)) => Err(Failure::new(
            "a topology is imported alone",
            "name one file, or name captures in pairs",
        )),
        files => {
            refuse(
                args.topology.named(),
                "is for a topology",
                "name one file that ends in .yml or .yaml",
            )?;
            captures::run(files, &args.captures)
        }
    }
}

fn refuse(option: Option<&str>, why: &str, hint: &str) -> Result<(), Failure> {
    option.map_or(Ok(()), |option| {
        Err(Failure::new(format!("{option} {why}"), hint))
    })
}

fn is_yaml(file: &Path) -> bool {
    let extension = file.extension().unwrap_or_default();
    extension.eq_ignore_ascii_case("yml") || extension.eq_ignore_ascii_case("yaml")
}
