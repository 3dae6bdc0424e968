//! Nodes that move.

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Example: latlab migrate overlay guest --to container\n\n\
                  A VM can be moved if it has `root: disk`, and a container if all its links are overlays with a carrier. \
                  These give each node a host of its own; the node comes to that of the other one.\n\n\
                  Before a container moves, its servers take no new connections, and what its programs have closed is sent. \
                  Its streams become plain connections, and stay so."
)]
pub struct Migrate {
    /// Name of the lab.
    pub lab: String,
    /// Name of the node.
    pub node: String,
    /// Node to whose hosts it comes. Without it: to its own again, or a VM to another QEMU on the same taps.
    #[arg(long, value_name = "NODE")]
    pub to: Option<String>,
}
