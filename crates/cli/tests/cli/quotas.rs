//! Keys with tenants, tokens of an identity provider and quotas, over real processes and real stores.

#[cfg(feature = "full")]
#[path = "../../../postgres/tests/postgres/server.rs"]
#[allow(dead_code)]
pub(crate) mod postgres;

use std::{
    net::SocketAddr,
    sync::Barrier,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use crate::{
    listening::over_http::{ask, exchange, free},
    own_command::{Desk, Started},
};

/// Says turns in sessions of their own, at once and at all of these servers, and counts those that are let in.
fn at_once(servers: &[SocketAddr], name: &str, many: usize, cost_micros: u64) -> usize {
    let start = Barrier::new(many);
    let body = json!({ "text": "go", "budget": { "cost_micros": cost_micros } }).to_string();
    thread::scope(|scope| {
        let callers: Vec<_> = (0..many)
            .map(|number| {
                let (start, body, to) = (&start, &body, servers[number % servers.len()]);
                scope.spawn(move || {
                    start.wait();
                    let path = format!("/api/v1/sessions/desk/{name}-{number}/turns");
                    let (status, head, said) = exchange(to, "POST", &path, "", body).unwrap();
                    match status {
                        202 => 1,
                        429 => {
                            assert!(head.contains("\r\nretry-after: "), "{head}");
                            assert_eq!(said["status"], 429, "{said}");
                            0
                        }
                        _ => panic!("{head} {said}"),
                    }
                })
            })
            .collect();
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .sum()
    })
}

/// Two servers share a store, are killed, and share it again.
fn two_processes_let_in_as_many_as_allowed(store: &str) {
    let desk = Desk::new("gated", json!({}));
    let servers = [free(), free()];
    let start = || -> Vec<Started> {
        let started = servers.map(|to| {
            let listen = to.to_string();
            let quotas = ["--quota", "team=40/31d", "--quota", "team=1cost/31d"];
            let words = ["serve", "team.yaml", "--store", store, "--listen", &listen];
            let mut serving = desk.start(&[&words[..], &quotas[..]].concat());
            serving.says("has prices");
            serving.says("listens at");
            serving
        });
        started.into()
    };
    let serving = start();
    // Each reserves a tenth of the money, and holds it until its run has ended.
    assert_eq!(at_once(&servers, "first", 100, 100_000), 10);
    for process in serving {
        process.signal("KILL");
        process.ends();
    }
    let serving = start();
    assert_eq!(at_once(&servers, "second", 10, 100_000), 0);
    desk.open_gate();
    desk.until("the ends of the runs", |_| {
        let path = "/api/v1/runs?team=desk&status=answered&all=true";
        let (_, found) = ask(servers[0], "GET", path, "", "").unwrap();
        found["runs"]
            .as_array()
            .is_some_and(|runs| runs.len() == 10)
    });
    // They cost nothing, which is settled by whoever asks next; of the 40 turns 30 are left.
    desk.until("the settlement", |_| {
        at_once(&servers[..1], "third", 1, 100_000) == 1
    });
    assert_eq!(at_once(&servers, "fourth", 100, 1), 29);
    for process in serving {
        process.signal("TERM");
        process.ends().exits(0);
    }
}

#[test]
fn a_hundred_callers_of_two_processes_over_one_sqlite_file_are_let_in_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("shared.db");
    two_processes_let_in_as_many_as_allowed(store.to_str().unwrap());
}

#[cfg(feature = "full")]
#[test]
fn a_hundred_callers_of_two_processes_over_one_postgresql_are_let_in_exactly() {
    if postgres::is_left_out() {
        return;
    }
    let server = postgres::Server::quick();
    two_processes_let_in_as_many_as_allowed(&server.url());
}

const SAY: &str = "/api/v1/sessions/desk/s/turns?wait=50";

