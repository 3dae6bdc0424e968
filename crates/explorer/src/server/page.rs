//! Pages and their content security policy: a page runs the one script that was built in, by its digest, and nothing that
//! could come from a run.

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::error::ServeError;

const EXPLORER: &str = include_str!("../../../../web/dist/explorer.html");

#[derive(Debug)]
pub struct Pages {
    explorer: String,
    report: String,
}

impl Pages {
    pub fn built_in() -> Result<Self, ServeError> {
        Ok(Self {
            explorer: policy(EXPLORER, "connect-src 'self'; ")?,
            report: policy(latlab_report::html::PAGE, "")?,
        })
    }

    pub fn explorer(&self) -> Response {
        html(EXPLORER.to_owned(), &self.explorer)
    }

    pub fn report(&self, page: String) -> Response {
        html(page, &self.report)
    }
}

fn html(page: String, policy: &str) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, policy),
    ];
    (headers, page).into_response()
}

/// The policy of a page with one script. Plots set styles, and exports are blobs that are saved, which needs no permission.
fn policy(page: &str, more: &str) -> Result<String, ServeError> {
    let scripts: Vec<&str> = page.split("<script>").skip(1).collect();
    let [script] = scripts[..] else {
        return Err(ServeError::Page {
            found: scripts.len(),
        });
    };
    let script = script.split("</script>").next().unwrap_or_default();
    let digest = STANDARD.encode(Sha256::digest(script));
    Ok(format!(
        "default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; {more}\
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ))
}
