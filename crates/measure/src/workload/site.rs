//! Where the programs of a measurement are: their nodes, addresses and directories.

use latlab_host::lab::Lab;
use latlab_model::kinds::StorageType;
use latlab_model::plan::Reach;
use latlab_model::spec::{Measurement, Workload};
use latlab_wire::scratch::Medium;

use super::node::{Job, run_all};
use super::programs::{Files, Peers, Place};
use crate::context::{loopback, unspecified};
use crate::error::Error;
use crate::measured::Kept;

/// A program's node, and that of its client if it is another one.
#[derive(Debug)]
pub(super) struct Site {
    pub client: Option<String>,
    pub place: Place,
}

impl Site {
    /// In the node of the measurement, where a server is.
    pub fn job(&self, argv: Vec<String>) -> Job {
        Job::of(&self.place.node, argv)
    }

    pub fn client_job(&self, argv: Vec<String>) -> Job {
        Job::of(self.client.as_ref().unwrap_or(&self.place.node), argv)
    }
}

/// The sites of a measurement, in its order; of a job the first is the client of the others. Fails when no link takes the
/// client to the server.
pub(super) fn all(
    lab: &Lab,
    measurement: &Measurement,
    workload: &Workload,
    nodes: &[&str],
    files: &Files,
) -> Result<Vec<Site>, Error> {
    let from = workload.from.as_ref().map(|from| from.value.as_str());
    let begins = nodes.first().filter(|_| workload.is_joint()).copied();
    let is_ipv6 = measurement.ip == 6;
    let site = |node: &str| {
        let client = from.or(begins).filter(|client| *client != node);
        let (server, listen) = match client {
            None => (loopback(is_ipv6), loopback(is_ipv6)),
            // From the outside of a NAT, a node has another address than its own.
            Some(client) => {
                let server = reach(lab, client, node, is_ipv6)?.address;
                (server, unspecified(is_ipv6))
            }
        };
        let peers = match begins == Some(node) {
            true => peers(lab, node, &nodes[1..], is_ipv6)?,
            false => Peers::default(),
        };
        let directory = directory(lab, node, files);
        Ok(Site {
            place: Place {
                node: node.to_owned(),
                agent: lab.agent_file(client.unwrap_or(node)),
                own_agent: lab.agent(node),
                in_tmpfs: is_tmpfs(lab, node, &directory),
                directory,
                server: server.to_string(),
                listen: listen.to_string(),
                peers,
            },
            client: client.map(str::to_owned),
        })
    };
    nodes.iter().copied().map(site).collect()
}

fn reach(lab: &Lab, from: &str, to: &str, is_ipv6: bool) -> Result<Reach, Error> {
    let reach = lab.plan().reach(from, to, is_ipv6);
    reach.ok_or_else(|| Error::unreachable(from, to))
}

/// The other nodes of a job that `node` begins.
fn peers(lab: &Lab, node: &str, others: &[&str], is_ipv6: bool) -> Result<Peers, Error> {
    let mut peers = Peers::default();
    for other in others {
        let reach = reach(lab, node, other, is_ipv6)?;
        if peers.addresses.is_empty() {
            peers.addresses.push(reach.source.to_string());
        }
        peers.addresses.push(reach.address.to_string());
        let network = reach.network.map(|network| network.to_string());
        peers
            .networks
            .extend(network.filter(|network| !peers.networks.contains(network)));
    }
    Ok(peers)
}

/// The name is the lab's and the node's: native nodes share the host's directories.
fn directory(lab: &Lab, node: &str, files: &Files) -> String {
    match files {
        Files::None => String::new(),
        Files::Memory => lab.scratch(node),
        Files::In { directory, .. } => {
            let directory = directory.trim_end_matches('/');
            format!("{directory}/{}", lab.scratch_name(node))
        }
    }
}

fn is_tmpfs(lab: &Lab, node: &str, directory: &str) -> bool {
    let node = lab.plan().node(node);
    let storage = node.and_then(|node| node.storage_of(directory));
    storage.is_some_and(|storage| storage.kind == StorageType::Tmpfs)
}

/// Makes a new directory for the program of every site: the file systems that they are on. Fails where files must be on
/// a disk and are in memory.
pub(super) fn make_directories(
    lab: &Lab,
    sites: &[Site],
    files: &Files,
    kept: &mut Kept,
) -> Result<Vec<Option<String>>, Error> {
    let said = run_all(lab, &scratch(lab, sites, "new"), &mut [], kept)?;
    let told = sites.iter().zip(said).map(|(site, said)| {
        let Some(medium) = Medium::parse(&said) else {
            return Ok(None);
        };
        // Memory that the lab asks for by its name is what is to be measured.
        let on_disk = matches!(files, Files::In { storage: true, .. }) && !site.place.in_tmpfs;
        let is_refused = on_disk && medium.is_memory;
        if is_refused {
            return Err(Error::InMemory {
                node: site.place.node.clone(),
                directory: site.place.directory.clone(),
                kind: medium.kind,
            });
        }
        let memory = if medium.is_memory { ", in memory" } else { "" };
        Ok(Some(format!("{}{memory}", medium.kind)))
    });
    told.collect()
}

pub(super) fn remove_directories(lab: &Lab, sites: &[Site], kept: &mut Kept) -> Result<(), Error> {
    run_all(lab, &scratch(lab, sites, "remove"), &mut [], kept).map(drop)
}

/// A command of the agent in every site that has a directory.
fn scratch(lab: &Lab, sites: &[Site], verb: &str) -> Vec<Job> {
    let job = |site: &Site| {
        let directory = &site.place.directory;
        let argv = match directory.is_empty() {
            true => Vec::new(),
            false => [&lab.agent(&site.place.node), "scratch", verb, directory]
                .map(str::to_owned)
                .to_vec(),
        };
        site.job(argv)
    };
    sites.iter().map(job).collect()
}
