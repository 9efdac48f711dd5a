//! Tokens of an identity provider: whose they are, and which open nothing.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ghostlight_actors::actor::SystemOptions;
use ghostlight_server::{Issuer, QuotaFor, Scope};
use parking_lot::Mutex;
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use crate::{
    client::Client,
    desk::{Desk, text_at},
};

const ISSUER: &str = "https://id.example.org/";

/// Signs the bytes of a token.
type Sign = Box<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

/// A key of the provider's, with its public part as it is published.
struct Signer {
    header: Value,
    sign: Sign,
    public: Value,
}

impl Signer {
    fn ed25519(kid: &str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        let x = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
        Self {
            header: json!({ "alg": "EdDSA", "typ": "JWT", "kid": kid }),
            public: json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "use": "sig", "x": x }),
            sign: Box::new(move |message| pair.sign(message).as_ref().to_vec()),
        }
    }

    fn p256(kid: &str) -> Self {
        let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), &random).unwrap();
        let point = pair.public_key().as_ref().to_vec();
        let [x, y] = [&point[1..33], &point[33..]].map(|half| URL_SAFE_NO_PAD.encode(half));
        Self {
            header: json!({ "alg": "ES256", "kid": kid }),
            public: json!({ "kty": "EC", "crv": "P-256", "kid": kid, "alg": "ES256", "x": x, "y": y }),
            sign: Box::new(move |message| pair.sign(&random, message).unwrap().as_ref().to_vec()),
        }
    }

    fn sign(&self, claims: &Value) -> String {
        self.sign_texts(&self.header.to_string(), &claims.to_string())
    }

    /// A token of this header and these claims, as they are written.
    fn sign_texts(&self, header: &str, claims: &str) -> String {
        let [header, claims] = [header, claims].map(|text| URL_SAFE_NO_PAD.encode(text));
        let message = format!("{header}.{claims}");
        let signature = URL_SAFE_NO_PAD.encode((self.sign)(message.as_bytes()));
        format!("{message}.{signature}")
    }
}

/// A part of a token.
fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

/// The claims of this subject and tenant, who may read and run.
fn claims(subject: &str, tenant: &str) -> Value {
    json!({
        "iss": ISSUER, "aud": "ghostlight", "sub": subject, "exp": now() + 600, "tenant_id": tenant,
        "scope": "openid ghostlight:read ghostlight:run",
    })
}

/// A provider that publishes these keys, and counts how often it is asked.
#[derive(Clone, Default)]
struct Provider {
    keys: Arc<Mutex<Vec<Value>>>,
    asked: Arc<AtomicUsize>,
}

impl Provider {
    fn publishing(signers: &[&Signer]) -> Self {
        let provider = Self::default();
        *provider.keys.lock() = signers.iter().map(|signer| signer.public.clone()).collect();
        provider
    }

    fn issuer(&self) -> Issuer {
        let provider = self.clone();
        let issuer = Issuer::new(ISSUER, "ghostlight", move || {
            provider.asked.fetch_add(1, Ordering::Relaxed);
            let keys = provider.keys.lock().clone();
            async move {
                match keys.is_empty() {
                    true => Err(io::Error::other("the provider is down")),
                    false => Ok(json!({ "keys": keys }).to_string()),
                }
            }
        });
        issuer
            .role("reader", &[Scope::Read])
            .role("root", &[Scope::Admin])
    }

    async fn desk(&self) -> Desk {
        let issuer = self.issuer();
        let quota = "2/1h".parse().unwrap();
        Desk::start(SystemOptions::default(), |server, _| {
            server.issuer(issuer).quota(QuotaFor::Tenant, quota)
        })
        .await
    }
}

