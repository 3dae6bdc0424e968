//! DPDK in a node: the places of its huge pages and sockets, and the arguments that name them.
//!
//! ```text
//!                 container, VM                 native
//! huge pages      /dev/hugepages                NODE/dpdk/pages
//! arguments       /run/latlab/dpdk/eal          NODE/dpdk/eal
//! socket          /run/latlab/dpdk/ports/PORT/socket   where the daemon has it
//! functions       /dev/vfio/GROUP               the same
//! ```
//!
//! A container gets the usual place, and so does a VM, whose addresses of cards are known once it is up: its arguments are noted
//! on the host then. A native node sees the host's files, among which latlab makes nothing, so its places
//! are in the node's own directory, and mounts there are seen by its commands only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use latlab_model::kinds::{Bind, NodeKind};
use latlab_model::plan::{DpdkPlan, EAL_FILE_VARIABLE, EAL_VARIABLE, HUGE_PAGES_AT};

use super::driver::Node;
use crate::sys;
use crate::sys::file::{make_private, write_atomically};
use crate::sys::vfio;

/// The node's directory with these.
const DIRECTORY: &str = "dpdk";
const INSIDE: &str = "/run/latlab/dpdk";
const OWN_PAGES: &str = "pages";
const EAL: &str = "eal";
/// Directories with the sockets of ports.
const PORTS: &str = "ports";
/// The name of a port's socket in its directory.
const SOCKET: &str = "socket";
/// The directory for what DPDK's processes share, where the host's is not to have it.
const RUNTIME: &str = "run";

/// Paths of a node with DPDK.
struct Places {
    pages: String,
    directory: String,
    socket: Box<dyn Fn(&str) -> String>,
}

fn places(node: &Node<'_>) -> Places {
    let sockets = node.sockets.clone();
    if node.plan.kind() != NodeKind::Native {
        return Places {
            pages: HUGE_PAGES_AT.to_owned(),
            directory: INSIDE.to_owned(),
            socket: Box::new(|port| format!("{INSIDE}/{PORTS}/{port}/{SOCKET}")),
        };
    }
    let directory = node.dir.join(DIRECTORY);
    Places {
        pages: directory.join(OWN_PAGES).display().to_string(),
        directory: directory.display().to_string(),
        socket: Box::new(move |port| {
            let at = sockets.get(port).map(|at| at.join(SOCKET));
            at.unwrap_or_default().display().to_string()
        }),
    }
}

/// The variables that commands of the node get, and their values.
pub(crate) fn environment(node: &Node<'_>) -> Vec<(String, String)> {
    let Some(dpdk) = &node.plan.dpdk else {
        return Vec::new();
    };
    let places = places(node);
    let file = format!("{}/{EAL}", places.directory);
    let arguments = match node.plan.kind().is_guest() {
        // None are there in a VM that did not come up.
        true => fs::read_to_string(noted(node)).unwrap_or_default(),
        false => arguments(node, dpdk, &places, &addresses(node)),
    };
    let mut all = vec![
        (EAL_VARIABLE.to_owned(), arguments.trim_end().to_owned()),
        (EAL_FILE_VARIABLE.to_owned(), file),
    ];
    if node.plan.kind() == NodeKind::Native {
        let runtime = format!("{}/{RUNTIME}", places.directory);
        all.push(("RUNTIME_DIRECTORY".to_owned(), runtime));
    }
    all
}

/// Addresses on the bus of the cards of hardware that it has.
fn addresses(node: &Node<'_>) -> BTreeMap<String, String> {
    let cards = node.devices.iter();
    cards
        .map(|(port, card)| (port.clone(), card.address.clone()))
        .collect()
}

