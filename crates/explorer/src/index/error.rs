use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("cannot {action} the index {path}")]
    File {
        /// `create`, `remove`.
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot use the index of runs")]
    Database(#[from] rusqlite::Error),
    #[error("cannot read the index of runs")]
    Json(#[from] serde_json::Error),
    #[error("cannot list {path}")]
    List {
        path: PathBuf,
        source: std::io::Error,
    },
}
