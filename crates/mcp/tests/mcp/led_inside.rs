//! A server that leads the sign-in to addresses inside of our network.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    extract::Request,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use ghostlight_mcp::{McpToolset, OAuthSpec, ServerSpec};
use serde_json::json;
use tokio::net::TcpListener;

/// A listener inside, which counts whoever comes.
async fn inside() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let came = Arc::new(AtomicUsize::new(0));
    let counted = came.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (address, came)
}

/// A server that is not on this machine by its address, and which demands an authorization in one of several ways.
async fn leading(way: usize, target: String) -> String {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let url = format!("http://0.0.0.0:{}", listener.local_addr().unwrap().port());
    let own = url.clone();
    let answer = move |request: Request| {
        let (own, target) = (own.clone(), target.clone());
        async move { led(way, request.uri().path(), &own, &target) }
    };
    let router = Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

fn led(way: usize, path: &str, own: &str, target: &str) -> Response {
    let json = |value: serde_json::Value| {
        ([("content-type", "application/json")], value.to_string()).into_response()
    };
    let redirect = || (StatusCode::FOUND, [("location", target.to_owned())]).into_response();
    let resource = json!({ "resource": format!("{own}/mcp"), "authorization_servers": [own] });
    match path {
        "/mcp" => {
            let document = match way {
                0 => format!("{target}/document"),
                _ => format!("{own}/document"),
            };
            let challenge = format!("Bearer resource_metadata=\"{document}\"");
            (StatusCode::UNAUTHORIZED, [("www-authenticate", challenge)]).into_response()
        }
        _ if way == 1 => redirect(),
        "/document" if way == 2 => {
            let resource =
                json!({ "resource": format!("{own}/mcp"), "authorization_servers": [target] });
            json(resource)
        }
        "/document" => json(resource),
        path if path.starts_with("/.well-known/oauth-authorization-server") => {
            let inside = |kind: usize, name: &str| match way == kind {
                true => format!("{target}/{name}"),
                false => format!("{own}/{name}"),
            };
            json(json!({
                "issuer": own,
                "authorization_endpoint": format!("{own}/authorize"),
                "token_endpoint": inside(3, "token"),
                "registration_endpoint": inside(4, "register"),
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "client_credentials"],
                "token_endpoint_auth_methods_supported": ["client_secret_post", "none"],
                "code_challenge_methods_supported": ["S256"],
            }))
        }
        "/register" | "/token" if way == 5 => redirect(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// By its challenge, a redirect, the documents that it serves, or the endpoints that they name.
#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_is_led_to_nobody_inside() {
    let link_local = "http://169.254.169.254/latest".to_owned();
    for way in 0..6 {
        let (target, came) = inside().await;
        for target in [target.clone(), link_local.clone()] {
            let url = leading(way, target).await;
            let settings = ServerSpec::url(format!("{url}/mcp"));
            let person = McpToolset::new("hub", settings.clone()).unwrap();
            person.connect().await.unwrap_err();
            let signing_in = person.sign_in(|_| {});
            // A person who does not come is no part of this.
            let _ = tokio::time::timeout(std::time::Duration::from_secs(3), signing_in).await;
            person.disconnect().await;

            let mut oauth =
                OAuthSpec::client("us", Some("hunter2".to_owned())).client_credentials();
            oauth.issuer = Some(url.clone());
            let program = McpToolset::new("hub", settings.oauth(oauth)).unwrap();
            program.connect().await.unwrap_err();
            program.disconnect().await;
        }
        assert_eq!(came.load(Ordering::SeqCst), 0, "way {way}");
    }
}
