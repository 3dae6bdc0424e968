use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};

use crate::failure::{Failure, INTERRUPTED};

/// A flag that the first Ctrl-C sets, so that the operation ends in order. The second ends latlab at once, and
/// `latlab destroy` removes the rest of the lab. Others than a person send twice what they mean once: a terminal that
/// closes (SIGHUP), or a scheduler of jobs through `sudo` (SIGTERM).
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    register_conditional_shutdown(SIGINT, INTERRUPTED.into(), Arc::clone(&stop))?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
