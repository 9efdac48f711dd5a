//! Every route that the server can put on, as the router lists them: without credentials, with a wrong key, with the
//! key of another tenant or of its reader, which get nothing that belongs to the first, and with that of the tenant's own
//! reader, which gets everything and changes nothing. A route that the table does not know fails.

mod table;

use std::collections::BTreeSet;

use ghostlight_actors::{actor::SystemOptions, testing::InMemoryStore, vocabulary::Scope as State};
use ghostlight_server::{
    Access, Admitted, Endpoint, Identities, KeySpec, PageFile, Scope, Visibility,
    axum::{Extension, routing::post},
};
use serde_json::{Value, json};

use crate::{
    a2a::VERSION,
    a2a_grpc,
    client::Client,
    deliveries::deliveries,
    desk::{Desk, text_at},
    evaluations::evaluation,
    memories::remember,
};

use self::table::{Try, all, of_methods};

const PAGE: &[PageFile] = &[PageFile {
    path: "/",
    media_type: "text/html; charset=utf-8",
    content: "<!doctype html>",
}];

/// What the first tenant has when a route is tried: fresh things for each try.
struct Hers {
    session: String,
    run: String,
    operation: String,
    /// What she said.
    text: String,
    /// Her artifact.
    artifact: String,
}

impl Hers {
    /// A session with an artifact and a run that asks, a fact in her memory, a service, and a receiver of her run's news.
    async fn begin(desk: &Desk, ada: &Client, number: usize) -> Self {
        let session = format!("ledger-{number:03}");
        let text = format!("pay-{number:03}");
        desk.say(ada, &session, &format!("keep {text}"))
            .await
            .is(200);
        let run = desk
            .begin(ada, &session, &format!("ask is {text} right?"))
            .await;
        let questions = format!("/api/v1/runs/{run}/questions");
        let operation = loop {
            let open = ada.get(&questions).await.is(200).json();
            if let Some(operation) = open.pointer("/0/operation") {
                break operation.as_str().unwrap().to_owned();
            }
        };
        remember(desk, ("", State::User("acme:ada".to_owned())), &[&text]).await;
        let push = json!({ "url": "http://127.0.0.1:9/hear", "id": "r" });
        let at = format!("/a2a/desk/tasks/{run}/pushNotificationConfigs");
        ada.request("POST", &at, VERSION, Some(&push.to_string()))
            .await
            .is(200);
        let service = json!({ "id": format!("poet-{number:03}"), "type": "poet" });
        ada.post("/anp-registry/services", service).await.is(200);
        Self {
            session,
            run,
            operation,
            text,
            artifact: "note.txt".to_owned(),
        }
    }

    fn filled(&self, path: &str) -> String {
        let name = if path.starts_with("/api/v1/memories") {
            "memory"
        } else if path.starts_with("/api/v1/evaluations") {
            "polite"
        } else if path.starts_with("/hooks") {
            "mine"
        } else if path.starts_with("/messengers") {
            "chat"
        } else {
            &self.artifact
        };
        path.replace("{team}", "desk")
            .replace("{key}", &self.session)
            .replace("{run}", &self.run)
            .replace("{operation}", &self.operation)
            .replace("{name}", name)
            .replace("{number}", "1")
            .replace("{place}", "0")
            .replace("{id}", &format!("resp_{}", self.run))
            .replace("{service}", &self.text.replace("pay", "poet"))
            .replace("{receiver}", "r")
    }

    /// What of hers a text tells that the request did not say itself.
    fn told_in(&self, answer: &str, request: &str) -> Option<&str> {
        let run = &self.run[..8];
        let mut secrets = [run, &self.session, &self.text].into_iter();
        secrets.find(|secret| answer.contains(*secret) && !request.contains(*secret))
    }

    fn turns(log: &Value) -> usize {
        log["turns"].as_array().unwrap().len()
    }
}

/// A server with everything that it can have, and its routes.
async fn desk() -> (Desk, Vec<Endpoint>) {
    let mut endpoints = Vec::new();
    let desk = Desk::over(
        InMemoryStore::new(),
        SystemOptions::default(),
        |server, keys| {
            let none = |_| async { Err(std::io::Error::other("404")) };
            let tells = async |Extension(asked): Extension<Admitted>| {
                asked.subject().unwrap_or_default().to_owned()
            };
            let service = post(tells).get(tells).delete(tells);
            let server = server
                .keys(keys.clone())
                .identities(Identities::new(none).host("example.org", &[Scope::Read]))
                .deliveries(deliveries(&["127.0.0.1"]))
                .visibility("desk", Visibility::Internal)
                .team_schema(json!({}))
                .evaluation(evaluation())
                .page(PAGE)
                .service("/service", Scope::Run, service);
            endpoints = server.endpoints();
            server
        },
    );
    (desk.await, endpoints)
}

