use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};

use crate::failure::{Failure, INTERRUPTED};

/// A flag that the first Ctrl-C sets, so that the operation ends in order. The second ends latlab at once, and
/// `latlab destroy` removes the rest of the lab.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&stop))?;
        register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
