//! Links over TCP.

use std::io;
use std::sync::Arc;

use latlab_model::overlay::{LinkKind, Tls};

use super::{Failed, Made, Opened, Way};
use crate::links::tcp::{self, Role};
use crate::tls::Credentials;

/// Opens a link. `origin` is what this daemon calls itself.
pub(super) fn open(way: &Way<'_>, kind: &LinkKind, origin: u64) -> Result<Made, Failed> {
    let (role, tls) = match kind {
        LinkKind::Connect { remote, tls } => (Role::Connect(*remote), tls),
        LinkKind::Listen { local, peer, tls } => (Role::Listen(*local, peer.clone()), tls),
        _ => unreachable!("asked for a link over TCP only"),
    };
    let opened = credentials(tls.as_ref(), &role).and_then(|tls| {
        tcp::open(tcp::Spec {
            id: way.id,
            role,
            tls,
            origin,
            counters: Arc::clone(&way.counters),
        })
    });
    let hint = "look at the certificates, and who else listens there: `ss -ltnp`";
    let (receiver, sender) = opened.map_err(|error| Failed::new(way, &error, hint))?;
    Ok(Made {
        receivers: vec![Box::new(receiver)],
        sender: Box::new(sender),
        opened: Opened::Halves,
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
