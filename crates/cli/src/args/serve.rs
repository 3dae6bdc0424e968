//! The explorer.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab serve                                   (runs/, at http://127.0.0.1:7070)
  latlab serve /srv/runs --listen 127.0.0.1:0    (any free port)

The printed address contains a token, without which nothing is answered. From another machine: ssh -L 7070:127.0.0.1:7070 HOST. \
Runs are only read; notes and tags are written into annotation.json of a run directory. The index of the runs is in the \
cache directory and can be removed at any time. Needs no root.")]
pub struct Serve {
    /// Directory of run directories.
    #[arg(default_value = "runs", env = "LATLAB_RUNS", value_name = "DIR")]
    pub runs: PathBuf,
    /// Address and port to listen on.
    #[arg(long, default_value = "127.0.0.1:7070", value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,
}
