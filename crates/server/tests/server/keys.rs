//! Keys of a file: made, used, revoked and over.

use std::time::Duration;

use ghostlight_actors::actor::SystemOptions;
use ghostlight_server::{KeyFile, KeySpec, Scope, ServerOptions};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    client::Client,
    desk::{Desk, text_at},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_key_opens_until_it_is_revoked_or_over_without_a_restart() {
    let desk = Desk::locked().await;
    let new = desk.keys.add("ada", &[Scope::Read], None).unwrap();
    let client = |key: &str| Client {
        key: Some(key.into()),
        ..desk.client.clone()
    };
    let ada = client(&new.secret);
    ada.get("/api/v1/runs").await.is(200);
    let over = desk
        .keys
        .add("ada", &[Scope::Read], Some(Duration::ZERO))
        .unwrap();
    client(&over.secret).get("/api/v1/runs").await.is(401);
    for wrong in [
        "",
        "x",
        "glk_",
        "glk__",
        &new.secret[..new.secret.len() - 1],
        &new.key.id,
    ] {
        client(wrong).get("/api/v1/runs").await.is(401);
    }
    let by_header = format!("x-api-key: {}\r\n", new.secret);
    desk.client
        .request("GET", "/api/v1/runs", &by_header, None)
        .await
        .is(200);
    // Two keys in one request are one too many.
    ada.request("GET", "/api/v1/runs", &by_header, None)
        .await
        .is(401);
    desk.keys.revoke(&new.key.id).unwrap();
    let mut status = 200;
    for _ in 0..100 {
        status = ada.get("/api/v1/runs").await.status;
        if status == 401 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(status, 401);
}

/// A stream may go on for days, so its key is judged again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_its_key_is_revoked_or_over() {
    let desk = Desk::start(SystemOptions::default(), |server, keys| {
        let mut limits = ServerOptions::default();
        limits.heartbeat = Duration::from_millis(50);
        server.keys(keys.clone()).options(limits)
    })
    .await;
    let scopes = [Scope::Read, Scope::Run];
    let client = |key: &str| Client {
        key: Some(key.into()),
        ..desk.client.clone()
    };
    let short = Some(Duration::from_secs(2));
    let [kept, revoked, over] = [None, None, short].map(|expires| {
        let key = desk.keys.add("ada", &scopes, expires);
        key.unwrap()
    });
    let [kept_client, revoked_client, over_client] =
        [&kept, &revoked, &over].map(|key| client(&key.secret));
    let run = desk.begin(&kept_client, "s", "hang").await;
    let path = format!("/api/v1/runs/{run}/events");
    let mut kept = kept_client.events(&path, None, None).await;
    kept.next().await.expect("the run's start");
    let mut revoked_events = revoked_client.events(&path, None, None).await;
    let mut over_events = over_client.events(&path, None, None).await;
    for events in [&mut revoked_events, &mut over_events] {
        events.next().await.expect("the run's start");
    }
    desk.keys.revoke(&revoked.key.id).unwrap();
    for mut events in [revoked_events, over_events] {
        let ended = async { while events.next().await.is_some() {} };
        timeout(Duration::from_secs(20), ended)
            .await
            .expect("an end");
    }
    // The others go on.
    let cancel = format!("/api/v1/runs/{run}/cancel");
    kept_client.post(&cancel, json!({})).await.is(200);
    let mut last = None;
    while let Some(event) = kept.next().await {
        last = Some(event.name);
    }
    assert_eq!(last.as_deref(), Some("run_ended"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_file_nobody_gets_in_and_a_damaged_one_opens_nothing() {
    let desk = Desk::locked().await;
    let key = Client {
        key: Some("glk_000000000000_x".into()),
        ..desk.client.clone()
    };
    key.get("/api/v1/runs").await.is(401);
    std::fs::write(desk.keys.path(), "{").unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    key.get("/api/v1/runs").await.is(500);
    assert!(
        desk.keys
            .list()
            .unwrap_err()
            .to_string()
            .contains("not a file of keys")
    );
    assert!(
        desk.keys.add("ada", &[Scope::Read], None).is_err(),
        "it would be lost"
    );
}

#[test]
fn a_file_holds_no_secret_and_is_its_owners() {
    let folder = std::env::temp_dir().join(format!("ghostlight-keys-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let keys = KeyFile::open(folder.join("keys.json"));
    let new = keys
        .add("ada", &[Scope::Run, Scope::Read, Scope::Run], None)
        .unwrap();
    let text = std::fs::read_to_string(keys.path()).unwrap();
    // Behind the prefix and the id; a secret may hold the same character.
    let secret = new.secret.splitn(3, '_').nth(2).unwrap();
    assert!(!text.contains(secret) && !format!("{new:?}").contains(secret));
    assert_eq!(keys.list().unwrap()[0].scopes, [Scope::Read, Scope::Run]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(keys.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    for wrong in ["", "a b", "a/b", "ä", &"x".repeat(65)] {
        assert!(keys.add(wrong, &[Scope::Read], None).is_err(), "{wrong}");
    }
    assert!(keys.add("ada", &[], None).is_err());
    let mut spec = KeySpec::new("ada", &[Scope::Read]);
    for wrong in ["", "a:b", "a/b", "ä"] {
        spec.tenant = Some(wrong.to_owned());
        assert!(keys.make(&spec).is_err(), "{wrong}");
    }
    let mut admin = KeySpec::new("ada", &[Scope::Admin]);
    admin.tenant = Some("acme".to_owned());
    assert!(keys.make(&admin).is_err(), "it sees all tenants");
    let mut reader = KeySpec::new("auditor", &[Scope::Tenant]);
    assert!(keys.make(&reader).is_err(), "of which tenant?");
    reader.tenant = Some("acme".to_owned());
    keys.make(&reader).unwrap();
    reader.scopes.push(Scope::Run);
    assert!(keys.make(&reader).is_err(), "it changes nothing");
    assert!(keys.revoke("none").is_err());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn keys_that_are_made_at_once_are_all_kept() {
    let folder = std::env::temp_dir().join(format!("ghostlight-keys-many-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let keys = KeyFile::open(folder.join("keys.json"));
    std::thread::scope(|scope| {
        for number in 0..8 {
            let keys = &keys;
            scope.spawn(move || {
                keys.add(&format!("s{number}"), &[Scope::Read], None)
                    .unwrap()
            });
        }
    });
    assert_eq!(keys.list().unwrap().len(), 8);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn subjects_of_one_name_in_two_tenants_see_nothing_of_each_other() {
    let desk = Desk::locked().await;
    let of = |tenant: Option<&str>| {
        let mut spec = KeySpec::new("ada", &[Scope::Read, Scope::Run]);
        spec.tenant = tenant.map(str::to_owned);
        Client {
            key: Some(desk.keys.make(&spec).unwrap().secret),
            ..desk.client.clone()
        }
    };
    let clients = [None, Some("acme"), Some("other")].map(of);
    let mut runs = Vec::new();
    for client in &clients {
        let said = desk.say(client, "s", "ask which?").await.is(202).json();
        runs.push(text_at(&said, "/run/id"));
    }
    for (number, client) in clients.iter().enumerate() {
        for (other, run) in runs.iter().enumerate() {
            let status = if other == number { 200 } else { 404 };
            client.get(&format!("/api/v1/runs/{run}")).await.is(status);
            let events = format!("/api/v1/runs/{run}/events");
            client.get(&events).await.is(status);
        }
        let seen = client.get("/api/v1/runs").await.is(200).json();
        assert_eq!(seen["runs"].as_array().unwrap().len(), 1, "{seen}");
        let asked = client.get("/api/v1/questions").await.is(200).json();
        assert_eq!(asked.as_array().unwrap().len(), 1, "{asked}");
    }
    // Of a key that was made with a tenant the file tells it; a file of an earlier version has none.
    let kept = desk.keys.list().unwrap();
    let owners: Vec<String> = kept.iter().rev().take(3).map(|key| key.owner()).collect();
    assert_eq!(owners, ["other:ada", "acme:ada", "ada"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reader_of_a_tenant_sees_all_of_its_subjects_and_nobody_else() {
    let desk = Desk::locked().await;
    let of = |subject: &str, tenant: Option<&str>, scopes: &[Scope]| {
        let mut spec = KeySpec::new(subject, scopes);
        spec.tenant = tenant.map(str::to_owned);
        let key = Some(desk.keys.make(&spec).unwrap().secret);
        let to = desk.client.to;
        Client { to, key }
    };
    let all = [Scope::Read, Scope::Run];
    let acme = [("ada", "one"), ("bob", "two")];
    for (subject, text) in acme {
        let client = of(subject, Some("acme"), &all);
        desk.say(&client, "s", &format!("keep {text}"))
            .await
            .is(200);
        desk.begin(&client, "s", &format!("ask {text}?")).await;
    }
    // A subject and a tenant whose names begin alike, and sessions of nobody whose keys look like the tenant's.
    for (subject, tenant) in [("acme", None), ("ada", Some("acme2")), ("ada", None)] {
        let client = of(subject, tenant, &all);
        desk.say(&client, "s", "keep strange").await.is(200);
        desk.begin(&client, "s", "ask strange?").await;
    }
    for key in ["acme:ada/x", "acme:x"] {
        let session = desk.system.session("desk", key);
        session.send("ask strange?").await.unwrap();
    }
    let reader = of("auditor", Some("acme"), &[Scope::Tenant]);
    let keys = ["acme:ada/s", "acme:bob/s"];
    let names = |found: &serde_json::Value, pointer: &str| {
        let found = found.as_array().unwrap().iter();
        let mut names: Vec<String> = found.map(|one| text_at(one, pointer)).collect();
        names.sort();
        names
    };
    // Page by page, of one each.
    let mut sessions = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("/api/v1/sessions?limit=1{after}");
        let page = reader.get(&path).await.is(200).json();
        sessions.extend(page["sessions"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else {
            break;
        };
        after = format!("&after={next}");
    }
    let sessions = serde_json::Value::from(sessions);
    assert_eq!(names(&sessions, "/session/key"), keys);
    assert_eq!(names(&sessions, "/owner"), ["acme:ada", "acme:bob"]);
    let runs = reader.get("/api/v1/runs?limit=3").await.is(200).json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 3);
    let next = text_at(&runs, "/next");
    let path = format!("/api/v1/runs?after={next}");
    let rest = reader.get(&path).await.is(200).json();
    assert_eq!(rest["runs"].as_array().unwrap().len(), 1, "{rest}");
    let bobs = reader
        .get("/api/v1/runs?owner=acme:bob")
        .await
        .is(200)
        .json();
    assert_eq!(names(&bobs["runs"], "/session/key"), [keys[1]; 2]);
    let strange = reader
        .get("/api/v1/runs?owner=acme2:ada")
        .await
        .is(200)
        .json();
    assert_eq!(strange["runs"], json!([]));
    let questions = reader.get("/api/v1/questions").await.is(200).json();
    assert_eq!(names(&questions, "/question/prompt"), ["one?", "two?"]);
    let budgets = reader.get("/api/v1/budgets").await.is(200).json();
    assert_eq!(names(&budgets, "/run/session/key"), keys);
    for (number, (subject, text)) in acme.into_iter().enumerate() {
        let session = format!("/api/v1/sessions/desk/acme:{subject}%2Fs");
        let log = reader.get(&session).await.is(200).json();
        assert_eq!(log["turns"].as_array().unwrap().len(), 2);
        let note = reader.get(&format!("{session}/artifacts/note.txt")).await;
        assert_eq!(note.is(200).body, text);
        let run = text_at(&budgets, &format!("/{}/run/id", 1 - number));
        let events = reader.get(&format!("/api/v1/runs/{run}/events")).await;
        assert!(events.is(200).body.contains(&format!("{text}?")));
    }
    for strange in [
        "acme%2Fs",
        "acme2:ada%2Fs",
        "ada%2Fs",
        "acme:ada%2Fx",
        "acme:x",
        "s",
    ] {
        let session = format!("/api/v1/sessions/desk/{strange}");
        for path in [
            "",
            "/messages",
            "/state",
            "/artifacts",
            "/artifacts/note.txt",
        ] {
            reader.get(&format!("{session}{path}")).await.is(404);
        }
    }
    let me = reader.get("/api/v1/me").await.is(200).json();
    assert_eq!(
        (&me["tenant"], &me["scopes"]),
        (&json!("acme"), &json!(["tenant"]))
    );
    let path = "/api/v1/sessions/desk/acme:ada%2Fs/turns";
    reader.post(path, json!({ "text": "mine" })).await.is(403);
}
