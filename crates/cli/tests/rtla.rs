//! The kernel's own tracers of noise, inside a guest whose kernel has them: Debian's real-time kernel.

mod common;

use common::{enter_with_vms, fetch};

#[test]
fn noise_uses_the_tracers_of_a_real_time_kernel() {
    fetch("rt");
    enter_with_vms("noise_uses_the_tracers_of_a_real_time_kernel", |bench| {
        // The guest has the host's root, but not the directories that tests are built in.
        let here = std::path::Path::new(env!("CARGO_BIN_EXE_latlab")).parent();
        let lab = format!(
            "name: NAME\ntopology:\n  nodes:\n    a: {{kind: vm, kernel: rt, cpus: 2, \
             binds: [\"{}:/run/tools:ro\"]}}\n",
            here.unwrap().display()
        );
        let name = bench.deploy("tracers", &lab);
        let noise = "mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing
             exec /run/tools/latlab noise --cpus 1 --duration 2s --format json";
        let said = bench.exec(&name, "a", &["sh", "-c", noise]).good();
        let told: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        let tracers: Vec<&str> = told["rtla"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| one["tracer"].as_str())
            .collect();
        assert_eq!(tracers, ["osnoise", "timerlat"], "{told:#}");
        for one in told["rtla"].as_array().unwrap() {
            let output = one["output"].as_str().unwrap();
            let columns = output.lines().any(|line| line.contains("CPU"));
            assert!(columns, "{output}");
        }
        bench.latlab(&["destroy", &name]).good();
    });
}
