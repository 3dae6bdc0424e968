//! Mutual TLS, from certificates in files: who is trusted is whoever the authority has signed.
//!
//! TLS 1.3 only; both sides are of this kind. A server's certificate has to name the address that it
//! was reached at (a subject alternative name), a client's is only asked to be signed.

use std::io;
use std::net::{IpAddr, TcpStream};
use std::ops::DerefMut;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, RootCertStore, ServerConfig,
    ServerConnection, SideData,
};

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

/// Carries out a handshake on a blocking socket; all of it may take `patience`, however slowly the
/// other side speaks. The socket's read timeout is the caller's to set again.
///
/// # Errors
///
/// The other side is not who it should be, does not speak TLS, hangs up or is silent.
pub fn shake<C, S>(tls: &mut C, mut socket: &TcpStream, patience: Duration) -> io::Result<()>
where
    C: DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    let end = Instant::now() + patience;
    socket.set_write_timeout(Some(patience))?;
    loop {
        while tls.wants_write() {
            tls.write_tls(&mut socket)?;
        }
        if !tls.is_handshaking() {
            return Ok(());
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        if tls.read_tls(&mut socket)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Err(refused) = tls.process_new_packets() {
            // The other side is told why, if it listens still.
            let _ = tls.write_tls(&mut socket);
            return Err(io::Error::other(refused));
        }
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
