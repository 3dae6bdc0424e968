//! DPDK in a node: the places of its huge pages and sockets, and the arguments that name them.
//!
//! ```text
//!                 container                     native
//! huge pages      /dev/hugepages                NODE/dpdk/pages
//! arguments       /run/latlab/dpdk/eal          NODE/dpdk/eal
//! socket          /run/latlab/dpdk/ports/PORT/socket   where the daemon has it
//! functions       /dev/vfio/GROUP               the same
//! ```
//!
//! A container gets the usual place. A native node sees the host's files, among which latlab makes nothing, so its places
//! are in the node's own directory, and mounts there are seen by its commands only.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use latlab_model::kinds::{Bind, NodeKind};
use latlab_model::plan::{DpdkPlan, EAL_FILE_VARIABLE, EAL_VARIABLE, HUGE_PAGES_AT};

use super::driver::Node;
use crate::sys;
use crate::sys::file::write_atomically;
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
    if node.plan.kind() == NodeKind::Container {
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
    let mut all = vec![
        (EAL_VARIABLE.to_owned(), arguments(node, dpdk, &places)),
        (EAL_FILE_VARIABLE.to_owned(), file),
    ];
    if node.plan.kind() != NodeKind::Container {
        let runtime = format!("{}/{RUNTIME}", places.directory);
        all.push(("RUNTIME_DIRECTORY".to_owned(), runtime));
    }
    all
}

fn arguments(node: &Node<'_>, dpdk: &DpdkPlan, places: &Places) -> String {
    let mac = |port: &str| {
        let mut interfaces = node.plan.interfaces.iter();
        let found = interfaces.find(|interface| interface.name == port);
        found.map_or_else(String::new, |interface| interface.mac.to_string())
    };
    let device = |port: &str| {
        let card = node.devices.get(port);
        card.map_or_else(String::new, |card| card.address.clone())
    };
    let mut all = dpdk.arguments(&node.plan.name, &places.pages, &places.socket, mac, device);
    if node.plan.kind() != NodeKind::Container {
        // The path of the node's directory may be too long for that of a socket.
        all.extend(["--no-shconf", "--no-telemetry"].map(str::to_owned));
    }
    all.join(" ")
}

/// Makes the directories and the file of a node with DPDK. To be called when it is started.
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
        let mut private = DirBuilder::new();
        let made = private.recursive(true).mode(0o700).create(&path);
        made.map_err(sys::Error::of("make", path.display()))?;
    }
    let text = arguments(node, dpdk, &places(node)) + "\n";
    write_atomically(&directory.join(EAL), text.as_bytes(), 0o644)
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
