//! `latlab host HOST boot`: a start with kernel parameters, which are verified.
//!
//! Nothing but the system that runs then says whether it has them: it is asked by the serial console where it is a live
//! system, else by ssh. What is asked for stays where the host's next start finds it, and the next `boot` replaces it, so that
//! parameters are taken back also after latlab was killed.

mod answer;
mod installed;
mod live;
mod parameters;
mod verb;

pub use verb::run;
