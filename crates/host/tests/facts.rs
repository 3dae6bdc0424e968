//! The proofs against independent probes: what `facts::read` finds must be what the ordinary tools
//! find in fresh namespaces of their own, whatever this machine can and cannot do.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use latlab_host::dirs::Dirs;
use latlab_host::facts::{self, CpusInUse, ReadOptions};
use latlab_model::facts::Facts;

/// Runs a script in fresh network and mount namespaces; true if it succeeds.
fn succeeds(script: &str) -> bool {
    let status = Command::new("unshare")
        .args(["--net", "--mount", "sh", "-ec", script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn has(tool: &str) -> bool {
    latlab_host::programs::find(tool).is_some()
}

fn options(name: &str) -> ReadOptions {
    let root = std::env::temp_dir().join(format!("latlab-facts-{name}-{}", std::process::id()));
    let mut options = ReadOptions::everything(CpusInUse::default());
    // The boot proof takes seconds and has tests of its own.
    options.prove.remove(Facts::KVM);
    options.dirs = Dirs::below(&root);
    options
}

fn clean(options: &ReadOptions) {
    if let Some(root) = options.dirs.cache().parent() {
        let _ = std::fs::remove_dir_all(root);
    }
}

#[test]
fn proofs_agree_with_the_ordinary_tools() {
    if !rustix::process::geteuid().is_root() || !has("unshare") || !has("ip") || !has("tc") {
        eprintln!("skipped: needs root, unshare, ip and tc to compare with");
        return;
    }
    let options = options("agree");
    let facts = facts::read(&options);
    clean(&options);
    let veth = "ip link add name left type veth peer name right";
    let on_veth = |kind: &str| format!("{veth}; ip link add link left name upper type {kind}");
    let probes = [
        (Facts::VETH, veth.to_owned()),
        // Known or not to this `ip`: it passes on the word.
        (Facts::NETKIT, "ip link add name near type netkit".into()),
        (Facts::BRIDGE, "ip link add name switch type bridge".into()),
        (
            Facts::VXLAN,
            "ip link add name tunnel type vxlan id 1 dstport 4789".into(),
        ),
        (Facts::TAP, "ip tuntap add dev tap0 mode tap".into()),
        (
            Facts::NETEM,
            "tc qdisc add dev lo root netem delay 1ms".into(),
        ),
        (
            Facts::TBF,
            "tc qdisc add dev lo root tbf rate 1gbit burst 128kb latency 10ms".into(),
        ),
        (Facts::MACVLAN, on_veth("macvlan mode bridge")),
        (Facts::MACVTAP, on_veth("macvtap mode bridge")),
        (
            Facts::MASQUERADE,
            "nft add table inet t
            nft 'add chain inet t c { type nat hook postrouting priority 100; }'
            nft add rule inet t c oifname eth0 masquerade"
                .into(),
        ),
        (
            Facts::OVERLAYFS,
            "mount -t tmpfs none /tmp; cd /tmp; mkdir u w m
            mount -t overlay -o lowerdir=/,upperdir=u,workdir=w none m; : > m/x"
                .into(),
        ),
        (Facts::VHOST_NET, "test -c /dev/vhost-net".into()),
        (
            Facts::VFIO,
            "test -n \"$(ls /sys/kernel/iommu_groups)\" && modprobe vfio_pci".into(),
        ),
        (Facts::BPF_BTF, "test -r /sys/kernel/btf/vmlinux".into()),
        (
            Facts::HUGE_PAGES,
            "test \"$(awk '/HugePages_Total/ {print $2}' /proc/meminfo)\" -gt 0".into(),
        ),
        (Facts::REALTIME, "uname -v | grep -q PREEMPT_RT".into()),
    ];
    let mut different = Vec::new();
    for (name, script) in &probes {
        let expected = succeeds(script);
        match facts.capabilities.get(*name) {
            Some(found) if found.works == expected => {}
            other => different.push(format!("{name}: tools say {expected}, found {other:?}")),
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(
        facts.unproven.is_empty(),
        "root leaves nothing unproven: {:?}",
        facts.unproven
    );
}

#[test]
fn missing_capabilities_name_their_cost() {
    let options = options("costs");
    let facts = facts::read(&options);
    clean(&options);
    for (name, capability) in &facts.capabilities {
        assert!(!capability.reason.is_empty(), "{name}");
        assert_eq!(capability.works, capability.costs.is_empty(), "{name}");
        assert!(!capability.works || capability.remedy.is_none(), "{name}");
    }
    let tried = facts.capabilities.len() + facts.unproven.len();
    assert_eq!(tried, options.prove.len(), "each wish has an answer");
}

/// Objects that a proof of this process could leave: interfaces, mounts, cgroups.
fn traces() -> Vec<String> {
    let lines = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(Into::into).collect::<Vec<String>>()
    };
    let mut all = lines("/proc/self/mountinfo");
    all.retain(|line| line.contains(" /tmp"));
    let interfaces = lines("/proc/net/dev").into_iter();
    all.extend(interfaces.filter(|line| line.contains("proof-")));
    let group = format!("_proof-{}-*", std::process::id());
    let groups = Command::new("find")
        .args(["/sys/fs/cgroup", "-name", &group])
        .output();
    if let Ok(groups) = groups {
        let groups = String::from_utf8_lossy(&groups.stdout).into_owned();
        all.extend(groups.lines().map(Into::into));
    }
    all
}

#[test]
fn proofs_leave_nothing() {
    let options = options("traces");
    facts::read(&options);
    clean(&options);
    // Other tests' proofs may be under way; theirs go too, so this ends.
    let started = Instant::now();
    let ours = |line: &String| !line.contains("/tmp");
    let mut left: Vec<String> = traces();
    while left.iter().any(ours) && started.elapsed().as_secs() < 30 {
        left = traces();
    }
    left.retain(|line| line.contains("latlab") || line.contains("proof-"));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn facts_survive_a_file() {
    let options = options("file");
    let facts = facts::read(&options);
    let path = options.dirs.cache().join("machine.json");
    std::fs::create_dir_all(options.dirs.cache()).unwrap();
    std::fs::write(&path, serde_json::to_vec_pretty(&facts).unwrap()).unwrap();
    assert_eq!(facts::load(&path).unwrap(), facts);
    std::fs::write(&path, "{\"format\": \"latlab.facts/99\"}").unwrap();
    let error = facts::load(&path).unwrap_err().to_string();
    assert!(error.contains("machine.json"), "{error}");
    let absent = facts::load(Path::new("/nonexistent/facts.json")).unwrap_err();
    assert!(
        absent.to_string().starts_with("cannot read facts from"),
        "{absent}"
    );
    clean(&options);
}
