//! Where the program's secret goes when it signs in itself.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    extract::Request,
    http::{Method, StatusCode},
    response::{IntoResponse as _, Response},
};
use ghostlight_mcp::{McpToolset, OAuthSpec, ServerSpec};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A server over HTTP whose metadata, served by itself, name this token endpoint; counts what is sent to its own.
async fn server(listener: TcpListener, issuer: String, endpoint: String) -> Arc<AtomicUsize> {
    let refused = || StatusCode::BAD_REQUEST.into_response();
    granting(listener, issuer, endpoint, refused).await
}

/// Such a server, which gives this answer to whoever asks for a token.
async fn granting(
    listener: TcpListener,
    issuer: String,
    endpoint: String,
    granted: fn() -> Response,
) -> Arc<AtomicUsize> {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let answer = move |request: Request| {
        let (issuer, endpoint, counted) = (issuer.clone(), endpoint.clone(), counted.clone());
        async move {
            let path = request.uri().path();
            let answer: Response = if request.method() == Method::POST && path == "/token" {
                counted.fetch_add(1, Ordering::SeqCst);
                granted()
            } else if path.starts_with("/.well-known/oauth-authorization-server") {
                let metadata = json!({
                    "issuer": issuer,
                    "authorization_endpoint": endpoint,
                    "token_endpoint": endpoint,
                    "response_types_supported": ["code"],
                    "grant_types_supported": ["client_credentials"],
                    "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
                    "code_challenge_methods_supported": ["S256"],
                });
                ([("content-type", "application/json")], metadata.to_string()).into_response()
            } else {
                StatusCode::NOT_FOUND.into_response()
            };
            answer
        }
    };
    let router = Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    asked
}

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    (listener, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_goes_to_the_servers_own_origin_or_to_the_configured_issuer() {
    let (mine, own) = listener().await;
    let (theirs, elsewhere) = listener().await;
    let theirs = server(
        theirs,
        format!("{elsewhere}/mcp"),
        format!("{elsewhere}/token"),
    )
    .await;
    server(mine, format!("{own}/mcp"), format!("{elsewhere}/token")).await;
    let (honest, honest_url) = listener().await;
    let honest = server(
        honest,
        format!("{honest_url}/mcp"),
        format!("{honest_url}/token"),
    )
    .await;
    let connect = async |url: &str, issuer: Option<&str>| {
        let mut oauth = OAuthSpec::client("us", Some("hunter2".to_owned())).client_credentials();
        oauth.issuer = issuer.map(str::to_owned);
        let settings = ServerSpec::url(format!("{url}/mcp")).oauth(oauth);
        let toolset = McpToolset::new("hub", settings).unwrap();
        toolset.connect().await.unwrap_err().to_string()
    };
    for issuer in [None, Some(elsewhere.as_str())] {
        let error = connect(&own, issuer).await;
        assert!(error.contains("nothing was sent"), "{issuer:?}: {error}");
        assert_eq!(theirs.load(Ordering::SeqCst), 0, "{issuer:?}");
    }
    let error = connect(&honest_url, None).await;
    assert!(!error.contains("nothing was sent"), "{error}");
    assert!(honest.load(Ordering::SeqCst) > 0, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_grants_two_tokens_under_one_name_grants_none() {
    let (mine, own) = listener().await;
    let twice = || {
        let text = r#"{"access_token": "one", "access_token": "two", "token_type": "bearer"}"#;
        ([("content-type", "application/json")], text).into_response()
    };
    let asked = granting(mine, format!("{own}/mcp"), format!("{own}/token"), twice).await;
    let folder = std::env::temp_dir();
    let file = folder.join(format!("ghostlight-token-{}", std::process::id()));
    std::fs::write(&file, "proof").unwrap();
    let client = |secret: Option<&str>| OAuthSpec::client("us", secret.map(str::to_owned));
    for oauth in [
        client(Some("hunter2")).client_credentials(),
        client(None).platform_token_file(&file),
    ] {
        let before = asked.load(Ordering::SeqCst);
        let settings = ServerSpec::url(format!("{own}/mcp")).oauth(oauth.clone());
        let toolset = McpToolset::new("hub", settings).unwrap();
        let error = toolset.connect().await.unwrap_err().to_string();
        assert!(asked.load(Ordering::SeqCst) > before, "{error}");
        // What is reached with a token is no server of MCP.
        let says_why = error.contains("stands once") || error.contains("duplicate field");
        assert!(says_why, "{oauth:?}: {error}");
    }
    std::fs::remove_file(&file).unwrap();
}

/// What a server answers to GET, by its path.
type Documents = Arc<Mutex<BTreeMap<&'static str, Value>>>;

/// A server that serves these documents, demands an authorization, and grants tokens that last a second; counts what is
/// sent to its token endpoint.
async fn serving(listener: TcpListener, documents: Documents) -> Arc<AtomicUsize> {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let answer = move |request: Request| {
        let (path, documents) = (request.uri().path().to_owned(), documents.clone());
        let document = documents.lock().unwrap().get(&*path).cloned();
        let is_token = path == "/token";
        counted.fetch_add(usize::from(is_token), Ordering::SeqCst);
        async move {
            let token = json!({
                "access_token": "access", "refresh_token": "refresh", "token_type": "bearer", "expires_in": 1,
            });
            match document.or(is_token.then_some(token)) {
                Some(document) => {
                    ([("content-type", "application/json")], document.to_string()).into_response()
                }
                None if path == "/mcp" => StatusCode::UNAUTHORIZED.into_response(),
                None => StatusCode::NOT_FOUND.into_response(),
            }
        }
    };
    let router = Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    asked
}

fn metadata(issuer: &str, endpoint: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{endpoint}/token"),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "client_credentials"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
        "code_challenge_methods_supported": ["S256"],
    })
}

const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
const ISSUER: &str = "/.well-known/oauth-authorization-server";

/// A server whose resource's metadata name this authorization server.
fn resource(own: &str, issuer: &str) -> Value {
    json!({ "resource": format!("{own}/mcp"), "authorization_servers": [issuer] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_in_the_name_of_the_issuer_moves_no_secret() {
    let (mine, own) = listener().await;
    let (real, issuer) = listener().await;
    let (endpoint, elsewhere) = listener().await;
    let documents = Documents::default();
    documents.lock().unwrap().extend([
        (RESOURCE, resource(&own, &format!("{own}/.well-known/x"))),
        ("/.well-known/x", metadata(&issuer, &own)),
    ]);
    let mine = serving(mine, documents.clone()).await;
    let theirs = Documents::default();
    theirs
        .lock()
        .unwrap()
        .insert(ISSUER, metadata(&issuer, &elsewhere));
    serving(real, theirs).await;
    let endpoint = serving(endpoint, Documents::default()).await;
    let connect = async || {
        let mut oauth = OAuthSpec::client("us", Some("hunter2".to_owned())).client_credentials();
        oauth.issuer = Some(issuer.clone());
        let settings = ServerSpec::url(format!("{own}/mcp")).oauth(oauth);
        let toolset = McpToolset::new("hub", settings).unwrap();
        let error = toolset.connect().await.unwrap_err().to_string();
        toolset.disconnect().await;
        error
    };
    let error = connect().await;
    assert_eq!(mine.load(Ordering::SeqCst), 0, "{error}");
    assert!(error.contains("nothing was sent"), "{error}");

    // The endpoint that the issuer itself names gets it, also at another origin.
    documents
        .lock()
        .unwrap()
        .insert(RESOURCE, resource(&own, &issuer));
    let error = connect().await;
    assert!(endpoint.load(Ordering::SeqCst) > 0, "{error}");
}

/// Signs in as a person who agrees at once.
async fn sign_in(toolset: &McpToolset) {
    let signed_in = toolset.sign_in(|address| {
        let address = reqwest::Url::parse(address).unwrap();
        let value = |wanted: &str| {
            let mut pairs = address.query_pairs();
            pairs
                .find(|(name, _)| name == wanted)
                .unwrap()
                .1
                .into_owned()
        };
        let back = format!(
            "{}?code=agreed&state={}",
            value("redirect_uri"),
            value("state")
        );
        tokio::spawn(async move { reqwest::get(back).await });
    });
    signed_in.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_refreshed_where_they_were_granted_and_nowhere_else() {
    let (mine, own) = listener().await;
    let (real, issuer) = listener().await;
    let documents = Documents::default();
    documents
        .lock()
        .unwrap()
        .insert(RESOURCE, resource(&own, &issuer));
    let mine = serving(mine, documents.clone()).await;
    let theirs = Documents::default();
    theirs
        .lock()
        .unwrap()
        .insert(ISSUER, metadata(&issuer, &issuer));
    let real = serving(real, theirs).await;
    let folder = folder();
    let spec = || {
        let oauth = OAuthSpec::client("us", None);
        ServerSpec::url(format!("{own}/mcp"))
            .oauth(oauth)
            .tokens(folder.join("tokens.json"))
    };
    let toolset = McpToolset::new("hub", spec()).unwrap();
    toolset.connect().await.unwrap_err();
    sign_in(&toolset).await;
    toolset.disconnect().await;
    assert_eq!(real.load(Ordering::SeqCst), 1);
    // A later process refreshes the tokens, which have expired.
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let connect = async || {
        let toolset = McpToolset::new("hub", spec()).unwrap();
        let error = toolset.connect().await.unwrap_err().to_string();
        toolset.disconnect().await;
        error
    };
    let error = connect().await;
    assert!(real.load(Ordering::SeqCst) > 1, "{error}");
    // The server names the same issuer, by a document of its own.
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    documents.lock().unwrap().extend([
        (RESOURCE, resource(&own, &format!("{own}/.well-known/x"))),
        ("/.well-known/x", metadata(&issuer, &own)),
    ]);
    let error = connect().await;
    assert_eq!(mine.load(Ordering::SeqCst), 0, "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// A folder of this test's own.
fn folder() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("ghostlight-issuers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
