//! `latlab part`: what a study of a lab on several hosts asks of each of them. Like `deploy --host`, it is called over ssh by
//! the latlab where the person is; all state is that of an ordinary lab.

mod attach;
mod measure;
mod plan;
mod verbs;
mod watch;

pub use verbs::run;
pub use watch::{Answer as WatchAnswer, READY};
