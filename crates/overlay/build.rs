//! Compiles the kernel's program with the distribution's clang, as `latlab-trace` does.

use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "bpf/kernel.bpf.c";

fn main() {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let object = PathBuf::from(variable("OUT_DIR")).join("kernel.bpf.o");
    let triplet = format!(
        "/usr/include/{}-linux-gnu",
        variable("CARGO_CFG_TARGET_ARCH")
    );
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let status = Command::new(&clang)
        .args([
            "-target", "bpf", "-mcpu=v3", "-g", "-O2", "-Wall", "-Werror",
        ])
        // Without this the system's own headers of the architecture are not found.
        .args(["-idirafter", &triplet, "-I", &variable("DEP_BPF_INCLUDE")])
        .args(["-c", SOURCE, "-o"])
        .arg(object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile {SOURCE} ({status})"),
        Err(error) => panic!(
            "cannot run {clang}, which compiles {SOURCE}: {error}; install the package clang \
             (scripts/setup build does)"
        ),
    }
}
