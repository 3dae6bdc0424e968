//! Pages. Each names its one script by its hash in a policy of its own, since `web/` builds it so: what could come from a run
//! does not run. The header adds what a page cannot say of itself.

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

const EXPLORER: &str = include_str!("../../../../web/dist/explorer.html");

pub async fn explorer() -> Response {
    html(EXPLORER)
}

pub fn html(page: impl IntoResponse) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            CONTENT_SECURITY_POLICY,
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ];
    (headers, page).into_response()
}