/// `devices` are the addresses of its ports on the bus, by the name of the port.
fn arguments(
    node: &Node<'_>,
    dpdk: &DpdkPlan,
    places: &Places,
    devices: &BTreeMap<String, String>,
) -> String {
    let (name, kind) = (node.plan.name.as_str(), node.plan.kind());
    let mac = |port: &str| {
        let mut interfaces = node.plan.interfaces.iter();
        let found = interfaces.find(|interface| interface.name == port);
        found.map_or_else(String::new, |interface| interface.mac.to_string())
    };
    let device = |port: &str| devices.get(port).cloned().unwrap_or_default();
    let mut all = dpdk.arguments((name, kind), &places.pages, &places.socket, mac, device);
    if kind == NodeKind::Native {
        // The path of the node's directory may be too long for that of a socket.
        all.extend(["--no-shconf", "--no-telemetry"].map(str::to_owned));
    }
    all.join(" ")
}

/// The file of its arguments on the host.
fn noted(node: &Node<'_>) -> PathBuf {
    node.dir.join(DIRECTORY).join(EAL)
}

fn make_directory(path: &Path) -> Result<(), sys::Error> {
    make_private(path).map_err(sys::Error::of("make", path.display()))
}

/// Notes the arguments of a VM, whose ports have these addresses inside. Returns the file's text, and its place there.
pub(super) fn note(
    node: &Node<'_>,
    devices: &BTreeMap<String, String>,
) -> Result<(String, String), sys::Error> {
    let Some(dpdk) = &node.plan.dpdk else {
        return Ok(Default::default());
    };
    let places = places(node);
    let text = arguments(node, dpdk, &places, devices) + "\n";
    make_directory(&node.dir.join(DIRECTORY))?;
    write_atomically(&noted(node), text.as_bytes(), 0o644)?;
    Ok((text, format!("{}/{EAL}", places.directory)))
}

/// Makes the directories and the file of a node with DPDK that is no VM. To be called when it is started.
pub(super) fn make(node: &Node<'_>) -> Result<(), sys::Error> {
    let Some(dpdk) = &node.plan.dpdk else {
        return Ok(());
    };
    let directory = node.dir.join(DIRECTORY);
    let ports = directory.join(PORTS);
    let own: &[&str] = match node.plan.kind() {
        NodeKind::Container => &[],
        _ => &[OWN_PAGES, RUNTIME],
    };
    let own = own.iter().map(|name| directory.join(name));
    let ports = node.sockets.keys().map(|port| ports.join(port));
    for path in std::iter::once(directory.clone()).chain(own).chain(ports) {
        make_directory(&path)?;
    }
    let text = arguments(node, dpdk, &places(node), &addresses(node)) + "\n";
    write_atomically(&noted(node), text.as_bytes(), 0o644)
}

/// The binds by which a container sees its file and its sockets, outer before inner.
pub(super) fn binds(node: &Node<'_>) -> Vec<Bind> {
    if node.plan.dpdk.is_none() {
        return Vec::new();
    }
    let bind = |source: &Path, target: String| Bind {
        source: source.display().to_string(),
        target,
        read_only: true,
    };
    let own = bind(&node.dir.join(DIRECTORY), INSIDE.to_owned());
    let sockets = node.sockets.iter();
    let sockets = sockets.map(|(port, at)| bind(at, format!("{INSIDE}/{PORTS}/{port}")));
    let devices = devices(node).into_iter().map(|path| Bind {
        source: path.clone(),
        target: path,
        read_only: false,
    });
    std::iter::once(own).chain(sockets).chain(devices).collect()
}

/// The devices that a container needs for ports that its program drives itself.
pub(super) fn devices(node: &Node<'_>) -> Vec<String> {
    if node.devices.is_empty() {
        return Vec::new();
    }
    let groups: BTreeSet<u32> = node.devices.values().map(|card| card.group).collect();
    let groups = groups.into_iter().map(vfio::file_of);
    let all = groups.map(|path| path.display().to_string());
    std::iter::once(vfio::CONTAINER.to_owned())
        .chain(all)
        .collect()
}

/// The place of a native node's huge pages.
pub(super) fn pages(node: &Node<'_>) -> PathBuf {
    node.dir.join(DIRECTORY).join(OWN_PAGES)
}
