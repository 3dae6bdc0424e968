//! Copies of a VM that runs.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Example: latlab clone cluster first second third

The copies go on with the memory, processes and files of the node, and with their own names, hardware addresses, \
addresses, machine ids, random numbers and links. What ran of them before ends. The lab has them as VMs with \
`root: disk` and the same fields as the node. Another one is refused and goes on; copies named before it are made.")]
pub struct Clone {
    /// Name of the lab.
    pub lab: String,
    /// Name of the node, which goes on.
    pub node: String,
    /// Names of the nodes that become copies of it.
    #[arg(required = true)]
    pub copies: Vec<String>,
}
