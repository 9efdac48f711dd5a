//! The Agent Network Protocol: teams are found and asked, callers sign, and services announce themselves.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ghostlight_actors::{actor::SystemOptions, testing::InMemoryStore};
use ghostlight_server::{Identities, Scope};
use ring::{
    digest,
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use crate::{
    client::{Answer, Client},
    desk::{Desk, text_at},
};

const ADDRESS: &str = "https://ghostlight.example.org";

/// Somebody with an identity.
struct Signer {
    did: String,
    key: Ed25519KeyPair,
}

impl Signer {
    fn new(did: &str) -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let key = Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap();
        Self {
            did: did.to_owned(),
            key,
        }
    }

    fn document(&self) -> String {
        let id = format!("{}#key-1", self.did);
        let x = URL_SAFE_NO_PAD.encode(self.key.public_key());
        let key = json!({
            "id": id, "type": "JsonWebKey2020", "publicKeyJwk": { "kty": "OKP", "crv": "Ed25519", "x": x },
        });
        json!({ "id": self.did, "verificationMethod": [key], "authentication": [id] }).to_string()
    }

    /// The headers that sign this request.
    fn headers(&self, method: &str, target: &str, body: &str, nonce: &str) -> String {
        let digest = STANDARD.encode(digest::digest(&digest::SHA256, body.as_bytes()));
        let digest = format!("sha-256=:{digest}:");
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let parameters = format!(
            r#"("@method" "@target-uri" "content-digest");created={now};nonce="{nonce}";keyid="{}#key-1""#,
            self.did,
        );
        let message = format!(
            "\"@method\": {method}\n\"@target-uri\": {target}\n\"content-digest\": {digest}\n\"@signature-params\": {parameters}"
        );
        let signature = STANDARD.encode(self.key.sign(message.as_bytes()));
        format!(
            "Content-Digest: {digest}\r\nSignature-Input: sig1={parameters}\r\nSignature: sig1=:{signature}:\r\n"
        )
    }

    async fn send(
        &self,
        client: &Client,
        method: &str,
        path: &str,
        body: &Value,
        nonce: &str,
    ) -> Answer {
        let body = body.to_string();
        let headers = self.headers(method, &format!("{ADDRESS}{path}"), &body, nonce);
        client.request(method, path, &headers, Some(&body)).await
    }
}

fn ask(text: &str, more: &Value) -> Value {
    let mut params = json!({ "text": text });
    params
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({ "jsonrpc": "2.0", "id": 7, "method": "ask", "params": params })
}

/// A desk that lets in the identities of one host, and how often their documents were fetched.
async fn network(signers: &[&Signer]) -> (Desk, Arc<AtomicU32>) {
    network_over(InMemoryStore::new(), signers).await
}