/// The status and head of the answer to a turn of this key's or token's holder.
fn say(to: SocketAddr, key: &str) -> (u16, String, Value) {
    let bearer = format!("Authorization: Bearer {key}\r\n");
    exchange(to, "POST", SAY, &bearer, r#"{"text":"go"}"#).unwrap()
}

fn serve(desk: &Desk, to: SocketAddr, more: &[&str]) -> Started {
    let listen = to.to_string();
    let words = ["serve", "team.yaml", "--listen", &listen];
    let mut serving = desk.start_shipped(&[&words[..], more].concat());
    serving.says("listens at");
    serving
}

#[test]
fn a_tenant_has_its_own_keys_runs_and_money_also_after_the_server_was_killed() {
    let desk = Desk::new("simple", json!({}));
    let team = json!({
        "agent": { "name": "desk", "behavior": "simple" },
        // A thousandth for each token, so that a turn costs more than is left for a second one.
        "interceptors": [{ "name": "prices", "input": 1000, "output": 1000 }],
    });
    desk.write("team.yaml", &team.to_string());
    let key = |words: &[&str]| {
        let made = desk.shipped(&[&["key", "add"], words].concat()).exits(0);
        made.out.trim().to_owned()
    };
    let ada = key(&["ada", "--tenant", "acme"]);
    let bob = key(&["bob", "--tenant", "acme"]);
    let other = key(&["ada", "--tenant", "other.example"]);
    let plain = key(&["ada"]);
    for wrong in ["a:b", "", "a/b"] {
        let refused = desk
            .shipped(&["key", "add", "ada", "--tenant", wrong])
            .exits(2);
        assert!(refused.err.contains("is not a tenant"), "{}", refused.err);
    }
    let admin = [
        "key", "add", "root", "--tenant", "acme", "--scopes", "admin",
    ];
    desk.shipped(&admin).exits(2);
    let listed = desk.shipped(&["key", "list", "--json"]).exits(0).json();
    let tenants: Vec<&Value> = listed.iter().map(|key| &key["tenant"]).collect();
    assert_eq!(
        json!(tenants),
        json!(["acme", "acme", "other.example", null])
    );
    let table = desk.shipped(&["key", "list"]).exits(0);
    assert!(table.out.contains("  acme:bob "), "{}", table.out);

    let to = free();
    let quota = ["--quota", "tenant=0.01cost/31d"];
    let serving = serve(&desk, to, &quota);
    let (status, _, said) = say(to, &ada);
    assert_eq!(status, 200, "{said}");
    let run = said["run"]["id"].as_str().unwrap().to_owned();
    let read = |to, key: &str| {
        let bearer = format!("Authorization: Bearer {key}\r\n");
        ask(to, "GET", &format!("/api/v1/runs/{run}"), &bearer, "")
            .unwrap()
            .0
    };
    // What is ada's in one tenant is hers alone, and what the tenant has used is used for all of it.
    assert_eq!(
        [&ada, &bob, &other, &plain].map(|key| read(to, key)),
        [200, 404, 404, 404]
    );
    let refused = |to| {
        let (status, head, said) = say(to, &bob);
        assert_eq!(
            (status, &said["status"]),
            (429, &json!(429)),
            "{head} {said}"
        );
        let after = head.split_once("\r\nretry-after: ").unwrap().1;
        after.lines().next().unwrap().parse::<u64>().unwrap()
    };
    // What the run really cost is more than the hundredth that was there: the next turn waits for longer than the window.
    desk.until("the settlement", |_| refused(to) > 31 * 24 * 3_600);
    assert_eq!(say(to, &other).0, 200);
    assert_eq!([0, 1].map(|_| say(to, &plain).0), [200, 200]);
    serving.signal("KILL");
    serving.ends();
    let to = free();
    let serving = serve(&desk, to, &quota);
    assert!(refused(to) > 31 * 24 * 3_600 - 3_600);
    assert_eq!(say(to, &plain).0, 200);
    serving.signal("TERM");
    serving.ends().exits(0);
    let sessions = desk
        .shipped(&["session", "list", "--owner", "acme:ada"])
        .exits(0);
    assert!(sessions.out.contains("acme:ada/s"), "{}", sessions.out);
}

/// A key of an identity provider.
struct Signer(Ed25519KeyPair);

impl Signer {
    fn new() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
    }

    fn published(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.0.public_key().as_ref());
        json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "k", "use": "sig", "x": x }] })
    }

    fn token(&self, claims: &Value) -> String {
        let header = json!({ "alg": "EdDSA", "typ": "JWT", "kid": "k" });
        let [header, claims] =
            [&header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let message = format!("{header}.{claims}");
        let signature = URL_SAFE_NO_PAD.encode(self.0.sign(message.as_bytes()).as_ref());
        format!("{message}.{signature}")
    }
}

