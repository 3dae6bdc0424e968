//! The loopback of the supervisor's own network namespace.

use latlab_netlink::{Error, Handle, LinkChange};

/// Sets the loopback interface of the calling thread's namespace up.
pub fn loopback_up() -> Result<(), Error> {
    Handle::open()?.apply(&LinkChange::of("lo").up(true).request())
}
