//! The store that the arguments name.

use latlab_fabric::etcd::{self, Client, Credentials};
use latlab_fabric::keys::Keys;

use crate::args::Store;
use crate::failure::Failure;

pub(super) fn open(store: &Store) -> Result<(Client, Keys), Failure> {
    let own = store.certificate.as_deref().zip(store.key.as_deref());
    let credentials = Credentials {
        authority: store.authority.as_deref(),
        own,
    };
    let client = Client::new(&store.etcd, &credentials).map_err(of_store)?;
    let keys = Keys::of(&store.fabric);
    let keys = keys.ok_or_else(|| Failure::new("the fabric has no name", "write one"))?;
    Ok((client, keys))
}

pub(super) fn of_store(error: etcd::Error) -> Failure {
    let hint = match &error {
        etcd::Error::Unreachable { reason, .. } if reason.contains("ertificate") => {
            "give etcd's authority as --authority, and --certificate with --key if it asks for them"
        }
        etcd::Error::Unreachable { .. } => {
            "is it running, and has most of its members? `etcdctl endpoint health` tells; --etcd names all of them"
        }
        etcd::Error::Refused { .. } => {
            "etcd 3.4 or later is needed, with its JSON gateway (--enable-grpc-gateway) and without passwords"
        }
        etcd::Error::File { .. } => "give PEM files to --authority, --certificate and --key",
        etcd::Error::Endpoint(_) => "--etcd http://10.0.0.1:2379,http://10.0.0.2:2379",
    };
    Failure::of(error, hint)
}
