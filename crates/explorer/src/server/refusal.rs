//! Errors as answers.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::index::IndexError;

/// An answer that a request cannot have.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    error: String,
    hint: Option<String>,
}

impl Refusal {
    pub fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            error: error.into(),
            hint: None,
        }
    }

    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    pub fn no_run(path: &str) -> Self {
        let error = format!("no run has the path {path:?}");
        Self::new(StatusCode::NOT_FOUND, error)
            .hint("it may have been moved or removed: search again")
    }

    /// An error of the machine, with its causes.
    pub fn failed(error: &dyn std::error::Error) -> Self {
        let causes = std::iter::successors(error.source(), |cause| cause.source());
        let causes = causes.map(|cause| format!(": {cause}"));
        let text = std::iter::once(error.to_string())
            .chain(causes)
            .collect::<String>();
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Body {
            error: String,
            hint: Option<String>,
        }
        let body = Body {
            error: self.error,
            hint: self.hint,
        };
        (self.status, Json(body)).into_response()
    }
}

impl From<IndexError> for Refusal {
    fn from(error: IndexError) -> Self {
        Self::failed(&error)
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, rejection.body_text())
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), rejection.body_text())
    }
}
