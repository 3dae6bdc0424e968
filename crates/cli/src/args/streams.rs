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
  latlab streams pair off             (connections that are open stay as they are)
  latlab streams pair off --open      (open streams become plain connections, too)
  latlab streams pair off --open --node web
  latlab streams pair off --port 80   (connections to this port of any server stay plain)
  latlab streams pair on --port 5432,6379   (after `off`: streams to these ports only)

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
  interrupted        a signal came, or another thread closed the socket, while it connected
  limit              100,000 streams are open, or descriptors are used up
  off, failed        streams are switched off; a system call failed

With --open, programs stop for some milliseconds while each gets its TCP connection in the place \
of the stream, which first carries what was not read yet. `latlab snapshot` and `migrate` do that for a \
container by themselves.

A stream stays one if:
  not-stopped        a debugger has one of its processes, or the process does not stop within 2 s
  paused             a node that has an end of it is paused
  not-found          its descriptor is under way between two processes, or in an io_uring
  urgent-data        an urgent byte was sent and not read
  relayed            its server accepted it in a way that latlab did not see
  not-exchanged      a process was killed meanwhile
Where bytes cannot be sent within 5 s, the connection is reset: no end is short without an error.")]
pub struct Streams {
    /// Name of the lab.
    pub lab: String,
    /// Have new connections be streams, or stay plain.
    #[arg(value_enum)]
    pub switch: Option<Switch>,
    /// Connections of this node alone, with the nodes that it is connected to; with `--port`, those to it.
    #[arg(long, value_name = "NODE", requires = "switch")]
    pub node: Option<String>,
    /// Connections to these server ports alone: of all servers, or of NODE.
    #[arg(long, value_name = "PORT", value_delimiter = ',', requires = "switch", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Vec<u16>,
    /// With `off`: streams that are open become plain connections.
    #[arg(long, requires = "switch")]
    pub open: bool,
    /// Print the counters as JSON.
    #[arg(long)]
    pub json: bool,
}
