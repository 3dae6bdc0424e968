//! Compiles a program with the distribution's clang.
//!
//! Plain clang instead of a skeleton generator: objects whose maps are found by name need no
//! generated code, and every tool that is not there cannot be missing.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `bpf/SOURCE.bpf.c` of the package whose build script this is to `OBJECT.bpf.o` in its `OUT_DIR`, with
/// the arguments `defined` (`-DNAME`). The package depends on `libbpf-sys` itself: Cargo tells only such where
/// libbpf's headers are.
///
/// # Panics
/// When it cannot be compiled, which ends the build.
pub fn compile(source: &str, object: &str, defined: &[&str]) {
    let variable = |name| std::env::var(name).unwrap_or_default();
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    let headers = variable("DEP_BPF_INCLUDE");
    assert!(
        Path::new(&headers).exists(),
        "libbpf-sys did not say where its headers are"
    );
    let triplet = format!(
        "/usr/include/{}-linux-gnu",
        variable("CARGO_CFG_TARGET_ARCH")
    );
    let source = format!("bpf/{source}.bpf.c");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let status = Command::new(&clang)
        .args([
            "-target", "bpf", "-mcpu=v3", "-g", "-O2", "-Wall", "-Werror",
        ])
        .args(defined)
        // Without this the system's own headers of the architecture are not found.
        .args(["-idirafter", &triplet, "-I", &headers, "-c", &source, "-o"])
        .arg(PathBuf::from(variable("OUT_DIR")).join(format!("{object}.bpf.o")))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile {source} ({status})"),
        Err(error) => panic!(
            "cannot run {clang}, which compiles {source}: {error}; install the package clang \
             (scripts/setup build does)"
        ),
    }
}