fn of_tenant(desk: &Desk, tenant: &str) -> Client {
    of(desk, tenant, &[Scope::Read, Scope::Run, Scope::Metrics])
}

fn reader_of(desk: &Desk, tenant: &str) -> Client {
    of(desk, tenant, &[Scope::Tenant])
}

fn of(desk: &Desk, tenant: &str, scopes: &[Scope]) -> Client {
    let mut spec = KeySpec::new("ada", scopes);
    spec.tenant = Some(tenant.to_owned());
    let key = Some(desk.keys.make(&spec).unwrap().secret);
    let to = desk.client.to;
    Client { to, key }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_of_the_router_keeps_what_is_a_tenants_from_everybody_else() {
    let (desk, endpoints) = desk().await;
    let [ada, other] = ["acme", "other"].map(|tenant| of_tenant(&desk, tenant));
    let [reader, strange] = ["acme", "other"].map(|tenant| reader_of(&desk, tenant));
    let operator = desk.client_of("root", &[Scope::Admin]);
    let wrong = Client {
        key: Some("glk_000000000000_x".into()),
        ..ada.clone()
    };
    let (mut wrongs, mut tried, mut told, mut read) = (Vec::new(), BTreeSet::new(), 0, 0);
    let mut hers = Hers::begin(&desk, &ada, 0).await;
    for number in 0.. {
        let Some(this) = all(&hers).into_iter().nth(number) else {
            break;
        };
        let Try { method, path, .. } = this;
        tried.insert((method.to_owned(), path.to_owned()));
        let named = this.key.as_ref().map(|key| path.replace("{key}", key));
        let at = hers.filled(named.as_deref().unwrap_or(path)) + &this.tail;
        let body = this.body.as_ref().map(Value::to_string);
        let sent = format!(
            "{at} {} {}",
            this.headers,
            body.as_deref().unwrap_or_default()
        );
        let endpoint = endpoints
            .iter()
            .find(|known| known.method == method && known.path == path);
        let Some(endpoint) = endpoint else {
            wrongs.push(format!("{method} {path} is no route of the server"));
            continue;
        };
        let is_operators = endpoint.access == Access::Needs(Scope::Admin);
        for (who, client, status) in [
            ("nobody", &desk.client, this.nobody),
            ("a wrong key", &wrong, this.wrong),
            ("the other", &other, this.theirs),
        ] {
            let answer = client
                .request(method, &at, &this.headers, body.as_deref())
                .await;
            if answer.status != status {
                wrongs.push(format!(
                    "{who}: {method} {at}: expected {status}: {answer:?}"
                ));
            }
            let whole = format!("{:?} {}", answer.headers, answer.body);
            if let Some(secret) = hers.told_in(&whole, &sent) {
                wrongs.push(format!("{who}: {method} {at} tells {secret}: {answer:?}"));
            }
        }
        // Readers of tenants name sessions by their whole keys.
        let whole = format!("acme:ada%2F{}", hers.session);
        let at_whole = named.clone().unwrap_or(path.replace("{key}", &whole));
        let at_whole = hers.filled(&at_whole) + &this.tail;
        let is_read = matches!(endpoint.access, Access::Public | Access::Needs(Scope::Read));
        let status = this.reader.unwrap_or(if is_read { this.hers } else { 403 });
        for (who, client) in [("the reader", &reader), ("another's reader", &strange)] {
            let answer = client
                .begun(method, &at_whole, &this.headers, body.as_deref())
                .await;
            let is_own = who == "the reader";
            let fits = match is_own || !is_read {
                true => answer.status == status,
                false => answer.status < 500,
            };
            if !fits {
                wrongs.push(format!(
                    "{who}: {method} {at_whole}: expected {status}: {answer:?}"
                ));
            }
            let sent = format!("{sent} {at_whole}");
            match hers.told_in(&format!("{:?} {}", answer.headers, answer.body), &sent) {
                Some(_) if is_own => read += 1,
                Some(secret) => wrongs.push(format!(
                    "{who}: {method} {at_whole} tells {secret}: {answer:?}"
                )),
                None => {}
            }
        }
        // Who only looks changes nothing, and the next may look at the same.
        let looks = method == "GET";
        let log = format!("/api/v1/sessions/desk/{}", hers.session);
        let log = ada.get(&log).await.is(200).json();
        let open = ada.get(&format!("/api/v1/runs/{}", hers.run)).await.json();
        if Hers::turns(&log) != 2 || open["run"]["status"] != "waiting" {
            wrongs.push(format!("{method} {at} changed what is hers: {log} {open}"));
        }
        // The same request is right when she sends it.
        let client = if is_operators { &operator } else { &ada };
        let answer = client
            .begun(method, &at, &this.headers, body.as_deref())
            .await;
        if answer.status != this.hers {
            wrongs.push(format!(
                "she: {method} {at}: expected {}: {answer:?}",
                this.hers
            ));
        }
        told += usize::from(hers.told_in(&answer.body, &sent).is_some());
        if looks {
            continue;
        }
        let cancel = format!("/api/v1/runs/{}/cancel", hers.run);
        ada.request("POST", &cancel, "", None).await;
        let service = hers.filled("/anp-registry/services/{service}");
        ada.request("DELETE", &service, "", None).await;
        hers = Hers::begin(&desk, &ada, number + 1).await;
    }
    for endpoint in &endpoints {
        let route = (endpoint.method.to_string(), endpoint.path.to_owned());
        if !tried.contains(&route) && !endpoint.path.ends_with("/{method}") {
            wrongs.push(format!("{} {} is not tried here", route.0, route.1));
        }
    }
    assert!(wrongs.is_empty(), "{}", wrongs.join("\n\n"));
    // The requests are such that an answer to the wrong caller would have been seen.
    assert!(told >= 20 && read >= 20, "{told} {read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_of_a2a_keeps_what_is_a_tenants_from_everybody_else() {
    let (desk, _) = desk().await;
    let [ada, other] = ["acme", "other"].map(|tenant| of_tenant(&desk, tenant));
    let reader = reader_of(&desk, "acme");
    let hers = Hers::begin(&desk, &ada, 0).await;
    let methods = of_methods(&hers);
    for method in ghostlight_a2a::protocol::Method::ALL {
        let tried = methods.iter().any(|(name, ..)| *name == method.name());
        assert!(tried, "{method:?} is not tried here");
    }
    for (method, params, refused) in methods {
        let sent = params.to_string();
        let body = json!({ "jsonrpc": "2.0", "id": "1", "method": method, "params": params });
        let (path, body) = ("/a2a/desk", body.to_string());
        let none = desk.client.request("POST", path, VERSION, Some(&body));
        assert_eq!(none.await.status, 401, "{method}");
        let answer = other.request("POST", path, VERSION, Some(&body));
        let answer = answer.await.is(200);
        assert!(answer.body.contains(refused), "{method} {answer:?}");
        assert_eq!(
            hers.told_in(&answer.body, &sent),
            None,
            "{method} {answer:?}"
        );

        // The reader of her tenant may look, and do nothing.
        let looks = ["Get", "List", "Subscribe"];
        if !looks.iter().any(|word| method.starts_with(word)) {
            let answer = reader.request("POST", path, VERSION, Some(&body));
            let answer = answer.await.is(200);
            let refusal = "the key lacks the scope run";
            assert!(answer.body.contains(refusal), "{method} {answer:?}");
        }

        let none = a2a_grpc::ask(&desk.client, method, params.clone()).await;
        let none = none.unwrap_err().code();
        assert_eq!(none, tonic::Code::Unauthenticated, "{method}");
        match a2a_grpc::ask(&other, method, params).await {
            Ok(answer) => {
                assert_eq!(refused, "", "{method} {answer}");
                assert_eq!(
                    hers.told_in(&answer.to_string(), &sent),
                    None,
                    "{method} {answer}"
                );
            }
            Err(status) => assert_eq!(a2a_grpc::reason(&status), refused, "{method}"),
        }
        let open = ada.get(&format!("/api/v1/runs/{}", hers.run)).await.json();
        assert_eq!(text_at(&open, "/run/status"), "waiting", "{method}");
    }
    // She has one receiver, as before.
    let pushes = format!("/a2a/desk/tasks/{}/pushNotificationConfigs", hers.run);
    let pushes = ada
        .request("GET", &pushes, VERSION, None)
        .await
        .is(200)
        .json();
    assert_eq!(pushes["configs"].as_array().unwrap().len(), 1, "{pushes}");
}
