//! The life of a server: it opens its port, answers requests, and ends when it is told to.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, put};

use super::error::ServeError;
use super::guard::{self, Guard};
use super::token::Token;
use super::{answers, page};
use crate::index::{self, Scanner};

/// Interval at which the wish to stop is looked for.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Settings {
    /// The directory of runs.
    pub runs: PathBuf,
    /// The directory of indices, made if it is not there.
    pub cache: PathBuf,
    pub listen: SocketAddr,
}

/// A server that listens and has begun to read the directory.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    token: Token,
    scanner: Arc<Scanner>,
}

impl Server {
    /// Opens the index and the port, and starts reading the directory.
    pub fn start(settings: Settings) -> Result<Self, ServeError> {
        let Settings {
            runs,
            cache,
            listen,
        } = settings;
        let listing = std::fs::read_dir(&runs);
        if let Err(source) = listing {
            return Err(ServeError::Runs { path: runs, source });
        }
        let failed = |source| ServeError::Listen {
            address: listen,
            source,
        };
        let listener = TcpListener::bind(listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let index = index::file(&cache, &runs);
        drop(index::open(&index)?);
        Ok(Self {
            listener,
            address,
            token: Token::draw().map_err(ServeError::Token)?,
            scanner: Scanner::start(runs, index),
        })
    }

    /// The address to open in a browser, token included.
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token.text())
    }

    pub fn runs(&self) -> &Path {
        self.scanner.root()
    }

    /// Whether other machines reach it.
    pub fn is_local(&self) -> bool {
        self.address.ip().is_loopback()
    }

    /// Serves until `stop` is set.
    pub fn serve(self, stop: Arc<AtomicBool>) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(ServeError::Serve)?;
        let guard = Arc::new(Guard::new(self.address, self.token));
        let router = Router::new()
            .route("/", get(page::explorer))
            .route("/report/{*path}", get(answers::report))
            .route("/api/runs", get(answers::runs))
            .route("/api/run", get(answers::run))
            .route("/api/note", put(answers::annotate))
            .route("/api/compare", get(answers::compare))
            .route("/api/choices", get(answers::choices))
            .route("/api/trend", get(answers::trend))
            .fallback(answers::nothing)
            .with_state(self.scanner)
            .layer(from_fn_with_state(guard, guard::check));
        let served = runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            let stopped = async move {
                while !stop.load(Ordering::Relaxed) {
                    tokio::time::sleep(STOP_INTERVAL).await;
                }
            };
            // Without waiting for open connections: a browser keeps its own for minutes.
            tokio::select! {
                served = async { axum::serve(listener, router).await } => served,
                () = stopped => Ok(()),
            }
        });
        // A request that still reads the disk must not hold the end up.
        runtime.shutdown_background();
        served.map_err(ServeError::Serve)
    }
}
