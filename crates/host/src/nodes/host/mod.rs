//! A node of kind `host`: the host's own network namespace, on the host's own files. Nothing is started or
//! limited; its commands are those of a native node that stay where they are.

mod driver;

pub(super) use driver::Host;
