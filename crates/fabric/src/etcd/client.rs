//! Requests, to whichever member of the cluster answers.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::messages::{
    Compare, Grant, KeptAlive, KeyValue, Lease, LeaseId, Operation, Range, RangeAnswer, Refusal,
    Transaction, TransactionAnswer,
};

/// Timeout of a connection, and of an answer. A member that is cut off is left for another after this time.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Limit of an answer: etcd's own of a message is 2 MiB, and a range is one message of any size.
const MAX_ANSWER_BYTES: u64 = 256 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The last of all members.
    #[error("etcd at {endpoint} does not answer: {reason}")]
    Unreachable { endpoint: String, reason: String },
    #[error("etcd at {endpoint} refuses: {reason}")]
    Refused { endpoint: String, reason: String },
    #[error("{file}: {source}")]
    File { file: String, source: io::Error },
    #[error("{0}")]
    Endpoint(String),
}

/// Files in PEM for `https` endpoints.
#[derive(Debug, Clone, Default)]
pub struct Credentials<'f> {
    /// Certificates of authorities that may have signed etcd's; without it, the usual ones.
    pub authority: Option<&'f Path>,
    /// This client's certificate and its key.
    pub own: Option<(&'f Path, &'f Path)>,
}

/// The result of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Whether its conditions held, and it changed the store.
    pub is_done: bool,
    pub revision: u64,
}

/// A client of one cluster; clones share the choice of a member.
#[derive(Debug, Clone)]
pub struct Client {
    agent: Agent,
    endpoints: Arc<[String]>,
    /// The member that answered last.
    current: Arc<AtomicUsize>,
}

impl Client {
    /// A client of the members at these URLs. Errors: a URL or a file that is none.
    pub fn new(endpoints: &[String], credentials: &Credentials<'_>) -> Result<Client, Error> {
        let mut urls = Vec::new();
        for endpoint in endpoints {
            let url = endpoint.trim_end_matches('/');
            let host = url
                .strip_prefix("http://")
                .or(url.strip_prefix("https://"))
                .unwrap_or_default();
            if host.is_empty() || host.contains(['/', ' ', '@']) {
                let reason = format!("`{endpoint}` is no URL of etcd, as http://10.0.0.1:2379");
                return Err(Error::Endpoint(reason));
            }
            urls.push(url.to_owned());
        }
        if urls.is_empty() {
            return Err(Error::Endpoint("no URL of etcd is given".into()));
        }
        let agent = Agent::config_builder()
            // A proxy of the environment is for the Internet, and etcd is not there.
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(TIMEOUT))
            .timeout_recv_response(Some(TIMEOUT))
            .timeout_per_read(Some(TIMEOUT))
            .tls_config(tls(credentials)?)
            .build()
            .new_agent();
        Ok(Client {
            agent,
            endpoints: urls.into(),
            current: Arc::default(),
        })
    }

    /// The URL of the member that is asked first.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoints[self.current.load(Ordering::Relaxed) % self.endpoints.len()]
    }

    /// Asks another member first from now on.
    pub(super) fn leave(&self, endpoint: &str) {
        let current = self.current.load(Ordering::Relaxed);
        if self.endpoints[current % self.endpoints.len()] == endpoint {
            // Another thread may have left it in this moment.
            let next = current.wrapping_add(1);
            let order = Ordering::Relaxed;
            self.current
                .compare_exchange(current, next, order, order)
                .ok();
        }
    }

    /// Everything below a prefix, and the revision at which that was so.
    pub fn list(&self, prefix: &str) -> Result<(Vec<KeyValue>, u64), Error> {
        let answer: RangeAnswer = self.ask("kv/range", &Range::prefix(prefix))?;
        Ok((answer.kvs, answer.header.revision))
    }

    /// Changes all of it if all conditions hold, else nothing. A transaction whose answer is lost may have been done: its
    /// conditions tell so, when it is tried again.
    pub fn transact(&self, compare: &[Compare], success: &[Operation]) -> Result<Answer, Error> {
        let transaction = Transaction { compare, success };
        let answer: TransactionAnswer = self.ask("kv/txn", &transaction)?;
        Ok(Answer {
            is_done: answer.succeeded,
            revision: answer.header.revision,
        })
    }

    /// A lease that is over this time after it was kept alive last.
    pub fn grant(&self, time: Duration) -> Result<u64, Error> {
        let ttl = time.as_secs().to_string();
        let lease: Lease = self.ask("lease/grant", &Grant { ttl })?;
        Ok(lease.id)
    }

    /// False: it is over.
    pub fn keep_alive(&self, lease: u64) -> Result<bool, Error> {
        let id = lease.to_string();
        let kept: KeptAlive = self.ask("lease/keepalive", &LeaseId { id })?;
        Ok(kept.result.ttl > 0)
    }

    /// Ends a lease, and the keys that it holds.
    pub fn revoke(&self, lease: u64) -> Result<(), Error> {
        let id = lease.to_string();
        let _: serde_json::Value = self.ask("lease/revoke", &LeaseId { id })?;
        Ok(())
    }

    /// Asks one member after the other, the last good one first.
    fn ask<T: DeserializeOwned>(&self, path: &str, question: &impl Serialize) -> Result<T, Error> {
        let mut tries = self.endpoints.len();
        loop {
            let endpoint = self.endpoint().to_owned();
            let answer = self.send(&endpoint, path, question, TIMEOUT);
            let answer = answer.and_then(|mut body| {
                let text = body.with_config().limit(MAX_ANSWER_BYTES).read_to_string();
                let text = text.map_err(|error| unreachable(&endpoint, error))?;
                serde_json::from_str(&text).map_err(|error| Error::Refused {
                    endpoint: endpoint.clone(),
                    reason: format!("its answer is none of etcd's: {error}"),
                })
            });
            tries -= 1;
            match answer {
                Err(error @ Error::Unreachable { .. }) => {
                    self.leave(&endpoint);
                    if tries == 0 {
                        return Err(error);
                    }
                }
                answer => return answer,
            }
        }
    }

    /// Sends a question to one member; `silence`: how long the answer may pause.
    pub(super) fn send(
        &self,
        endpoint: &str,
        path: &str,
        question: &impl Serialize,
        silence: Duration,
    ) -> Result<Body, Error> {
        let text = serde_json::to_string(question).map_err(|error| unreachable(endpoint, error))?;
        let answer = self
            .agent
            .post(format!("{endpoint}/v3/{path}"))
            .content_type("application/json")
            .config()
            .timeout_per_read(Some(silence))
            .build()
            .send(text)
            .map_err(|error| unreachable(endpoint, error))?;
        let status = answer.status();
        let mut body = answer.into_body();
        if status.is_success() {
            return Ok(body);
        }
        let text = body.read_to_string().unwrap_or_default();
        let refusal = serde_json::from_str::<Refusal>(&text).unwrap_or_default();
        let reason = match refusal.message.is_empty() {
            true => status.to_string(),
            false => refusal.message,
        };
        // A member that has lost the others has no leader (503), and one that ends answers with 5xx too.
        Err(match status.is_server_error() {
            true => unreachable(endpoint, reason),
            false => Error::Refused {
                endpoint: endpoint.into(),
                reason,
            },
        })
    }
}