#[test]
fn tokens_of_the_issuer_open_the_server_and_forged_or_expired_ones_do_not() {
    let desk = Desk::new("simple", json!({}));
    desk.write(
        "team.yaml",
        r#"{"agent":{"name":"desk","behavior":"simple"}}"#,
    );
    let (provider, forger) = (Signer::new(), Signer::new());
    desk.write("jwks.json", &provider.published().to_string());
    let to = free();
    let issuer = "https://id.example.org/";
    let words = [
        ["--issuer", issuer],
        ["--audience", "ghostlight"],
        ["--jwks", "jwks.json"],
        ["--role", "editor=read,run"],
        ["--quota", "tenant=2/31d"],
    ];
    let serving = serve(&desk, to, &words.concat());
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let claims = |more: Value| {
        let mut claims = json!({
            "iss": issuer, "aud": "ghostlight", "sub": "ada", "exp": now + 600, "tenant_id": "acme",
            "roles": ["editor"],
        });
        claims
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        claims
    };
    let good = provider.token(&claims(json!({})));
    let unsigned = {
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        let part = URL_SAFE_NO_PAD.encode(claims(json!({})).to_string());
        format!("{header}.{part}.")
    };
    let refused = [
        forger.token(&claims(json!({}))),
        unsigned,
        good.replacen('.', "", 1),
        provider.token(&claims(json!({ "exp": now - 120 }))),
        provider.token(&claims(json!({ "nbf": now + 600 }))),
        provider.token(&claims(json!({ "aud": "somebody else" }))),
        provider.token(&claims(json!({ "iss": "https://id.example.com/" }))),
    ];
    for token in &refused {
        assert_eq!(say(to, token).0, 401, "{token}");
    }
    let without_role = provider.token(&claims(json!({ "roles": [] })));
    assert_eq!(say(to, &without_role).0, 403);
    assert_eq!(ask(to, "POST", SAY, "", r#"{"text":"go"}"#).unwrap().0, 401);
    // What was refused has taken nothing of the tenant's two turns.
    assert_eq!([0, 1].map(|_| say(to, &good).0), [200, 200]);
    let (status, head, said) = say(to, &provider.token(&claims(json!({ "sub": "bob" }))));
    assert_eq!((status, &said["status"]), (429, &json!(429)), "{said}");
    assert!(head.contains("\r\nretry-after: "), "{head}");
    let of_another = provider.token(&claims(json!({ "tenant_id": "other" })));
    assert_eq!(say(to, &of_another).0, 200);
    serving.signal("TERM");
    serving.ends().exits(0);
    // A provider whose keys others could change on their way is not believed.
    let open = [
        "--issuer",
        issuer,
        "--audience",
        "a",
        "--jwks",
        "http://id.example.org/keys",
    ];
    let words = [
        &["serve", "team.yaml", "--listen", "127.0.0.1:0"][..],
        &open[..],
    ]
    .concat();
    let done = desk.shipped(&words).exits(2);
    assert!(done.err.contains("https://"), "{}", done.err);
}

#[test]
fn a_setting_that_can_have_no_effect_is_refused_before_anything_starts() {
    let desk = Desk::new("says", json!({}));
    let to = free().to_string();
    let refused = |words: &[&str], told: &str| {
        let serve = ["serve", "team.yaml", "--listen", &to];
        let done = desk.run(&[&serve[..], words].concat()).exits(2);
        assert!(done.err.contains(told), "{words:?}: {}", done.err);
    };
    for whose in ["subject", "tenant", "subject-and-team"] {
        let quota = format!("{whose}=1/1h");
        refused(&["--quota", &quota], "bounds nobody here");
    }
    refused(
        &["--host", "localhost:8080"],
        "not a name that a request has",
    );
    refused(&["--origin", "https://example.org/"], "not an origin");
    refused(&["--address", "example.org"], "not an address of a server");
    let hidden = ["--visibility", "private", "--quota", "team=1/1h"];
    refused(&hidden, "no effect with --visibility private");
    #[cfg(feature = "full")]
    {
        let address = ["--address", "https://agents.example.org"];
        let seeing = [&address[..], &["--did", "a.example=read,tenant"]].concat();
        refused(&seeing, "identities have no tenant");
        let signed = ["--did", "a.example=run", "--quota", "tenant=1/1h"];
        refused(&[&address[..], &signed].concat(), "bounds nobody here");
    }
    #[cfg(feature = "full")]
    refused(
        &["--node-address", "http://10.0.0.1:8080"],
        "no effect with a store in a file",
    );
    assert!(!desk.path("runs.db").exists());
    let idle = ["key", "add", "eve", "--scopes", "read", "--quota", "1/1h"];
    let done = desk.shipped(&idle).exits(2);
    assert!(done.err.contains("without the scope run"), "{}", done.err);
}
