//! Links over TCP.

use std::io;
use std::sync::Arc;

use latlab_model::overlay::Tls;

use super::context::PortContext;
use super::error::OpenError;
use super::port::{OpenPort, PortHandle};
use crate::links::tcp::{self, Role, TcpConfig};
use crate::tls::Credentials;

pub(super) fn open(
    context: &PortContext<'_>,
    role: Role,
    tls: Option<&Tls>,
    origin: u64,
) -> Result<OpenPort, OpenError> {
    let opened = credentials(tls, &role).and_then(|tls| {
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
    Ok(OpenPort::new([receiver], sender, PortHandle::None))
}

fn credentials(tls: Option<&Tls>, role: &Role) -> io::Result<Option<Credentials>> {
    let Some(tls) = tls else { return Ok(None) };
    let credentials = Credentials::read(&tls.certificate, &tls.key, &tls.authority)?;
    Ok(Some(match role {
        Role::Listen(_, peer) => credentials.accepting(std::slice::from_ref(peer))?,
        Role::Connect(_) => credentials,
    }))
}
