//! Arguments of `latlab streams`.

use clap::{Args, ValueEnum};

/// Whether new connections may be streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab streams pair
  latlab streams pair off      (connections that are open stay as they are)

A link of type overlay with `streams: true` gives TCP connections between its processes and \
containers a socket without a network.

Reasons for which a connection stays plain:
  no-listener        the server listens in a way that latlab did not see
  shared-descriptor  another descriptor or process has the socket that is being connected,
                     or the program has more than 1024 descriptors
  reset-at-close     SO_LINGER with no time was set before the connection was made
  special-sending    TCP_FASTOPEN_CONNECT or SO_ZEROCOPY was set before
  async-io           the socket sends signals when it is ready (O_ASYNC)
  foreign-source     the client speaks from an address that the lab did not give it
  slow               a non-blocking connection was not made within 2 ms
  interrupted        a signal came while the connection was being made
  limit              100,000 streams are open, or descriptors are used up
  off, failed        streams are switched off; a system call failed")]
pub struct Streams {
    /// Name of the lab.
    pub lab: String,
    /// Have new connections be streams, or stay plain.
    #[arg(value_enum)]
    pub switch: Option<Switch>,
    /// Print the counters as JSON.
    #[arg(long)]
    pub json: bool,
}
