//! Captures that cannot be imported.

use std::io;
use std::path::PathBuf;

use super::source::{MAX_PACKETS, Source};
use crate::format::SamplesError;
use crate::run_dir::RunDirError;

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("cannot open {path}: {cause}")]
    Open { path: PathBuf, cause: io::Error },
    #[error("{path} is neither pcapng nor pcap")]
    NotACapture { path: PathBuf },
    #[error("{path} is damaged: {what}")]
    Damaged { path: PathBuf, what: String },
    #[error("{path} has packets without timestamps")]
    NoTimes { path: PathBuf },
    #[error("{path} has no packets")]
    Empty { path: PathBuf },
    #[error("{path} has packets of several interfaces, `{}` and `{}` among them", names[0], names[1])]
    SeveralInterfaces { path: PathBuf, names: [String; 2] },
    #[error(
        "{path} has no packets of an interface `{named}`, but has {}",
        listed(names)
    )]
    NoInterface {
        path: PathBuf,
        named: String,
        names: Vec<String>,
    },
    #[error("{path} has packets of a link type that latlab does not read: {number}")]
    LinkType { path: PathBuf, number: i32 },
    #[error("{path} has more than {MAX_PACKETS} packets")]
    TooMany { path: PathBuf },
    #[error(
        "timestamps of {path} go back by 2^32 ns, {count} times: they are of a counter of 32 bits that wraps"
    )]
    Wraps { path: PathBuf, count: u64 },
    #[error(
        "times between {before} and {after} jump by 2^32 ns, {count} times: timestamps of one are of a counter of 32 bits that wraps"
    )]
    CyclesApart {
        before: Source,
        after: Source,
        count: u64,
    },
    #[error("no packet of {before} is in {after}")]
    NothingInCommon { before: Source, after: Source },
    #[error("all packets are in {after} before they are in {before}")]
    BackToFront { before: Source, after: Source },
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    #[error(transparent)]
    Samples(#[from] SamplesError),
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}
