//! A native node: processes of the host in a network namespace of their own, on the host's own
//! files. Nothing runs in it until a command is started, so it costs a namespace and no process.

mod driver;
mod exec;
mod storage;

pub(super) use driver::Native;
pub(super) use exec::exec;
