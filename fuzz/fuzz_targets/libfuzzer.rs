//! The front end for cargo-fuzz: `LATLAB_FUZZ_TARGET=lab cargo +nightly fuzz run --features libfuzzer
//! libfuzzer`. One binary holds all targets, because each is one function.

#![no_main]

use std::sync::LazyLock;

use latlab_fuzz::{TARGETS, Target, target};

static CHOSEN: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("LATLAB_FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
        panic!("set LATLAB_FUZZ_TARGET to one of: {}", names.join(", "))
    })
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    (CHOSEN.run)(data);
});
