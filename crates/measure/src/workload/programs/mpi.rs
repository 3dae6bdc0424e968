//! Open MPI over the nodes of a job: `mpirun` in the first, and its daemons started in the others by latlab's agent.

use latlab_host::sys::random;

use super::work::{Place, Server};
use crate::endpoint::strings;

/// Where the agents of the other nodes listen.
const PORT: &str = "6123";
/// TCP alone, on the links of the job, IPv4, by MPI's own engine: UCX and others look for networks of their own. The
/// first node starts all daemons, which stay its agents' children. Shared memory joins ranks of one node, without a
/// system call that a container may not make (process_vm_readv(2)).
const OPTIONS: &str = "--allow-run-as-root --oversubscribe --bind-to none --leave-session-attached \
    --mca plm rsh --mca plm_rsh_no_tree_spawn 1 --mca pml ob1 --mca btl self,vader,tcp \
    --mca btl_vader_single_copy_mechanism none --mca btl_tcp_disable_family 6 \
    --mca orte_tmpdir_base \"$PWD\"";

/// A secret of one measurement: other nodes of the lab reach the agents' port too.
pub(super) fn token() -> String {
    random::hex::<16>()
}

/// The starter of a node's part; none in the node that begins.
pub(super) fn server(at: &Place, token: &str) -> Option<Server> {
    at.peers.addresses.is_empty().then(|| Server {
        name: "the agent for MPI",
        argv: strings(&[
            &at.own_agent,
            "mpi",
            "serve",
            &at.node,
            &at.server,
            PORT,
            token,
        ]),
        ready: strings(&[&at.agent, "mpi", "start", PORT, token, &at.server]),
    })
}

/// A line for the shell of the first node: `program` with `ranks` ranks in each node. Fails where `mpirun` would divide
/// the agent's path, as it does at spaces and colons.
pub(super) fn run(at: &Place, token: &str, ranks: u32, program: &str) -> Result<String, String> {
    let (agent, node) = (&at.agent, &at.node);
    if agent.contains(|c: char| c == ':' || c.is_whitespace()) {
        return Err(format!(
            "cannot be told of latlab's agent at `{agent}`, whose path has a space or a colon"
        ));
    }
    let networks = at.peers.networks.join(",");
    let hosts = at.peers.addresses.iter();
    let hosts: Vec<String> = hosts.map(|address| format!("{address}:{ranks}")).collect();
    let yields = u8::from(is_crowded(hosts.len() * ranks as usize));
    let hosts = hosts.join(",");
    Ok(format!(
        "'{agent}' mpi run '{node}' mpirun {OPTIONS} --mca mpi_yield_when_idle {yields} \
         --mca plm_rsh_agent \"{agent} mpi start {PORT} {token}\" --mca btl_tcp_if_include {networks} \
         --mca oob_tcp_if_include {networks} -H {hosts} {program}"
    ))
}

/// Ranks poll. Where they outnumber the host's CPUs, each gives up its CPU when it finds nothing.
fn is_crowded(ranks: usize) -> bool {
    let cpus = std::thread::available_parallelism();
    cpus.is_ok_and(|cpus| ranks > cpus.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_mpirun_would_divide_is_refused() {
        let at = |agent: &str| Place {
            agent: agent.to_owned(),
            ..Place::default()
        };
        assert!(run(&at("/opt/agent"), "t", 1, "hpcc").is_ok());
        for path in ["/my files/agent", "/a:b/agent"] {
            assert!(run(&at(path), "t", 1, "hpcc").unwrap_err().contains(path));
        }
    }
}
