//! Compiles the kernel's programs with the distribution's clang.
//!
//! Plain clang instead of a skeleton generator: objects whose maps are found by name need no
//! generated code, and every tool that is not there cannot be missing.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Source, object, and what is defined. The tap has a form for kernels without type information.
const PROGRAMS: [(&str, &str, &[&str]); 4] = [
    ("tap", "tap", &[]),
    ("tap", "tap-without-types", &["-DWITHOUT_TYPES"]),
    ("recorder", "recorder", &[]),
    ("steal", "steal", &[]),
];

fn main() {
    let out = PathBuf::from(std::env::var("OUT_DIR").unwrap_or_default());
    let headers = std::env::var("DEP_BPF_INCLUDE").unwrap_or_default();
    let triplet = format!(
        "/usr/include/{}-linux-gnu",
        std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default()
    );
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    for (program, object, defined) in PROGRAMS {
        let source = format!("bpf/{program}.bpf.c");
        let status = Command::new(&clang)
            .args([
                "-target", "bpf", "-mcpu=v3", "-g", "-O2", "-Wall", "-Werror",
            ])
            .args(defined)
            // Without this the system's own headers of the architecture are not found.
            .args(["-idirafter", &triplet, "-I", &headers, "-c", &source, "-o"])
            .arg(out.join(format!("{object}.bpf.o")))
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
    assert!(
        Path::new(&headers).exists(),
        "libbpf-sys did not say where its headers are"
    );
}
