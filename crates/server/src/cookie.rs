//! The cookie in which a browser keeps a key. Scripts cannot read it, and requests of other sites do not carry it.

use axum::http::{HeaderMap, HeaderValue, header};

use crate::server::State;

/// How long a browser keeps the cookie, in seconds. A key that expires earlier is refused from then on.
const MAX_AGE_S: u32 = 30 * 86_400;

/// The cookie's name. Browsers share cookies between ports, so the name contains the port: two servers on one machine
/// each have their own cookie.
fn name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port);
    let is_port = |port: &&str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.filter(is_port) {
        Some(port) => format!("ghostlight-{port}"),
        None => "ghostlight".to_owned(),
    }
}

/// The key that a browser's cookie holds.
pub(crate) fn key(headers: &HeaderMap) -> Option<&str> {
    let name = name(headers);
    let cookies = headers.get_all(header::COOKIE).iter();
    cookies
        .filter_map(|cookies| cookies.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .find_map(|(found, value)| (found == name).then_some(value))
}

/// The header that makes a browser keep this key; `None` for a text that is not a key.
pub(crate) fn set(state: &State, headers: &HeaderMap, key: &str) -> Option<HeaderValue> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    key.bytes().all(fits).then_some(())?;
    value(state, headers, key, MAX_AGE_S)
}

/// The header that makes a browser forget its key.
pub(crate) fn clear(state: &State, headers: &HeaderMap) -> Option<HeaderValue> {
    value(state, headers, "", 0)
}

fn value(state: &State, headers: &HeaderMap, key: &str, age: u32) -> Option<HeaderValue> {
    let name = name(headers);
    let secure = if state.has_tls { "; Secure" } else { "" };
    let text = format!("{name}={key}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).ok()
}
