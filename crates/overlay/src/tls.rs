//! Mutual TLS, from certificates in files: who is trusted is whoever the authority has signed.
//!
//! TLS 1.3 only; both sides are of this kind. A server's certificate has to name the address that it
//! was reached at (a subject alternative name), a client's is only asked to be signed.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

/// This host's certificate and whom it trusts.
#[derive(Debug, Clone)]
pub struct Credentials {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Credentials {
    /// Reads them from PEM files.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or does not hold what it should; the message names it.
    pub fn read(certificate: &Path, key: &Path, authority: &Path) -> io::Result<Credentials> {
        let chain = certificates(certificate)?;
        let private =
            || PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, &error.to_string()));
        let mut roots = RootCertStore::empty();
        for trusted in certificates(authority)? {
            roots
                .add(trusted)
                .map_err(|error| bad(authority, &error.to_string()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| bad(authority, &error.to_string()))?;
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), private()?)
            .map_err(|error| bad(certificate, &error.to_string()))?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, private()?)
            .map_err(|error| bad(certificate, &error.to_string()))?;
        Ok(Credentials {
            client: Arc::new(client),
            server: Arc::new(server),
        })
    }

    /// The beginning of a connection to the host with that address.
    ///
    /// # Errors
    ///
    /// None that a valid configuration makes.
    pub fn connect(&self, to: IpAddr) -> io::Result<ClientConnection> {
        let name = ServerName::IpAddress(to.into());
        ClientConnection::new(self.client.clone(), name).map_err(io::Error::other)
    }

    /// The beginning of a connection from somebody.
    ///
    /// # Errors
    ///
    /// None that a valid configuration makes.
    pub fn accept(&self) -> io::Result<ServerConnection> {
        ServerConnection::new(self.server.clone()).map_err(io::Error::other)
    }
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let list: Vec<_> =
        read.map_err(|error: rustls::pki_types::pem::Error| bad(file, &error.to_string()))?;
    if list.is_empty() {
        return Err(bad(file, "no certificate in it"));
    }
    Ok(list)
}

fn bad(file: &Path, why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{}: {why}", file.display()),
    )
}
