//! Conditions of every request, and headers of every answer.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, COOKIE, HOST, HeaderName, LOCATION, ORIGIN, REFERRER_POLICY,
    SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::refusal::Refusal;
use super::token::Token;

#[derive(Debug)]
pub struct Guard {
    address: SocketAddr,
    token: Token,
    /// With the port: browsers send a cookie to every port of a host.
    cookie: String,
}

impl Guard {
    pub fn new(address: SocketAddr, token: Token) -> Self {
        Self {
            address,
            token,
            cookie: format!("latlab-{}", address.port()),
        }
    }

    /// A page of another name could be led to this address by its name server (DNS rebinding). Its port says nothing of
    /// that, and is another one behind `ssh -L`.
    fn is_host(&self, headers: &HeaderMap) -> bool {
        if !self.address.ip().is_loopback() {
            return true;
        }
        let Some(host) = text(headers, &HOST) else {
            return false;
        };
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let parts = host.rsplit_once(':').filter(|(_, port)| is_port(port));
        let name = parts.map_or(host, |(name, _)| name);
        ["localhost", "127.0.0.1", "[::1]", &self.name()].contains(&name)
    }

    /// The address as it stands in a URL.
    fn name(&self) -> String {
        match self.address.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        }
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let cookies = text(headers, &COOKIE).unwrap_or_default().split(';');
        let mut pairs = cookies.filter_map(|cookie| cookie.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && self.token.is(value))
    }

    /// The answer to the address that was printed: a cookie, and the page without the token in its address.
    fn enter(&self, uri: &Uri) -> Option<Response> {
        let mut fields = uri.query()?.split('&');
        let shown = fields.find_map(|field| field.strip_prefix("token="))?;
        if uri.path() != "/" || !self.token.is(shown) {
            return None;
        }
        let cookie = format!("{}={shown}; Path=/; HttpOnly; SameSite=Strict", self.cookie);
        let headers = [(SET_COOKIE, cookie), (LOCATION, "/".to_owned())];
        Some((StatusCode::SEE_OTHER, headers).into_response())
    }
}

/// Another page in the same browser can send a form, but neither JSON without asking first nor without its own origin.
fn is_own(headers: &HeaderMap) -> bool {
    let is_json =
        text(headers, &CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json"));
    let host = text(headers, &HOST).unwrap_or_default();
    let origin = text(headers, &ORIGIN);
    is_json && origin.is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

pub async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let is_reading = [Method::GET, Method::HEAD].contains(request.method());
    let answer = if !guard.is_host(headers) {
        let name = guard.name();
        let named = format!("a request to this address must name localhost or {name} as its host");
        Refusal::new(StatusCode::MISDIRECTED_REQUEST, named)
            .hint("open the address that `latlab serve` printed")
            .into_response()
    } else if let Some(entered) = guard.enter(request.uri()) {
        entered
    } else if !guard.has_token(headers) {
        let refusal = Refusal::new(StatusCode::UNAUTHORIZED, "the request has no valid token");
        refusal
            .hint("open the address that `latlab serve` printed")
            .into_response()
    } else if !is_reading && !is_own(headers) {
        let foreign = "a change must be JSON, and from the explorer's own page";
        Refusal::new(StatusCode::FORBIDDEN, foreign).into_response()
    } else {
        next.run(request).await
    };
    with_headers(answer)
}

fn with_headers(mut answer: Response) -> Response {
    let always = [
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in always {
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    answer
}