async fn network_over(store: InMemoryStore, signers: &[&Signer]) -> (Desk, Arc<AtomicU32>) {
    let documents: Vec<_> = signers
        .iter()
        .map(|signer| (signer.did.clone(), signer.document()))
        .collect();
    let fetched = Arc::new(AtomicU32::new(0));
    let count = fetched.clone();
    let identities = Identities::new(move |address| {
        count.fetch_add(1, Ordering::Relaxed);
        let found = documents.iter().find(|(did, _)| {
            let path = did.trim_start_matches("did:wba:").replace(':', "/");
            address == format!("https://{path}/did.json")
        });
        let found = found.map(|(_, document)| document.clone());
        async move { found.ok_or_else(|| std::io::Error::other("404")) }
    });
    let identities = identities.host("agents.example.org", &[Scope::Read, Scope::Run]);
    let desk = Desk::over(store, SystemOptions::default(), |server, keys| {
        server
            .keys(keys.clone())
            .identities(identities)
            .address(ADDRESS)
    });
    (desk.await, fetched)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_is_found_by_its_site_and_does_what_it_is_asked_once() {
    let desk = Desk::open().await;
    let page = desk
        .client
        .get("/.well-known/agent-descriptions")
        .await
        .is(200)
        .json();
    assert_eq!(text_at(&page, "/items/0/name"), "desk");
    assert_eq!(
        page["items"].as_array().unwrap().len(),
        1,
        "a private team is not told"
    );
    let own = format!("http://{}", desk.client.to);
    let at = text_at(&page, "/items/0/@id")
        .strip_prefix(&own)
        .unwrap()
        .to_owned();
    let described = desk.client.get(&at).await.is(200).json();
    assert_eq!(text_at(&described, "/description"), "does what it is told");
    let interface = described.pointer("/interfaces/0/content").unwrap();
    assert_eq!(text_at(interface, "/methods/0/name"), "ask");
    let rpc = text_at(interface, "/servers/0/url")
        .strip_prefix(&own)
        .unwrap()
        .to_owned();
    desk.client.get("/anp/secret/ad.json").await.is(404);

    let answer = desk
        .client
        .post(&rpc, ask("well", &json!({})))
        .await
        .is(200)
        .json();
    assert_eq!(
        (&answer["id"], text_at(&answer, "/result/text")),
        (&json!(7), "did well".into())
    );
    // Sent again under its id it is one run; in its session the conversation goes on.
    let twice = json!({ "id": "a", "session": "s" });
    let first = desk.client.post(&rpc, ask("one", &twice)).await.json();
    let again = desk.client.post(&rpc, ask("one", &twice)).await.json();
    assert_eq!(first, again);
    desk.client
        .post(&rpc, ask("two", &json!({ "session": "s" })))
        .await
        .is(200);
    let said = desk
        .client
        .get("/api/v1/sessions/desk/s/messages")
        .await
        .is(200)
        .json();
    assert_eq!(said.as_array().unwrap().len(), 4, "{said}");

    let code = async |body: Value| {
        let answer = desk.client.post(&rpc, body).await.is(200).json();
        answer["error"]["code"]
            .as_i64()
            .unwrap_or_else(|| panic!("{answer}"))
    };
    assert_eq!(code(json!([])).await, -32600);
    let in_order = json!(["2.0", 1, "ask", { "text": "hello" }]);
    assert_eq!(code(in_order).await, -32600);
    let listed = json!({ "jsonrpc": "2.0", "id": 1, "method": "ask", "params": ["hello"] });
    assert_eq!(code(listed).await, -32602);
    assert_eq!(
        code(json!({ "jsonrpc": "1.0", "id": 1, "method": "ask" })).await,
        -32600
    );
    assert_eq!(
        code(json!({ "jsonrpc": "2.0", "id": {}, "method": "ask" })).await,
        -32600
    );
    assert_eq!(
        code(json!({ "jsonrpc": "2.0", "id": 1, "method": "tell" })).await,
        -32601
    );
    assert_eq!(
        code(json!({ "jsonrpc": "2.0", "id": 1, "method": "ask" })).await,
        -32602
    );
    assert_eq!(code(ask("x", &json!({ "else": 1 }))).await, -32602);
    assert_eq!(code(ask("x", &json!({ "session": "" }))).await, -32602);
    assert_eq!(code(ask("fail so", &json!({}))).await, -32000);
    assert_eq!(code(ask("ask why?", &json!({}))).await, -32000);
    let broken = desk
        .client
        .request("POST", &rpc, "", Some("{"))
        .await
        .is(200)
        .json();
    assert_eq!(broken["error"]["code"], -32700);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_is_the_identity_that_signed_and_sees_what_is_its_own() {
    let ada = Signer::new("did:wba:agents.example.org:user:ada");
    let bob = Signer::new("did:wba:agents.example.org:user:bob");
    let (desk, fetched) = network(&[&ada, &bob]).await;
    let rpc = "/anp/desk/rpc";
    let begun = ada
        .send(
            &desk.client,
            "POST",
            rpc,
            &ask("well", &json!({ "session": "s" })),
            "1",
        )
        .await;
    let begun = begun.is(200).json();
    let run = format!("/api/v1/runs/{}", text_at(&begun, "/result/run"));
    let nothing = Value::Null;
    ada.send(&desk.client, "GET", &run, &nothing, "2")
        .await
        .is(200);
    bob.send(&desk.client, "GET", &run, &nothing, "1")
        .await
        .is(404);
    assert_eq!(
        fetched.load(Ordering::Relaxed),
        2,
        "a document is read once"
    );
    let described = desk
        .client_of("eve", &[Scope::Read])
        .get("/anp/desk/ad.json")
        .await
        .is(200)
        .json();
    assert_eq!(text_at(&described, "/security"), "didwba_sc");

    // Twice, changed, with another's key, of another host, and unsigned.
    ada.send(&desk.client, "GET", &run, &nothing, "2")
        .await
        .is(401);
    let headers = ada.headers("GET", &format!("{ADDRESS}{run}"), "null", "3");
    desk.client
        .request("GET", "/api/v1/runs", &headers, Some("null"))
        .await
        .is(401);
    desk.client
        .request("GET", &run, &headers, Some("{}"))
        .await
        .is(401);
    desk.client
        .request("DELETE", &run, &headers, Some("null"))
        .await
        .is(405);
    desk.client
        .request("GET", &run, &headers, Some("null"))
        .await
        .is(200);
    let elsewhere = ada.headers(
        "GET",
        &format!("https://elsewhere.example.org{run}"),
        "null",
        "4",
    );
    desk.client
        .request("GET", &run, &elsewhere, Some("null"))
        .await
        .is(401);
    let forger = Signer::new(&ada.did);
    forger
        .send(&desk.client, "GET", &run, &nothing, "5")
        .await
        .is(401);
    let before = fetched.load(Ordering::Relaxed);
    for did in [
        "did:wba:other.example.org:user:ada",
        "did:wba:127.0.0.1",
        "did:web:agents.example.org",
    ] {
        let stranger = Signer::new(did);
        stranger
            .send(&desk.client, "GET", &run, &nothing, "6")
            .await
            .is(401);
    }
    assert_eq!(
        fetched.load(Ordering::Relaxed),
        before,
        "only hosts that are let in are asked"
    );
    let nobody = Signer::new("did:wba:agents.example.org:user:nobody");
    nobody
        .send(&desk.client, "GET", &run, &nothing, "7")
        .await
        .is(401);
    desk.client
        .request("GET", &run, "Signature: x\r\n", None)
        .await
        .is(401);
    desk.client.get(&run).await.is(401);
    // The body of a forger is not waited for.
    let headers = forger.headers("POST", &format!("{ADDRESS}{rpc}"), "{}", "9");
    let length = "Content-Type: application/json\r\nContent-Length: 7900000\r\n\r\n";
    let head = desk.client.head("POST", rpc, &(headers + length));
    desk.client.send(head.as_bytes()).await.unwrap().is(401);
    // Its scopes are those of its host.
    ada.send(&desk.client, "GET", "/metrics", &nothing, "8")
        .await
        .is(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_have_few_documents_fetched_and_keep_nobody_out_who_is_known() {
    let ada = Signer::new("did:wba:agents.example.org:user:ada");
    let (desk, fetched) = network(&[&ada]).await;
    let path = "/api/v1/runs";
    let nothing = Value::Null;
    ada.send(&desk.client, "GET", path, &nothing, "1")
        .await
        .is(200);
    let mut named = Signer::new("");
    let mut send = async |did: &str| {
        did.clone_into(&mut named.did);
        named
            .send(&desk.client, "GET", path, &nothing, "1")
            .await
            .status
    };
    assert_eq!(
        send("did:wba:agents.example.org%3A8443:user:ada").await,
        401
    );
    assert_eq!(fetched.load(Ordering::Relaxed), 1, "the port was not named");
    for _ in 0..3 {
        assert_eq!(send("did:wba:agents.example.org:user:nobody").await, 401);
    }
    assert_eq!(
        fetched.load(Ordering::Relaxed),
        2,
        "it is not asked for again at once"
    );
    for number in 0..300 {
        send(&format!("did:wba:agents.example.org:user:{number}")).await;
    }
    assert_eq!(fetched.load(Ordering::Relaxed), 120);
    assert_eq!(send("did:wba:agents.example.org:user:another").await, 429);
    // She is let in as before, also after a forger tried.
    assert_eq!(send(&ada.did).await, 401);
    ada.send(&desk.client, "GET", path, &nothing, "2")
        .await
        .is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_request_is_taken_by_no_server_of_the_store_and_not_after_a_restart() {
    let ada = Signer::new("did:wba:agents.example.org:user:ada");
    let bob = Signer::new("did:wba:agents.example.org:user:bob");
    let both = [&ada, &bob];
    let store = InMemoryStore::new();
    let (first, _) = network_over(store.clone(), &both).await;
    let path = "/api/v1/runs";
    let headers = ada.headers("GET", &format!("{ADDRESS}{path}"), "", "n");
    let get = async |desk: &Desk| desk.client.request("GET", path, &headers, None).await;
    get(&first).await.is(200);
    get(&first).await.is(401);
    let (beside, _) = network_over(store.another_process(), &both).await;
    get(&beside).await.is(401);
    drop((first, beside));
    store.crash();
    let (next, _) = network_over(store.another_process(), &both).await;
    let refused = get(&next).await.is(401).json();
    assert_eq!(text_at(&refused, "/detail"), "the nonce was used already");
    // Another identity may have the same nonce, and of many at once that are the same one is taken.
    let headers = bob.headers("GET", &format!("{ADDRESS}{path}"), "", "n");
    let tries = (0..20).map(|_| next.client.request("GET", path, &headers, None));
    let answers = futures_util::future::join_all(tries).await;
    let taken = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(taken, 1, "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn services_announce_themselves_and_are_found_and_nobody_speaks_for_another() {
    let ada = Signer::new("did:wba:agents.example.org:user:ada");
    let bob = Signer::new("did:wba:agents.example.org:user:bob");
    let (desk, _) = network(&[&ada, &bob]).await;
    let services = "/anp-registry/services";
    let of = |id: &str, load: f64| json!({ "id": id, "type": "poet", "capabilities": ["verse"], "load": load });
    ada.send(&desk.client, "POST", services, &of("a", 3.0), "1")
        .await
        .is(200);
    bob.send(&desk.client, "POST", services, &of("b", 0.0), "1")
        .await
        .is(200);
    bob.send(&desk.client, "POST", services, &of("a", 0.0), "2")
        .await
        .is(409);
    bob.send(
        &desk.client,
        "DELETE",
        "/anp-registry/services/a",
        &Value::Null,
        "3",
    )
    .await
    .is(409);
    let reader = desk.client_of("eve", &[Scope::Read]);
    let found = reader
        .get(&format!("{services}?type=poet&capabilities=verse"))
        .await
        .is(200)
        .json();
    let ids: Vec<&Value> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|service| &service["id"])
        .collect();
    assert_eq!(ids, ["a", "b"]);
    let found = reader.get(&format!("{services}?type=poet&limit=1")).await;
    let found = found.is(200).json();
    assert_eq!(
        (found.as_array().unwrap().len(), &found[0]["id"]),
        (1, &json!("b"))
    );
    let best = reader
        .get("/anp-registry/best?type=poet")
        .await
        .is(200)
        .json();
    assert_eq!((&best["id"], &best["score"]), (&json!("b"), &json!(1.0)));
    assert!(text_at(&best, "/owner").contains("bob"));
    reader.get("/anp-registry/best?type=clerk").await.is(404);
    assert_eq!(
        reader.get("/anp-registry/statistics").await.is(200).json()["services"],
        2
    );
    bob.send(
        &desk.client,
        "DELETE",
        "/anp-registry/services/b",
        &Value::Null,
        "4",
    )
    .await
    .is(204);
    let best = reader.get("/anp-registry/best").await.is(200).json();
    assert_eq!(best["id"], "a");
    reader.post(services, of("c", 0.0)).await.is(403);
    ada.send(
        &desk.client,
        "POST",
        services,
        &json!({ "id": "", "type": "x" }),
        "5",
    )
    .await
    .is(422);
}
