//! Keys of a file: made, used, revoked and over.

use std::time::Duration;

use ghostlight_server::{KeyFile, KeySpec, Scope};

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
            .contains("no file of keys")
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
    let secret = new.secret.rsplit('_').next().unwrap();
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
