//! Labs and other tools' files, made of each other: where the result goes, and what is told of the difference.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use latlab_model::containerlab::Remarks;

use crate::failure::{DIFFERS, Failure, Hint};
use crate::format::counted;

#[derive(Debug, Args)]
pub struct Output {
    /// Write it to this file instead of the standard output.
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long, requires = "output", help_heading = "Output")]
    pub force: bool,
}

impl Output {
    /// Writes a whole text. Errors: the file exists, or cannot be written.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        let Some(path) = &self.output else {
            return crate::print::out_if_read(text);
        };
        let mut options = std::fs::OpenOptions::new();
        options
            .write(true)
            .create_new(!self.force)
            .create(true)
            .truncate(true);
        let file = options.open(path);
        if file
            .as_ref()
            .is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists)
        {
            let message = format!("{} exists", path.display());
            return Err(Failure::new(message, "--force replaces it"));
        }
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written
            .map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))
            .hint("name a file in a directory that may be written")
    }
}

/// Tells what differs from `file`, and returns the exit code: whether all nodes and links are there.
pub fn tell(remarks: &Remarks, file: &str) -> ExitCode {
    eprint!("{}", remarks.render(file));
    if remarks.is_whole() {
        return ExitCode::SUCCESS;
    }
    let (nodes, links) = (
        counted(remarks.nodes_left_out, "node"),
        counted(remarks.links_left_out, "link"),
    );
    eprintln!("latlab: {nodes} and {links} of {file} are left out");
    ExitCode::from(DIFFERS)
}