pub(super) fn unreachable(endpoint: &str, reason: impl Display) -> Error {
    Error::Unreachable {
        endpoint: endpoint.into(),
        reason: reason.to_string(),
    }
}

fn tls(credentials: &Credentials<'_>) -> Result<TlsConfig, Error> {
    let mut config = TlsConfig::builder();
    if let Some(file) = credentials.authority {
        let trusted = certificates(file)?;
        config = config.root_certs(RootCerts::new_with_certs(&trusted));
    }
    if let Some((certificate, key)) = credentials.own {
        let chain = certificates(certificate)?;
        let private = PrivateKey::from_pem(&read(key)?).map_err(|error| bad(key, error))?;
        config = config.client_cert(Some(ClientCert::new_with_certs(&chain, private)));
    }
    Ok(config.build())
}

fn read(file: &Path) -> Result<Vec<u8>, Error> {
    fs::read(file).map_err(|source| Error::File {
        file: file.display().to_string(),
        source,
    })
}

/// All certificates of a file, at least one.
fn certificates(file: &Path) -> Result<Vec<Certificate<'static>>, Error> {
    let text = read(file)?;
    let items = ureq::tls::parse_pem(&text).filter_map(|item| match item {
        Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(error) => Some(Err(bad(file, error))),
    });
    let found = items.collect::<Result<Vec<_>, _>>()?;
    match found.is_empty() {
        true => Err(bad(file, "no certificate is in it")),
        false => Ok(found),
    }
}

fn bad(file: &Path, reason: impl Display) -> Error {
    Error::File {
        file: file.display().to_string(),
        source: io::Error::new(io::ErrorKind::InvalidData, reason.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_are_none_are_refused() {
        for url in [
            "10.0.0.1:2379",
            "http://",
            "ftp://a",
            "http://a/v3",
            "http://u:p@a",
        ] {
            let made = Client::new(&[url.to_string()], &Credentials::default());
            assert!(matches!(made, Err(Error::Endpoint(_))), "{url}");
        }
        assert!(Client::new(&[], &Credentials::default()).is_err());
    }
}
