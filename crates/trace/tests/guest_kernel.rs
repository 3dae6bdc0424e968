//! Taps and recorder under the distribution's kernel, which may be older: before Linux 6.6 taps are filters. Only with
//! `LATLAB_TEST_GUEST=1`; `LATLAB_TEST_KERNEL=VMLINUZ` names another kernel, its modules beside it.

#[path = "../../host/tests/guests/mod.rs"]
mod guests;
mod recorder;
mod taps;

use std::time::Duration;

use latlab_host::nodes::vm::{Access, Share};
use latlab_wire::channel::ExitStatus;

#[test]
fn recorder_and_taps_do_the_same_under_the_distributions_kernel() {
    if !guests::asked_for() {
        return;
    }
    let test = std::env::current_exe().unwrap();
    let target = test.parent().unwrap();
    let which = std::env::var("LATLAB_TEST_KERNEL").unwrap_or("standard".into());
    let guest = guests::Guest::boot(&which, |config| {
        config.vcpus = 2;
        config.memory_bytes = 1 << 30;
        config.shares.push(Share::new(
            target,
            target.display().to_string(),
            Access::Read,
        ));
    });
    let channel = guest.channel();
    let kernel = guests::text(&channel, "uname -r");
    let line = format!(
        "for module in veth sch_ingress cls_bpf; do modprobe $module || exit; done; \
         cd /tmp; {} --nocapture recorder:: taps:: 2>&1",
        test.display()
    );
    let finished = channel
        .run(guests::shell(&line), b"", Duration::from_secs(300))
        .unwrap();
    let said = String::from_utf8_lossy(&finished.stdout);
    eprintln!("{kernel}{said}");
    assert_eq!(finished.status, ExitStatus::Code(0), "{kernel}{said}");
    assert!(!said.contains("skipped:"), "{kernel}{said}");
}
