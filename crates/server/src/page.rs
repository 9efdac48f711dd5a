//! Files of a page for people, and the first request of a browser.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use ghostlight_safety::is_loopback_host;
use ring::digest;
use serde::Deserialize;

use crate::{
    address::{Query, without_port},
    cookie,
    server::Shared,
};

/// A file of a page that the server shows to browsers: the same for everybody, and without a key. The page's data comes
/// through the JSON interface, which asks for a key.
#[derive(Clone, Copy, Debug)]
pub struct PageFile {
    /// Its path, such as `/app.js`; `/` is the page itself.
    pub path: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// Its content.
    pub content: &'static str,
}

/// Only scripts, styles and requests of this server; no string becomes markup, and no other site shows the page in a
/// frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // The page's first address contains a key.
    (header::REFERRER_POLICY, "no-referrer"),
    // A browser asks each time whether its copy is still current.
    (header::CACHE_CONTROL, "no-cache"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// The query of the page's address.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct FirstQuery {
    /// A key, which becomes a cookie.
    token: Option<String>,
}

/// Whether another site led the browser here. Its key would replace that of a person who is signed in, and its owner would
/// see what the person does under it. A browser sends no cookie with such a request, but says where it comes from (Fetch
/// Metadata); an address that a person opened themselves comes from nowhere. To another machine over plain HTTP it does not
/// say so, and then may have been led.
fn is_led_from_elsewhere(headers: &HeaderMap, has_tls: bool) -> bool {
    let mut sites = headers.get_all("sec-fetch-site").iter().peekable();
    if sites.peek().is_none() {
        let host = headers.get(header::HOST).map(HeaderValue::to_str);
        let is_here = |host| is_loopback_host(without_port(host));
        return !has_tls && !host.is_some_and(|host| host.is_ok_and(is_here));
    }
    sites.any(|site| !matches!(site.as_bytes(), b"none" | b"same-origin"))
}

impl PageFile {
    /// The file, or the status that the browser's copy is current. A key in the address is moved into a cookie, unless
    /// another site wrote the address, or may have.
    pub(crate) async fn answer(
        self,
        State(state): State<Shared>,
        Query(query): Query<FirstQuery>,
        headers: HeaderMap,
    ) -> Response {
        if let Some(token) = query.token {
            let to = [(header::LOCATION, self.path)];
            let mut response = (StatusCode::SEE_OTHER, to).into_response();
            if !is_led_from_elsewhere(&headers, state.has_tls)
                && let Ok(Some(_)) = state.caller(&token).await
                && let Some(cookie) = cookie::set(&state, &headers, &token)
            {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            let leaks_nothing = HeaderValue::from_static("no-referrer");
            response
                .headers_mut()
                .insert(header::REFERRER_POLICY, leaks_nothing);
            return response;
        }
        let digest = digest::digest(&digest::SHA256, self.content.as_bytes());
        let tag: String = digest.as_ref()[..12]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let tag = format!("\"{tag}\"");
        let kept = headers
            .get(header::IF_NONE_MATCH)
            .is_some_and(|kept| kept.as_bytes() == tag.as_bytes());
        let mut response = if kept {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let kind = [(header::CONTENT_TYPE, self.media_type)];
            (kind, self.content).into_response()
        };
        for (name, value) in HEADERS {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}
