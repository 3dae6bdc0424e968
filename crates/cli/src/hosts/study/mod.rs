//! Studies whose labs are on several hosts: `latlab run` where the person is asks the latlab of each host for its share.
//!
//! ```text
//! plan ─ each host plans its part ─ deploy ─ trial ─┬─ nodes on one host: measured there, files sent
//!                                                   └─ between hosts: commands over the nodes' channels
//! ```

mod attached;
mod labs;
mod nodes;
mod plan;
pub mod reboot;
mod watch;

pub use labs::OnHosts;
pub use plan::{StudyPlan, plan};
