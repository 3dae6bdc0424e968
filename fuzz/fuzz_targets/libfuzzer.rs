//! The front end for libFuzzer: `scripts/fuzz-guided lab`, or with cargo-fuzz `LATLAB_FUZZ_TARGET=lab cargo +nightly fuzz run
//! --features libfuzzer libfuzzer`. One binary holds all targets, because each is one function.

#![no_main]

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::LazyLock;

use latlab_fuzz::{TARGETS, Target, target};

static CHOSEN: LazyLock<&Target> = LazyLock::new(|| {
    // libfuzzer-sys aborts at every panic. One that the code under test catches on purpose (the reader of samples files
    // does, around a library) is no finding.
    set_hook(Box::new(|panic| eprintln!("{panic}")));
    let name = std::env::var("LATLAB_FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
        panic!("set LATLAB_FUZZ_TARGET to one of: {}", names.join(", "))
    })
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if catch_unwind(AssertUnwindSafe(|| (CHOSEN.run)(data))).is_err() {
        std::process::abort();
    }
});