fn with(desk: &Desk, token: String) -> Client {
    Client {
        key: Some(token),
        ..desk.client.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_what_its_scopes_and_roles_say_and_nothing_without() {
    let (one, two) = (Signer::ed25519("one"), Signer::p256("two"));
    let desk = Provider::publishing(&[&one, &two]).desk().await;
    for signer in [&one, &two] {
        let ada = with(&desk, signer.sign(&claims("auth0|ada", "acme")));
        let me = ada.get("/api/v1/me").await.is(200).json();
        assert_eq!(text_at(&me, "/subject"), "acme:auth0%7cada");
        assert_eq!(text_at(&me, "/tenant"), "acme");
        assert_eq!(me["scopes"], json!(["read", "run"]));
    }
    let path = "/api/v1/sessions/desk/s/turns";
    let body = json!({ "text": "well" });
    let mut reads = claims("eve", "acme");
    (reads["scope"], reads["roles"]) = (Value::Null, json!(["reader", "unknown"]));
    let eve = with(&desk, one.sign(&reads));
    eve.get("/api/v1/runs").await.is(200);
    eve.post(path, body.clone()).await.is(403);
    reads["roles"] = Value::Null;
    with(&desk, one.sign(&reads))
        .get("/api/v1/runs")
        .await
        .is(403);
    reads["role"] = "root".into();
    with(&desk, one.sign(&reads))
        .get("/api/v1/supervision")
        .await
        .is(200);
    // The scope `tenant` reads all of a tenant, and takes the right to write away.
    let mut audits = claims("max", "acme");
    audits["scope"] = "ghostlight:tenant ghostlight:run".into();
    let max = with(&desk, one.sign(&audits));
    max.get("/api/v1/runs").await.is(200);
    max.post(path, body.clone()).await.is(403);
    audits["tenant_id"] = Value::Null;
    let max = with(&desk, one.sign(&audits));
    let runs = max.get("/api/v1/runs").await.is(403);
    assert!(!runs.body.contains("acme"), "{runs:?}");
    // A tenant's subjects share its quota, and nobody else does.
    let of = |name: &str, tenant: &str| with(&desk, one.sign(&claims(name, tenant)));
    of("a", "acme").post(path, body.clone()).await.is(202);
    of("b", "acme").post(path, body.clone()).await.is(202);
    of("c", "acme").post(path, body.clone()).await.is(429);
    of("c", "other").post(path, body).await.is(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forged_over_or_meant_for_others_opens_nothing() {
    let (key, other) = (Signer::ed25519("one"), Signer::ed25519("one"));
    let desk = Provider::publishing(&[&key]).desk().await;
    let good = claims("ada", "acme");
    let token = key.sign(&good);
    with(&desk, token.clone()).get("/api/v1/runs").await.is(200);
    let mut wrong = vec![
        other.sign(&good),
        String::new(),
        "a.b.c".into(),
        "..".into(),
    ];
    for (claim, value) in [
        ("iss", json!("https://other.example.org/")),
        ("iss", Value::Null),
        ("aud", json!("another")),
        ("aud", Value::Null),
        ("sub", json!("")),
        ("sub", json!(7)),
        ("sub", json!("x".repeat(300))),
        ("exp", json!(now() - 120)),
        ("exp", Value::Null),
        ("nbf", json!(now() + 120)),
        ("nbf", json!((now() + 120).to_string())),
        ("exp", json!((now() + 600).to_string())),
        ("tenant_id", json!(["acme"])),
    ] {
        let mut claims = good.clone();
        claims[claim] = value.clone();
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(claim);
        }
        wrong.push(key.sign(&claims));
    }
    // A header or claims that say something twice, of which readers take the one or the other.
    let (header, body) = (key.header.to_string(), good.to_string());
    for (name, value) in [("sub", "root"), ("scope", "ghostlight:admin"), ("x", "")] {
        let twice = format!(r#"{{"x":"","{name}":"{value}",{}"#, &body[1..]);
        wrong.push(key.sign_texts(&header, &twice));
    }
    let twice = format!(r#"{{"typ":"JOSE",{}"#, &header[1..]);
    wrong.push(key.sign_texts(&twice, &body));
    // Without a signature, and with the public key as a shared secret.
    let body = token.split('.').nth(1).unwrap().to_owned();
    for name in ["none", "None", "HS256"] {
        wrong.push(format!(
            "{}.{body}.",
            part(&json!({ "alg": name, "kid": "one" }))
        ));
    }
    let secret = URL_SAFE_NO_PAD.decode(text_at(&key.public, "/x")).unwrap();
    let secret = hmac::Key::new(hmac::HMAC_SHA256, &secret);
    let message = format!("{}.{body}", part(&json!({ "alg": "HS256", "kid": "one" })));
    let tag = URL_SAFE_NO_PAD.encode(hmac::sign(&secret, message.as_bytes()));
    wrong.push(format!("{message}.{tag}"));
    // Another body under a good signature.
    let parts: Vec<&str> = token.split('.').collect();
    let mut theirs = good.clone();
    theirs["sub"] = "root".into();
    wrong.push(format!("{}.{}.{}", parts[0], part(&theirs), parts[2]));
    for token in wrong {
        let answer = with(&desk, token.clone()).get("/api/v1/runs").await;
        assert_eq!(answer.status, 401, "{token}");
    }
    // Clocks may differ a little.
    let mut late = good;
    late["exp"] = (now() - 20).into();
    with(&desk, key.sign(&late))
        .get("/api/v1/runs")
        .await
        .is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_changes_its_keys_and_is_asked_seldom() {
    let (old, new) = (Signer::ed25519("old"), Signer::ed25519("new"));
    let provider = Provider::publishing(&[]);
    let desk = provider.desk().await;
    let first = with(&desk, old.sign(&claims("ada", "acme")));
    first.get("/api/v1/runs").await.is(503);
    *provider.keys.lock() = vec![old.public.clone()];
    // It is not asked again at once, however many ask.
    for _ in 0..20 {
        first.get("/api/v1/runs").await.is(503);
    }
    assert_eq!(provider.asked.load(Ordering::Relaxed), 1);
    // A server that starts later asks, trusts the key, and finds the next one when it is named.
    let provider = Provider::publishing(&[&new]);
    let desk = provider.desk().await;
    with(&desk, new.sign(&claims("ada", "acme")))
        .get("/api/v1/runs")
        .await
        .is(200);
    for _ in 0..20 {
        with(&desk, old.sign(&claims("ada", "acme")))
            .get("/api/v1/runs")
            .await
            .is(401);
    }
    assert_eq!(provider.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_down_locks_out_no_token_of_another() {
    let key = Signer::ed25519("one");
    let (down, up) = (Provider::publishing(&[]), Provider::publishing(&[&key]));
    let other = {
        let asked = down.asked.clone();
        Issuer::new("https://other.example.org/", "ghostlight", move || {
            asked.fetch_add(1, Ordering::Relaxed);
            async { Err(io::Error::other("the provider is down")) }
        })
    };
    let desk = Desk::start(SystemOptions::default(), |server, _| {
        server.issuer(other).issuer(up.issuer())
    })
    .await;
    let ada = with(&desk, key.sign(&claims("ada", "acme")));
    ada.get("/api/v1/runs").await.is(200);
    assert_eq!(
        down.asked.load(Ordering::Relaxed),
        0,
        "it was not concerned"
    );
    let mut theirs = claims("ada", "acme");
    theirs["iss"] = "https://other.example.org/".into();
    let theirs = with(&desk, key.sign(&theirs));
    theirs.get("/api/v1/runs").await.is(503);
}
