//! The overlay daemons of a deployed lab.

use latlab_host::dirs::Dirs;
use latlab_host::lab;
use latlab_model::plan::{EndpointPlan, LinkPlan, Medium};

use super::hosts::Socket;
use crate::failure::{Failure, explain};

/// The daemons of a lab's link of type overlay, each with its node's name.
pub(super) fn of_lab(name: &str) -> Result<Vec<Socket>, Failure> {
    let dirs = Dirs::from_env();
    let plan = lab::plan_of(&dirs, name).map_err(explain)?;
    let run = dirs.run(name).join("overlay");
    let has_hosts =
        |link: &&LinkPlan| matches!(&link.medium, Medium::Overlay(overlay) if overlay.has_hosts());
    let mut links = plan.links.iter().filter(has_hosts);
    let (Some(link), None) = (links.next(), links.next()) else {
        let message = format!("lab `{name}` has not exactly one link between overlay hosts");
        let hint = "it needs one link with `type: overlay` and `carrier: vxlan` or `udp`; or name \
                    daemons with --control";
        return Err(Failure::new(message, hint));
    };
    let socket = |(number, end): (usize, &EndpointPlan)| Socket {
        path: run.join(format!("{}.{number}", link.name)).join("control"),
        host: plan.nodes[end.node].name.clone(),
    };
    Ok(link.endpoints.iter().enumerate().map(socket).collect())
}
