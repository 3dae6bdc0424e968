//! `latlab import`: what other tools wrote, as a run or as a lab. Needs no root.

mod captures;
mod kind;
mod topology;

pub use kind::run;
