//! From what is configured to what is open: one place where each kind of port and link is made.

use std::io;
use std::sync::Arc;

use latlab_model::overlay::{Interface, InterfaceKind, Link};

use crate::endpoints::{Counters, PortId, Receive, Transmit};
use crate::ports::{tap, vhost_user};

/// What every port is made from.
pub(super) struct Way<'a> {
    pub name: &'a str,
    pub id: PortId,
    pub counters: Arc<Counters>,
}

/// A port that was made.
pub(super) struct Made {
    pub receivers: Vec<Box<dyn Receive>>,
    pub sender: Box<dyn Transmit>,
    pub opened: Opened,
}

/// What stays open with a port, beside its two halves.
pub(super) enum Opened {
    /// Nothing.
    Halves,
    /// The connection to a virtual machine's monitor.
    VhostUser(vhost_user::VhostUser),
}

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open `{name}`: {reason}")]
pub struct Failed {
    name: String,
    reason: String,
    hint: &'static str,
}

impl Failed {
    /// What to do.
    #[must_use]
    pub fn hint(&self) -> String {
        self.hint.into()
    }

    pub(super) fn too_many(name: &str, most: u16) -> Failed {
        Failed {
            name: name.into(),
            reason: format!("there are {most} interfaces and links already"),
            hint: "delete some",
        }
    }

    fn new(way: &Way<'_>, error: &io::Error, hint: &'static str) -> Failed {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => "the daemon has to run as root for this",
            _ => hint,
        };
        Failed {
            name: way.name.into(),
            reason: error.to_string(),
            hint,
        }
    }
}

/// Makes ports, and keeps what several of them share.
pub(super) struct Opener {}

impl Opener {
    pub const fn new() -> Opener {
        Opener {}
    }

    /// Opens an interface.
    pub fn interface(&mut self, way: &Way<'_>, spec: &Interface) -> Result<Made, Failed> {
        match &spec.kind {
            InterfaceKind::Tap {
                device,
                netns,
                queues,
            } => {
                let spec = tap::Spec {
                    id: way.id,
                    device,
                    netns: netns.as_deref(),
                    queues: *queues,
                    mtu: spec.mtu,
                    counters: Arc::clone(&way.counters),
                };
                let hint = "look whether the device is there and in use: `ip -d link`";
                let (receivers, sender) =
                    tap::open(&spec).map_err(|error| Failed::new(way, &error, hint))?;
                Ok(Made {
                    receivers: boxed(receivers),
                    sender: Box::new(sender),
                    opened: Opened::Halves,
                })
            }
            InterfaceKind::VhostUser {
                socket,
                client,
                queues,
                interrupts,
                cut_through,
            } => {
                let settings = vhost_user::Settings {
                    id: way.id,
                    socket: socket.clone(),
                    client: *client,
                    queues: *queues,
                    mtu: spec.mtu,
                    interrupts: *interrupts,
                    cut_through: *cut_through,
                };
                let hint = "look who else listens at the socket, or give another path";
                let port = vhost_user::VhostUser::open(settings, Arc::clone(&way.counters))
                    .map_err(|error| Failed::new(way, &error, hint))?;
                let receivers = (0..usize::from(*queues)).map(|pair| port.receiver(pair));
                Ok(Made {
                    receivers: boxed(receivers.collect()),
                    sender: Box::new(port.sender(0)),
                    opened: Opened::VhostUser(port),
                })
            }
            InterfaceKind::Veth { .. } => Err(Failed::unsupported(way)),
        }
    }

    /// Opens a link.
    pub fn link(&mut self, way: &Way<'_>, _link: &Link) -> Result<Made, Failed> {
        Err(Failed::unsupported(way))
    }

    /// Closes what stayed open with a port.
    #[allow(clippy::unused_self)]
    pub fn close(&mut self, _id: PortId, _opened: Opened) {}
}

impl Failed {
    fn unsupported(way: &Way<'_>) -> Failed {
        Failed {
            name: way.name.into(),
            reason: "this daemon was built without that kind".into(),
            hint: "use a tap",
        }
    }
}

impl Opened {
    /// Puts what `set interface` changed into effect.
    pub fn settle(&self, interface: &Interface) {
        if let (
            Opened::VhostUser(port),
            InterfaceKind::VhostUser {
                interrupts,
                cut_through,
                ..
            },
        ) = (self, &interface.kind)
        {
            port.set_interrupts(*interrupts);
            port.set_cut_through(*cut_through);
        }
    }
}

fn boxed<R: Receive + 'static>(receivers: Vec<R>) -> Vec<Box<dyn Receive>> {
    let boxed = receivers
        .into_iter()
        .map(|receive| Box::new(receive) as Box<dyn Receive>);
    boxed.collect()
}

/// Makes `old` have what `set interface` may change in it, as it is in `new`.
pub(super) fn take_settings(old: &mut InterfaceKind, new: &InterfaceKind) {
    if let (
        InterfaceKind::VhostUser {
            interrupts,
            cut_through,
            ..
        },
        InterfaceKind::VhostUser {
            interrupts: new_interrupts,
            cut_through: new_cut_through,
            ..
        },
    ) = (old, new)
    {
        *interrupts = *new_interrupts;
        *cut_through = *new_cut_through;
    }
}
