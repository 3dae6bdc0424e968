//! Mutual TLS with certificates from files: hosts are trusted if the authority has signed their certificates.
//!
//! TLS 1.3 only; both sides are this program. A server's certificate has to name its address (a subject alternative name,
//! RFC 9525), a client's one of the expected names ([`Credentials::accepting`]). A certificate for one host therefore
//! cannot impersonate another.

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::ops::DerefMut;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use latlab_model::overlay::Peer;
use rustix::net::sockopt;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, ConnectionCommon, DigitallySignedStruct,
    DistinguishedName, RootCertStore, ServerConfig, ServerConnection, SideData, SignatureScheme,
};

#[derive(Debug, Clone)]
pub struct Credentials {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    own: Arc<Own>,
}

#[derive(Debug)]
struct Own {
    certificate: PathBuf,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: Arc<CryptoProvider>,
    signed: Arc<dyn ClientCertVerifier>,
}

impl Own {
    fn server(&self, verifier: Arc<dyn ClientCertVerifier>) -> io::Result<Arc<ServerConfig>> {
        let server = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|error| bad(&self.certificate, &error))?;
        Ok(Arc::new(server))
    }
}

impl Credentials {
    /// Reads PEM files; errors name the file.
    pub fn read(certificate: &Path, key: &Path, authority: &Path) -> io::Result<Credentials> {
        let chain = certificates(certificate)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, &error))?;
        let mut roots = RootCertStore::empty();
        for trusted in certificates(authority)? {
            roots.add(trusted).map_err(|error| bad(authority, &error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::new(roots);
        let signed = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| bad(authority, &error))?;
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain.clone(), private.clone_key())
            .map_err(|error| bad(certificate, &error))?;
        let own = Own {
            certificate: certificate.to_path_buf(),
            chain,
            key: private,
            provider,
            signed: signed.clone(),
        };
        Ok(Credentials {
            client: Arc::new(client),
            server: own.server(signed)?,
            own: Arc::new(own),
        })
    }

    /// The same credentials, accepting connections from these hosts only. Errors: a name that no certificate can have.
    pub fn accepting(&self, peers: &[Peer]) -> io::Result<Credentials> {
        if peers.contains(&Peer::Any) {
            return Ok(self.clone());
        }
        let names = peers.iter().map(name_of).collect::<io::Result<_>>()?;
        let verifier = Named {
            signed: self.own.signed.clone(),
            names,
        };
        Ok(Credentials {
            server: self.own.server(Arc::new(verifier))?,
            ..self.clone()
        })
    }

    pub fn connect(&self, to: IpAddr) -> io::Result<ClientConnection> {
        let name = ServerName::IpAddress(to.into());
        ClientConnection::new(self.client.clone(), name).map_err(io::Error::other)
    }

    pub fn accept(&self) -> io::Result<ServerConnection> {
        ServerConnection::new(self.server.clone()).map_err(io::Error::other)
    }
}

fn name_of(peer: &Peer) -> io::Result<ServerName<'static>> {
    match peer {
        Peer::Address(address) => Ok(ServerName::IpAddress((*address).into())),
        Peer::Name(name) => ServerName::try_from(name.clone())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is no name"))),
        Peer::Any => Err(io::Error::other("any is no name")),
    }
}

/// Accepts certificates that the authority has signed for one of these names.
#[derive(Debug)]
struct Named {
    signed: Arc<dyn ClientCertVerifier>,
    names: Vec<ServerName<'static>>,
}

impl ClientCertVerifier for Named {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signed.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self
            .signed
            .verify_client_cert(end_entity, intermediates, now)?;
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let is_one = |name: &ServerName<'_>| verify_server_name(&certificate, name).is_ok();
        if self.names.iter().any(is_one) {
            Ok(verified)
        } else {
            Err(CertificateError::NotValidForName.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

/// Keepalive idle time and interval, number of probes, and timeout of unacknowledged bytes (tcp(7)): a host that vanished
/// is noticed within this.
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;
const USER_TIMEOUT_MS: u32 = 20_000;

pub fn enable_keepalive(socket: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(socket, USER_TIMEOUT_MS)?;
    Ok(())
}

/// Completes a handshake on a blocking socket within `timeout`, however slow the peer is. Changes the socket's
/// timeouts. Errors: the peer is not accepted, does not speak TLS, hangs up or times out.
pub fn handshake<C, S>(tls: &mut C, mut socket: &TcpStream, timeout: Duration) -> io::Result<()>
where
    C: DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    let end = Instant::now() + timeout;
    socket.set_write_timeout(Some(timeout))?;
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
            // Sends the alert, if the peer still listens.
            let _ = tls.write_tls(&mut socket);
            return Err(io::Error::other(refused));
        }
    }
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let list: Vec<_> = read.map_err(|error: rustls::pki_types::pem::Error| bad(file, &error))?;
    if list.is_empty() {
        return Err(bad(file, &"no certificate in it"));
    }
    Ok(list)
}

fn bad(file: &Path, why: &impl Display) -> io::Error {
    let message = format!("{}: {why}", file.display());
    io::Error::new(io::ErrorKind::InvalidData, message)
}
