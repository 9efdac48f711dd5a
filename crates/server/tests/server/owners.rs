//! Who may do what: every endpoint without a key, with too small a key, and with another's.

use ghostlight_server::axum::http::Method;
use ghostlight_server::{Access, Scope, Server};
use serde_json::json;

use crate::{
    client::Client,
    desk::{Desk, text_at},
};

/// What endpoints of A2A ask for, and others pass over.
const VERSION: &str = "A2A-Version: 1.0\r\n";

/// The path of an endpoint with its names filled in.
fn filled(path: &str, run: &str) -> String {
    let path = path
        .replace("{team}", "desk")
        .replace("{key}", "s")
        .replace("{run}", run);
    path.replace("{operation}", "0.0.0")
        .replace("{number}", "1")
        .replace("{place}", "0")
        .replace("{name}", "note.txt")
        .replace("{id}", &format!("resp_{run}"))
}

async fn ask(client: &Client, method: &Method, path: &str) -> crate::client::Answer {
    let body = json!({
        "text": "well", "turns": 1, "key": "k", "operation": "0.0.0", "value": true, "name": "n",
    });
    let body = (*method != Method::GET).then(|| body.to_string());
    client
        .request(method.as_str(), path, VERSION, body.as_deref())
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_endpoint_is_closed_without_a_key_and_with_one_that_lacks_its_scope() {
    let desk = Desk::locked().await;
    let ada = desk.client_of("ada", &[Scope::Read, Scope::Run]);
    let run = desk.begin(&ada, "s", "hang").await;
    let endpoints = Server::new(desk.system.clone()).endpoints();
    assert!(endpoints.len() > 30);
    for endpoint in endpoints {
        let path = filled(endpoint.path, &run);
        let none = ask(&desk.client, &endpoint.method, &path).await;
        let wrong = Client {
            key: Some("glk_000000000000_x".into()),
            ..desk.client.clone()
        };
        let wrong = ask(&wrong, &endpoint.method, &path).await;
        assert_eq!(wrong.status, 401, "{} {path}", endpoint.method);
        let Access::Needs(scope) = endpoint.access else {
            // What signs in wants a key in its body.
            let answers = matches!(none.status, 200 | 204 | 404 | 422);
            assert!(answers, "{path}: {none:?}");
            assert!(
                !path.starts_with("/api/") && !path.starts_with("/v1/"),
                "{path} is open"
            );
            continue;
        };
        assert_eq!(none.status, 401, "{} {path}", endpoint.method);
        assert!(none.headers.contains_key("www-authenticate"));
        let others: Vec<Scope> = Scope::ALL
            .into_iter()
            .filter(|other| *other != scope)
            .collect();
        // Keys with these scopes are of another kind.
        let others: Vec<Scope> = others
            .into_iter()
            .filter(|scope| !matches!(scope, Scope::Admin | Scope::Tenant))
            .collect();
        let lacking = desk.client_of("ada", &others);
        let lacking = ask(&lacking, &endpoint.method, &path).await;
        assert_eq!(
            lacking.status, 403,
            "{} {path}: {lacking:?}",
            endpoint.method
        );
    }
    let run = desk.client.get(&format!("/api/v1/runs/{run}")).await;
    assert_eq!(run.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_another_is_not_there_at_every_endpoint_that_names_it() {
    let desk = Desk::locked().await;
    let all = [Scope::Read, Scope::Run, Scope::Metrics];
    let (ada, eve) = (desk.client_of("ada", &all), desk.client_of("eve", &all));
    let run = desk.begin(&ada, "s", "ask what is your name?").await;
    let operation = loop {
        let open = ada.get("/api/v1/questions").await.is(200).json();
        if let Some(operation) = open.pointer("/0/operation") {
            break operation.as_str().unwrap().to_owned();
        }
    };
    let mut tried = 0;
    for endpoint in Server::new(desk.system.clone()).endpoints() {
        if endpoint.access == Access::Needs(Scope::Admin)
            || !endpoint.path.contains("{run}") && !endpoint.path.contains("{id}")
        {
            continue;
        }
        let path = filled(endpoint.path, &run).replace("0.0.0", &operation);
        let body = json!({ "operation": operation, "value": "Eve", "text": "x", "name": "n" });
        let body = (endpoint.method != Method::GET).then(|| body.to_string());
        // A body that another endpoint takes is wrong at some, and that too is told only to the owner.
        let body = match endpoint.path.rsplit('/').next() {
            Some("answers") => Some(json!({ "operation": operation, "value": "Eve" }).to_string()),
            Some("steer") => Some(json!({ "text": "x" }).to_string()),
            Some("tell") => Some(json!({ "name": "n", "value": 1 }).to_string()),
            Some("cancel" | "fork" | "retry") => None,
            _ => body,
        };
        let method = endpoint.method.as_str();
        let answer = eve.request(method, &path, VERSION, body.as_deref()).await;
        assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
        assert!(!answer.body.contains("your name"), "{answer:?}");
        tried += 1;
    }
    assert!(tried >= 9, "{tried}");
    assert_eq!(eve.get("/api/v1/questions").await.is(200).json(), json!([]));
    assert_eq!(
        eve.get("/api/v1/runs").await.is(200).json()["runs"],
        json!([])
    );
    assert_eq!(
        eve.get("/api/v1/sessions").await.is(200).json()["sessions"],
        json!([])
    );
    assert_eq!(
        eve.get("/api/v1/runs?all=true").await.is(200).json()["runs"],
        json!([])
    );
    // Nothing that eve tried had an effect.
    let path = format!("/api/v1/runs/{run}/answers");
    let answer = json!({ "operation": operation, "value": "Ada" });
    ada.post(&path, answer).await.is(202);
    let outcome = desk
        .system
        .run(run.parse().unwrap())
        .outcome()
        .await
        .unwrap();
    assert_eq!(outcome.text(), "answered \"Ada\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_subjects_that_name_one_session_have_one_each() {
    let desk = Desk::locked().await;
    let all = [Scope::Read, Scope::Run];
    let (ada, eve) = (desk.client_of("ada", &all), desk.client_of("eve", &all));
    desk.say(&ada, "s", "mine").await.is(200);
    desk.say(&eve, "s", "mine too").await.is(200);
    for (client, said) in [(&ada, "mine"), (&eve, "mine too")] {
        let log = client.get("/api/v1/sessions/desk/s").await.is(200).json();
        assert_eq!(log["turns"].as_array().unwrap().len(), 1);
        assert_eq!(text_at(&log, "/turns/0/said"), said);
    }
    // A key that looks like another's is one's own.
    desk.say(&eve, "..%2Fada%2Fs", "hers?").await.is(200);
    desk.say(&eve, "ada%2Fs", "hers?").await.is(200);
    let log = ada.get("/api/v1/sessions/desk/s").await.is(200).json();
    assert_eq!(log["turns"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_a_turn_is_given_to_its_owner_in_its_bytes() {
    let desk = Desk::locked().await;
    let all = [Scope::Read, Scope::Run];
    let (ada, eve) = (desk.client_of("ada", &all), desk.client_of("eve", &all));
    let dot = "iVBORw0KGgo=";
    let files = json!([
        { "media_type": "image/png", "url": "https://example.com/dot.png" },
        { "media_type": "image/png", "name": "dot.png", "base64": dot },
    ]);
    let turn = json!({ "text": "see", "files": files });
    let turns = "/api/v1/sessions/desk/s/turns";
    ada.post(&format!("{turns}?wait=10"), turn).await.is(200);
    let file = ada.get(&format!("{turns}/1/files/1")).await.is(200);
    assert_eq!(file.headers["content-type"], "image/png");
    assert_eq!(file.headers["content-length"], "8");
    assert_eq!(file.headers["content-disposition"], "attachment");
    assert_eq!(file.headers["x-content-type-options"], "nosniff");
    // A link has no bytes here, and nothing stands behind it, in another turn or with somebody else.
    for path in ["1/files/0", "1/files/2", "2/files/1", "0/files/0"] {
        ada.get(&format!("{turns}/{path}")).await.is(404);
    }
    eve.get(&format!("{turns}/1/files/1")).await.is(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_nobody_is_the_operators_alone() {
    let desk = Desk::locked().await;
    let run = desk
        .system
        .session("desk", "nobodys")
        .send("hang")
        .await
        .unwrap();
    let ada = desk.client_of("ada", &[Scope::Read, Scope::Run]);
    let path = format!("/api/v1/runs/{}", run.id());
    ada.get(&path).await.is(404);
    ada.request("POST", &format!("{path}/cancel"), "", None)
        .await
        .is(404);
    let operator = desk.client_of("root", &[Scope::Admin]);
    operator.get(&path).await.is(200);
    operator
        .request("POST", &format!("{path}/cancel"), "", None)
        .await
        .is(200);
    // The operator sees and cancels what is ada's, too.
    let hers = desk.begin(&ada, "s", "hang").await;
    let list = operator.get("/api/v1/runs?open=true").await.is(200).json();
    assert_eq!(text_at(&list, "/runs/0/session/key"), "ada/s");
    operator
        .request("POST", &format!("/api/v1/runs/{hers}/cancel"), "", None)
        .await
        .is(200);
}
