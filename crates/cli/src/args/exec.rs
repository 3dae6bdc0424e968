//! Commands and shells in nodes.

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples: latlab exec pair server -- ip address\n          latlab exec --detach pair server -- iperf3 -s"
)]
pub struct Exec {
    /// Name of the lab.
    pub lab: String,
    /// Name of the node.
    pub node: String,
    /// Set a variable for the command (repeatable).
    #[arg(long, short, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Run it in this directory.
    #[arg(long, short = 'C', value_name = "DIR")]
    pub directory: Option<String>,
    /// Give the command this terminal: for editors, shells and other interactive programs.
    #[arg(long, short)]
    pub tty: bool,
    /// Do not wait: print the command's pid inside and the file that takes its output. It ends with its node.
    #[arg(long, conflicts_with = "tty")]
    pub detach: bool,
    /// End the command when the connection of ssh ends. `latlab exec` gives this to another host by itself.
    #[arg(long, hide = true)]
    pub over_ssh: bool,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true)]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: latlab shell pair server")]
pub struct Shell {
    /// Name of the lab.
    pub lab: String,
    /// Name of the node.
    pub node: String,
    /// End the shell when the connection of ssh ends. `latlab shell` gives this to another host by itself.
    #[arg(long, hide = true)]
    pub over_ssh: bool,
}
