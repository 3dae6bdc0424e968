//! Links over TCP.

use std::io;
use std::sync::Arc;

use latlab_model::overlay::{LinkKind, Tls};

use super::context::PortContext;
use super::error::OpenError;
use super::port::{OpenPort, PortHandle};
use crate::links::tcp::{self, Role, TcpConfig};
use crate::tls::Credentials;

pub(super) fn open(
    context: &PortContext<'_>,
    kind: &LinkKind,
    origin: u64,
) -> Result<OpenPort, OpenError> {
    let (role, tls) = match kind {
        LinkKind::Connect { remote, tls } => (Role::Connect(*remote), tls),
        LinkKind::Listen { local, peer, tls } => (Role::Listen(*local, peer.clone()), tls),
        _ => unreachable!("called for links over TCP only"),
    };
    let opened = credentials(tls.as_ref(), &role).and_then(|tls| {
        tcp::open(TcpConfig {
            id: context.id,
            role,
            tls,
            origin,
            counters: Arc::clone(&context.counters),
        })
    });
    let hint = "look at the certificates, and who else listens there: `ss -ltnp`";
    let (receiver, sender) = opened.map_err(|error| OpenError::new(context, &error, hint))?;
    Ok(OpenPort {
        receivers: vec![Box::new(receiver)],
        sender: Box::new(sender),
        handle: PortHandle::None,
    })
}

fn credentials(tls: Option<&Tls>, role: &Role) -> io::Result<Option<Credentials>> {
    let Some(tls) = tls else { return Ok(None) };
    let credentials = Credentials::read(&tls.certificate, &tls.key, &tls.authority)?;
    Ok(Some(match role {
        Role::Listen(_, peer) => credentials.accepting(std::slice::from_ref(peer))?,
        Role::Connect(_) => credentials,
    }))
}
