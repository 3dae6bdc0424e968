//! The controller of a host, by the protocol that its file names.

use latlab_model::spec::{BmcProtocol, ManagedHost};

use crate::controller::Controller;
use crate::error::Error;
use crate::ipmi::Ipmi;
use crate::redfish::Redfish;
use crate::secret;

/// The controller of a host. Errors: its password cannot be read, or its files.
pub fn controller(host: &ManagedHost) -> Result<Box<dyn Controller>, Error> {
    let password = secret::read(&host.bmc.password)?;
    let name = host.name.value.clone();
    let (address, user) = (&host.bmc.address, &host.bmc.user);
    Ok(match &host.bmc.protocol {
        BmcProtocol::Ipmi { port, cipher } => {
            Box::new(Ipmi::new(name, address, *port, user, password, *cipher)?)
        }
        BmcProtocol::Redfish { system, authority } => Box::new(Redfish::new(
            name,
            address,
            user,
            &password,
            system.clone(),
            authority.as_deref(),
        )?),
    })
}
