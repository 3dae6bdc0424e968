//! Fuzz targets for every parser of outside data, and a small engine that runs them on stable Rust.
//!
//! A target is a function of any bytes that must return: without a panic, soon, and with little memory. Two
//! front ends run the same functions. `fuzz-bounded` needs only this crate: CI runs it for a few seconds a
//! target, on any machine. `fuzz_targets/libfuzzer.rs` is guided by coverage, which goes deeper than chance:
//! `scripts/fuzz-guided` builds it with stable Rust, cargo-fuzz with nightly Rust.
//!
//! A finding becomes a named case in the tests of its crate.

pub mod engine;
pub mod fabric;
pub mod rings;
pub mod run_dirs;
pub mod seeds;
pub mod talks;
pub mod targets;
mod tokens;

/// A parser under test.
pub struct Target {
    pub name: &'static str,
    /// Runs the parser. The result stands for *how* the input was answered: an input with a new answer is
    /// kept and changed further, in place of coverage.
    pub run: fn(&[u8]) -> u64,
    /// Good inputs, to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that chance would not find.
    pub tokens: &'static [&'static str],
}

pub const TARGETS: &[Target] = &[
    Target {
        name: "lab",
        run: targets::lab,
        seeds: seeds::labs,
        tokens: tokens::YAML_TOKENS,
    },
    Target {
        name: "study",
        run: targets::study,
        seeds: seeds::studies,
        tokens: tokens::YAML_TOKENS,
    },
    Target {
        name: "containerlab",
        run: targets::containerlab,
        seeds: seeds::topologies,
        tokens: tokens::YAML_TOKENS,
    },
    Target {
        name: "profile",
        run: targets::profile,
        seeds: seeds::profiles,
        tokens: tokens::YAML_TOKENS,
    },
    Target {
        name: "overlay-language",
        run: targets::overlay_language,
        seeds: seeds::overlay_language,
        tokens: tokens::OVERLAY_TOKENS,
    },
    Target {
        name: "fabric",
        run: fabric::orders,
        seeds: seeds::fabric,
        tokens: tokens::FABRIC_TOKENS,
    },
    Target {
        name: "units",
        run: targets::units,
        seeds: seeds::units,
        tokens: tokens::UNIT_TOKENS,
    },
    Target {
        name: "documents",
        run: targets::documents,
        seeds: seeds::documents,
        tokens: tokens::JSON_TOKENS,
    },
    Target {
        name: "channel",
        run: targets::channel,
        seeds: seeds::channel,
        tokens: &["LLC1"],
    },
    Target {
        name: "probe-output",
        run: targets::probe_output,
        seeds: seeds::probe_output,
        tokens: tokens::JSON_TOKENS,
    },
    Target {
        name: "probe-header",
        run: targets::probe_header,
        seeds: seeds::probe_header,
        tokens: &["LP", "LR"],
    },
    Target {
        name: "samples-file",
        run: targets::samples_file,
        seeds: seeds::samples_file,
        tokens: &["PAR1"],
    },
    Target {
        name: "image-archive",
        run: targets::image_archive,
        seeds: seeds::image_archive,
        tokens: tokens::ARCHIVE_TOKENS,
    },
    Target {
        name: "image-layer",
        run: targets::image_layer,
        seeds: seeds::image_layer,
        tokens: tokens::ARCHIVE_TOKENS,
    },
    Target {
        name: "iperf3",
        run: targets::iperf3,
        seeds: seeds::iperf3,
        tokens: tokens::JSON_TOKENS,
    },
    Target {
        name: "overlay-frames",
        run: targets::overlay_frames,
        seeds: seeds::overlay_frames,
        tokens: &[],
    },
    Target {
        name: "overlay-links",
        run: targets::overlay_links,
        seeds: seeds::overlay_links,
        tokens: &["L"],
    },
    Target {
        name: "kernel-texts",
        run: targets::kernel_texts,
        seeds: seeds::kernel_texts,
        tokens: &[
            "processor",
            "kB",
            "cgroup2",
            "cpu",
            ": ",
            "18446744073709551615",
        ],
    },
    Target {
        name: "overlay-rings",
        run: rings::run,
        seeds: rings::seeds,
        tokens: &[],
    },
    Target {
        name: "overlay-guests",
        run: rings::guests,
        seeds: rings::guests_seeds,
        tokens: &[],
    },
    Target {
        name: "run-directory",
        run: run_dirs::run,
        seeds: run_dirs::seeds,
        tokens: &[],
    },
    Target {
        name: "captures",
        run: targets::captures,
        seeds: seeds::captures,
        tokens: &[],
    },
    Target {
        name: "guest-channel",
        run: talks::guest_channel,
        seeds: talks::guest_seeds,
        tokens: &["LLC1"],
    },
    Target {
        name: "sealed-handshakes",
        run: talks::sealed_handshakes,
        seeds: talks::sealed_seeds,
        tokens: &[],
    },
    Target {
        name: "control-sessions",
        run: talks::control_sessions,
        seeds: talks::control_seeds,
        tokens: tokens::OVERLAY_TOKENS,
    },
];

pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}
