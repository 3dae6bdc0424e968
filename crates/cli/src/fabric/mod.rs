//! `latlab fabric`: overlay daemons of many hosts whose networks, links and addresses are shared in etcd.

mod change;
mod join;
mod show;
mod store;
mod verbs;

pub use verbs::run;
