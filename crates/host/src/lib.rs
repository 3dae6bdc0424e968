//! The only crate that changes the machine: nodes, links, images, journal and undo.

pub mod borrowed;
pub mod cache;
pub mod cgroup;
pub mod dirs;
pub mod facts;
mod hex;
pub mod images;
pub mod journal;
pub mod lab;
pub mod links;
pub mod live;
pub mod nodes;
pub mod packages;
pub mod programs;
pub mod streams;
mod sync;
pub mod sys;
pub mod tuning;
pub mod watch;
