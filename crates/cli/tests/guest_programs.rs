//! The built-in programs of workloads in a VM: one boot for all. Only with `LATLAB_TEST_GUEST=1`.

mod common;

use common::enter;
use common::programs::{Disk, PROGRAMS, measurements, result_of, server_of};
use common::study::run;

#[test]
fn every_program_runs_in_a_vm() {
    if !common::guests() {
        eprintln!("skipped: guest tests boot virtual machines: set LATLAB_TEST_GUEST=1");
        return;
    }
    enter("every_program_runs_in_a_vm", |bench| {
        let disk = Disk::new();
        let lab = format!(
            "name: NAME\n  topology:\n    nodes:\n      a: {{kind: native}}\n      \
             g: {{kind: vm, memory: 768MiB, binds: [\"{0}:{0}\"]}}\n    \
             links: [{{endpoints: [\"a:eth0\", \"g:eth0\"]}}]\n",
            disk.0.display()
        );
        let all = measurements("g", &disk.0)
            + "  - {name: from, probe: workload, on: g, from: a, program: {name: redis, connections: 5}, duration: 1s}\n";
        let (said, run) = run(bench, "guest-programs", &lab, &all);
        said.good();
        for name in PROGRAMS {
            let result = result_of(&run, name);
            assert_eq!(result.nodes[0].node, "g", "{name}");
        }
        let result = result_of(&run, "from");
        assert_eq!(result.nodes[0].client.as_ref().unwrap().node, "a");
        assert!(server_of(&run, &result.nodes[0]).contains("Ready to accept"));
    });
}
