//! VMs of a lab on several hosts. Only with `LATLAB_TEST_GUEST=1`.

mod cluster;
mod common;

use cluster::Cluster;
use cluster::labs::hosts;
use common::{enter, guests};

#[test]
fn vms_on_two_hosts_are_in_one_network() {
    const NAME: &str = "vms_on_two_hosts_are_in_one_network";
    if !guests() {
        return;
    }
    enter(NAME, |bench| {
        let mut cluster = Cluster::new(bench, 2);
        cluster.start_ssh(bench);
        let vm = "kind: vm, cpus: 1, memory: 256MiB";
        let lab = format!(
            "name: NAME\n{}topology:\n  nodes:\n    a: {{{vm}, host: n1}}\n    b: {{{vm}, host: n2}}\n    \
             c: {{kind: native, host: n2}}\n  links:\n    \
             - {{type: overlay, carrier: sealed, endpoints: ['a:eth0', 'b:eth0', 'c:eth0']}}\n",
            hosts(2, false)
        );
        let name = bench.name("wide");
        let file = bench.file("wide", &lab);
        bench.latlab(&["deploy", &file]).good();
        for (from, to) in [("a", "b"), ("a", "c"), ("b", "a"), ("c", "a")] {
            for size in ["56", "9000"] {
                let ping = ["ping", "-c", "3", "-i", "0.1", "-W", "20", "-s", size, to];
                bench.exec(&name, from, &ping).good();
            }
        }
        // A guest that stands still answers nothing, and goes on as it was.
        bench.latlab(&["pause", &name, "a"]).good();
        let said = bench.exec(&name, "b", &["ping", "-c", "1", "-W", "1", "a"]);
        assert_eq!(said.code, 1, "{said:#?}");
        bench.latlab(&["resume", &name]).good();
        bench
            .exec(&name, "b", &["ping", "-c", "1", "-W", "20", "a"])
            .good();
        bench.latlab(&["destroy", &name]).good();
    });
}
