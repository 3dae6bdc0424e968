//! DPDK in a guest: its huge pages are counted and mounted, its ports go to their driver, and its commands learn the
//! arguments. The pages go with the guest's memory, so nothing of them is to be undone.

use std::collections::BTreeMap;
use std::time::Duration;

use latlab_model::plan::NodePlan;
use latlab_netlink::MacAddress;
use latlab_wire::channel::{Exec, ExitStatus};

use super::channel::{Channel, Finished};
use super::error::Error;
use crate::links::NicBackend;
use crate::nodes::dpdk;
use crate::nodes::driver::Node;
use crate::nodes::session;

/// The kernel clears pages when a program first writes them, not here.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Sets it up inside, before the guest's network. `backends` are the network sides of its interfaces.
pub(super) fn set_up(
    channel: &Channel,
    node: &Node<'_>,
    backends: &[NicBackend],
) -> Result<(), session::Error> {
    let Some(own) = &node.plan.dpdk else {
        return Ok(());
    };
    let (page, bytes) = (own.page.0.to_string(), own.huge_pages.0.to_string());
    run(channel, &["huge-pages", &page, &bytes]).map_err(|reason| Error::HugePages { reason })?;
    let macs = macs(node.plan, backends);
    let mut words = vec!["ports", own.driver.word()];
    words.extend(macs.iter().map(String::as_str));
    let said = run(channel, &words).map_err(|reason| Error::Ports { reason })?;
    let ports = own.ports.iter().cloned();
    let devices: BTreeMap<String, String> = ports.zip(said.lines().map(str::to_owned)).collect();
    let (text, path) = dpdk::note(node, &devices)?;
    Ok(channel.put(&text, &path)?)
}

/// The Ethernet addresses by which a guest finds its ports, in their order.
fn macs(node: &NodePlan, backends: &[NicBackend]) -> Vec<String> {
    let ports = node.dpdk.iter().flat_map(|dpdk| &dpdk.ports);
    let mac = |port: &String| {
        let index = node.interfaces.iter().position(|i| i.name == *port)?;
        let own = backends.get(index).and_then(NicBackend::own_mac);
        let mac = own.unwrap_or(node.interfaces[index].mac.0);
        Some(MacAddress(mac).to_string())
    };
    ports.filter_map(mac).collect()
}

/// Runs a program of the agent's; what it says, or the reason why it could not.
fn run(channel: &Channel, words: &[&str]) -> Result<String, String> {
    let argv = std::iter::once(&"latlab-agent").chain(words);
    let exec = Exec {
        argv: argv.map(ToString::to_string).collect(),
        ..Exec::default()
    };
    let finished = channel.run(exec, b"", TIMEOUT);
    let Finished {
        status,
        stdout,
        stderr,
    } = finished.map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match status {
        ExitStatus::Code(0) => Ok(text(&stdout)),
        _ => {
            let said = text(&stderr);
            let said = said.trim();
            let reason = said.strip_prefix("latlab-agent: ").unwrap_or(said);
            Err(reason.to_owned())
        }
    }
}
