//! The command channel of a node: the agent serves it there, as it does in a guest.

use latlab_host::lab::Lab;
use latlab_host::nodes::session::Command;

use crate::failure::Outcome;
use crate::pipes;

/// Runs until standard input ends. What the channel started ends with it.
pub fn run(lab: &Lab, node: &str) -> Outcome {
    let agent = lab.agent(node);
    pipes::run(
        lab,
        node,
        &Command::new([agent.as_str(), "serve", "--stdio"]),
        false,
    )
}
