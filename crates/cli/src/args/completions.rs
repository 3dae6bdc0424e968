//! Completions of a shell.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Example: latlab completions bash > /usr/share/bash-completion/completions/latlab

The Debian package installs them.")]
pub struct Completions {
    /// The shell.
    pub shell: clap_complete::Shell,
}
