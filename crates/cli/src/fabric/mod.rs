//! `latlab fabric`: overlay daemons of many hosts whose networks, links and addresses are shared in etcd.

mod change;
mod join;
mod show;
mod store;

use crate::args::Fabric;
use crate::failure::Outcome;

pub fn run(args: &Fabric) -> Outcome {
    match args {
        Fabric::Join(args) => join::run(args),
        Fabric::Show(args) => show::run(args),
        Fabric::Move(args) => change::relocate(args),
        Fabric::Remove(args) => change::remove(args),
    }
}
