//! Saved nodes.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Example: latlab snapshot pair server --to /var/tmp/server

A VM can be saved if it has `root: disk`. A container is saved by CRIU (4.2 or later, fetched when it is not here); \
what `latlab exec --detach` started is saved, other commands must have ended, and its files stay in the lab. The \
directory holds the node's memory: root's alone.")]
pub struct Snapshot {
    /// Name of the lab.
    pub lab: String,
    /// Name of the node.
    pub node: String,
    /// Directory, which is empty or not there yet.
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// End a container where it was saved; its connections wait for `restore`.
    #[arg(long)]
    pub stop: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example: latlab restore pair server --from /var/tmp/server

The lab must be up, with the same fields; a container goes on in the deployment that it was saved in only. What runs of \
the node ends; it goes on as it was when it was saved.")]
pub struct Restore {
    /// Name of the lab.
    pub lab: String,
    /// Name of the node.
    pub node: String,
    /// Directory that `latlab snapshot` filled.
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
}
