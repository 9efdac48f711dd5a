//! The JSON interface says turns, shows what became of them, and changes what is under way.

use ghostlight_actors::{actor::SystemOptions, vocabulary::Event};
use serde_json::{Value, json};

use crate::desk::{Desk, text_at};

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_said_and_waited_for_and_its_session_is_shown() {
    let desk = Desk::open().await;
    let said = desk.say(&desk.client, "s1", "well").await.is(200).json();
    assert_eq!(text_at(&said, "/end/answer"), "did well");
    assert_eq!(text_at(&said, "/run/status"), "answered");
    let run = text_at(&said, "/run/id");
    let shown = desk
        .client
        .get(&format!("/api/v1/runs/{run}"))
        .await
        .is(200)
        .json();
    assert_eq!(text_at(&shown, "/end/answer"), "did well");
    let log = desk
        .client
        .get("/api/v1/sessions/desk/s1")
        .await
        .is(200)
        .json();
    assert_eq!(text_at(&log, "/turns/0/said"), "well");
    assert_eq!(text_at(&log, "/turns/0/answer"), "did well");
    let messages = desk
        .client
        .get("/api/v1/sessions/desk/s1/messages")
        .await
        .is(200)
        .json();
    assert_eq!(messages.as_array().unwrap().len(), 2, "{messages}");
    let sessions = desk.client.get("/api/v1/sessions").await.is(200).json();
    assert_eq!(text_at(&sessions, "/sessions/0/session/key"), "s1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_waited_for_until_it_asks_or_ends() {
    let desk = Desk::open().await;
    let run = desk.begin(&desk.client, "s1", "twice").await;
    let path = format!("/api/v1/runs/{run}");
    for answer in ["one", "two"] {
        let asks = desk.client.get(&format!("{path}?wait=50")).await.is(200);
        let asks = asks.json();
        assert_eq!(asks["end"], json!(null));
        let operation = &asks["questions"][0]["operation"];
        let body = json!({ "operation": operation, "value": answer });
        let answers = format!("{path}/answers");
        desk.client.post(&answers, body).await.is(202);
    }
    let ended = desk.client.get(&format!("{path}?wait=50")).await.is(200);
    let answer = "\"one\" and \"two\"";
    assert_eq!(text_at(&ended.json(), "/end/answer"), answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_what_is_shown_of_runs_and_sessions() {
    let desk = Desk::open().await;
    let (client, secrets) = (&desk.client, ["abcdefghijklmnop1234", "swordfish"]);
    let text = "use sk-proj-abcdefghijklmnop1234, password: swordfish";
    let said = desk.say(client, "s", text).await.is(200).json();
    assert!(
        text_at(&said, "/end/answer").contains("swordfish"),
        "the answer is for who asked: {said}"
    );
    assert!(
        !text_at(&said, "/run/title").contains("swordfish"),
        "{said}"
    );
    let run = text_at(&said, "/run/id");
    for path in [
        "/api/v1/runs".to_owned(),
        format!("/api/v1/runs/{run}/tree"),
        format!("/api/v1/runs/{run}/entries"),
        format!("/api/v1/runs/{run}/definition"),
        format!("/api/v1/runs/{run}/events"),
        "/api/v1/sessions".to_owned(),
        "/api/v1/sessions/desk/s".to_owned(),
        "/api/v1/sessions/desk/s/messages".to_owned(),
    ] {
        let shown = client.get(&path).await.is(200).json().to_string();
        for secret in secrets {
            assert!(!shown.contains(secret), "{path}: {shown}");
        }
    }
    let path = format!("/api/v1/runs/{run}/events");
    let accept = "Accept: text/event-stream\r\n";
    let streamed = client.request("GET", &path, accept, None).await.is(200);
    let streamed = format!("{streamed:?}");
    assert!(streamed.contains("run_ended"), "{streamed}");
    for secret in secrets {
        assert!(!streamed.contains(secret), "{streamed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_sent_again_under_its_id_is_one_run() {
    let desk = Desk::open().await;
    let path = "/api/v1/sessions/desk/s/turns?wait=50";
    let body = json!({ "text": "well" }).to_string();
    let key = "Idempotency-Key: once\r\n";
    let mut runs = Vec::new();
    for _ in 0..3 {
        let said = desk
            .client
            .request("POST", path, key, Some(&body))
            .await
            .is(200)
            .json();
        runs.push(text_at(&said, "/run/id"));
    }
    runs.dedup();
    assert_eq!(runs.len(), 1);
    let other = json!({ "text": "something else" }).to_string();
    let refused = desk.client.request("POST", path, key, Some(&other));
    let detail = text_at(&refused.await.is(422).json(), "/detail");
    assert!(detail.contains("with another message"), "{detail}");
    let both = json!({ "text": "well", "id": "other" }).to_string();
    desk.client
        .request("POST", path, key, Some(&both))
        .await
        .is(422);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_asks_is_answered_and_goes_on() {
    let desk = Desk::open().await;
    let said = desk
        .say(&desk.client, "s", "choose red blue")
        .await
        .is(202)
        .json();
    let operation = text_at(&said, "/questions/0/operation");
    let run = text_at(&said, "/run/id");
    let all = desk.client.get("/api/v1/questions").await.is(200).json();
    assert_eq!(text_at(&all, "/0/run"), run);
    let path = format!("/api/v1/runs/{run}/answers");
    let answer = |value: Value| json!({ "operation": operation, "value": value });
    desk.client
        .post(&path, answer(json!("green")))
        .await
        .is(422);
    desk.client
        .post(&path, json!({ "operation": "0.0.99", "value": 1 }))
        .await
        .is(409);
    desk.client.post(&path, answer(json!("blue"))).await.is(202);
    let run = desk.system.run(run.parse().unwrap());
    assert_eq!(run.outcome().await.unwrap().text(), "chose \"blue\"");
    let all = desk.client.get("/api/v1/questions").await.is(200).json();
    assert_eq!(all, json!([]));
    // A later answer changes nothing, and says so.
    desk.client.post(&path, answer(json!("red"))).await.is(409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_is_a_cancel_and_two_are_one() {
    let desk = Desk::open().await;
    let run = desk.begin(&desk.client, "s", "hang").await;
    let path = format!("/api/v1/runs/{run}/cancel");
    let first = desk
        .client
        .request("POST", &path, "", None)
        .await
        .is(200)
        .json();
    assert_eq!(first, json!({ "cancelled": true }));
    let handle = desk.system.run(run.parse().unwrap());
    let outcome = handle.outcome().await.unwrap();
    assert!(outcome.stop_reason().is_some(), "{outcome:?}");
    let again = desk
        .client
        .post(&path, json!({ "reason": "again" }))
        .await
        .is(200)
        .json();
    assert_eq!(again, json!({ "cancelled": false }));
    let shown = desk
        .client
        .get(&format!("/api/v1/runs/{run}"))
        .await
        .is(200)
        .json();
    assert_eq!(text_at(&shown, "/run/status"), "cancelled");
    let steer = format!("/api/v1/runs/{run}/steer");
    desk.client
        .post(&steer, json!({ "text": "go on" }))
        .await
        .is(409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_is_told_as_its_end_and_is_no_failure_of_the_request() {
    let desk = Desk::open().await;
    let said = desk
        .say(&desk.client, "s", "fail on purpose")
        .await
        .is(200)
        .json();
    assert!(
        text_at(&said, "/end/error").contains("on purpose"),
        "{said}"
    );
    assert_eq!(text_at(&said, "/run/status"), "failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_forked_and_a_session_forked_and_rewound() {
    let desk = Desk::open().await;
    let said = desk.say(&desk.client, "s", "one").await.is(200).json();
    desk.say(&desk.client, "s", "two").await.is(200);
    let run = text_at(&said, "/run/id");
    let body = json!({ "at": 1, "input": "three", "session": "forked" });
    let forked = desk
        .client
        .post(&format!("/api/v1/runs/{run}/fork"), body)
        .await
        .is(200)
        .json();
    let forked = desk.system.run(text_at(&forked, "/id").parse().unwrap());
    assert_eq!(forked.outcome().await.unwrap().text(), "did three");
    let path = "/api/v1/sessions/desk/s";
    let body = json!({ "turns": 1, "key": "branched" });
    desk.client
        .post(&format!("{path}/fork"), body)
        .await
        .is(200);
    let log = desk
        .client
        .get("/api/v1/sessions/desk/branched")
        .await
        .is(200)
        .json();
    assert_eq!(log["turns"].as_array().unwrap().len(), 1);
    let log = desk
        .client
        .post(&format!("{path}/rewind"), json!({ "turns": 1 }))
        .await
        .is(200);
    assert_eq!(log.json()["turns"].as_array().unwrap().len(), 1);
    desk.client
        .post(&format!("{path}/rewind"), json!({ "turns": 9 }))
        .await
        .is(422);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_in_pages_by_status_team_and_session() {
    let desk = Desk::open().await;
    for number in 0..5 {
        desk.say(&desk.client, &format!("s{number}"), "well")
            .await
            .is(200);
    }
    let hanging = desk.begin(&desk.client, "h", "hang").await;
    let (mut seen, mut next) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/v1/runs?team=desk&status=answered&limit=2{next}");
        let page = desk.client.get(&path).await.is(200).json();
        seen.extend(
            page["runs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|run| text_at(run, "/session/key")),
        );
        match page["next"].as_str() {
            Some(after) => next = format!("&after={after}"),
            None => break,
        }
    }
    assert_eq!(seen, ["s4", "s3", "s2", "s1", "s0"]);
    let open = desk
        .client
        .get("/api/v1/runs?open=true")
        .await
        .is(200)
        .json();
    assert_eq!(open["runs"].as_array().unwrap().len(), 1);
    assert_eq!(text_at(&open, "/runs/0/id"), hanging);
    let of = desk
        .client
        .get("/api/v1/runs?team=desk&session=s3")
        .await
        .is(200)
        .json();
    assert_eq!(of["runs"].as_array().unwrap().len(), 1);
    desk.client.get("/api/v1/runs?status=asleep").await.is(422);
    desk.client
        .get("/api/v1/runs?stauts=answered")
        .await
        .is(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_shows_its_runs_and_the_events_of_each() {
    let desk = Desk::open().await;
    let said = desk
        .say(&desk.client, "s", "delegate well")
        .await
        .is(200)
        .json();
    let run = text_at(&said, "/run/id");
    let tree = desk
        .client
        .get(&format!("/api/v1/runs/{run}/tree"))
        .await
        .is(200)
        .json();
    assert_eq!(tree.as_array().unwrap().len(), 2, "{tree}");
    let child = text_at(&tree, "/1/id");
    assert_eq!(text_at(&tree, "/1/parent"), run);
    let page = desk
        .client
        .get(&format!("/api/v1/runs/{child}/events"))
        .await
        .is(200)
        .json();
    let events = page["events"].as_array().unwrap();
    assert!(
        events.iter().all(|event| text_at(event, "/run") == child),
        "{page}"
    );
    assert_eq!(text_at(events.last().unwrap(), "/type"), "run_ended");
    let entries = desk
        .client
        .get(&format!("/api/v1/runs/{run}/entries"))
        .await
        .is(200)
        .json();
    assert!(entries.as_array().unwrap().len() >= 3, "{entries}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_is_kept_by_a_browser_and_not_run() {
    let desk = Desk::open().await;
    desk.say(&desk.client, "s", "keep <script>alert(1)</script>")
        .await
        .is(200);
    let path = "/api/v1/sessions/desk/s/artifacts";
    let list = desk.client.get(path).await.is(200).json();
    assert_eq!(text_at(&list, "/0/name"), "note.txt");
    let note = desk.client.get(&format!("{path}/note.txt")).await.is(200);
    assert_eq!(note.body, "<script>alert(1)</script>");
    assert_eq!(note.headers["content-disposition"], "attachment");
    assert_eq!(note.headers["x-content-type-options"], "nosniff");
    assert!(note.headers["content-security-policy"].starts_with("sandbox"));
    desk.client.get(&format!("{path}/other.txt")).await.is(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_is_refused_with_the_time_to_try_again() {
    let mut limits = SystemOptions::default();
    limits.max_live_runs = 1;
    let desk = Desk::start(limits, |server, _| server).await;
    desk.begin(&desk.client, "s", "hang").await;
    let refused = desk.say(&desk.client, "t", "well").await.is(503);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(
        text_at(&refused.json(), "/type"),
        "urn:ghostlight:problem:overloaded"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_of_the_interface_has_every_endpoint_and_is_made_of_the_code() {
    let desk = Desk::open().await;
    let document = desk.client.get("/openapi.json").await.is(200).json();
    let server = ghostlight_server::Server::new(desk.system.clone());
    for endpoint in server.endpoints() {
        let method = endpoint.method.as_str().to_ascii_lowercase();
        let operation = &document["paths"][endpoint.path][&method];
        assert_eq!(
            text_at(operation, "/summary"),
            endpoint.summary,
            "{}",
            endpoint.path
        );
    }
    let body = "/paths/~1api~1v1~1sessions~1{team}~1{key}~1turns/post/requestBody/content/application~1json/schema/$ref";
    let name = text_at(&document, body);
    let schema = &document.pointer(&name[1..]).unwrap()["properties"];
    assert!(schema.get("dry_run").is_some(), "{schema}");
    let text = document.to_string();
    for found in text.split(r##""$ref":"#"##).skip(1) {
        let place = found.split('"').next().unwrap();
        assert!(document.pointer(place).is_some(), "nothing is at {place}");
    }
    let errors = |path: &str| &document["paths"][path]["post"]["responses"]["default"]["content"];
    let client = &desk.client;
    for path in ["/v1/chat/completions", "/api/v1/quotas/reset"] {
        let refused = client.post(path, json!({ "model": 1 })).await;
        assert!((400..500).contains(&refused.status), "{refused:?}");
        let form = refused.headers["content-type"].clone();
        assert!(errors(path).get(&form).is_some(), "{path}: {form}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_says_how_it_is_and_what_it_counted() {
    let desk = Desk::open().await;
    let health = desk.client.get("/health").await.is(200).json();
    let open = json!({ "required": false, "by": [] });
    assert_eq!(health, json!({ "status": "ok", "auth": open }));
    let locked = Desk::locked().await;
    let health = locked.client.get("/health").await.is(200).json();
    let by_key = json!({ "required": true, "by": ["api_key"] });
    assert_eq!(health, json!({ "status": "ok", "auth": by_key }));
    desk.client.get("/ready").await.is(200);
    desk.client.get("/nowhere").await.is(404);
    desk.client
        .request("DELETE", "/health", "", None)
        .await
        .is(405);
    let metrics = desk.client.get("/metrics").await.is(200);
    let counted = "ghostlight_http_request_duration_seconds_count{method=\"GET\",route=\"/health\",status=\"200\"} 1";
    assert!(metrics.body.contains(counted), "{}", metrics.body);
    let teams = desk.client.get("/api/v1/teams").await.is(200).json();
    assert_eq!(text_at(&teams, "/0/name"), "desk");
    assert!(text_at(&teams, "/0/mermaid").contains("helper"));
    assert_eq!(
        teams.as_array().unwrap().len(),
        1,
        "a private team is not there"
    );
    desk.client.get("/api/v1/teams/secret").await.is(404);
    desk.client
        .post("/api/v1/sessions/secret/s/turns", json!({ "text": "x" }))
        .await
        .is(404);
    let tree = desk.client.get("/api/v1/supervision").await.is(200).json();
    assert!(!tree.as_array().unwrap().is_empty());
}

#[test]
fn names_of_events_are_names_of_server_sent_events() {
    for name in Event::NAMES {
        assert!(
            name.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_found_by_text_agent_and_time() {
    let desk = Desk::open().await;
    desk.say(&desk.client, "garden", "plant Tulips").await;
    desk.say(&desk.client, "s", "delegate water the roses")
        .await;
    let found = async |query: &str| {
        let page = desk.client.get(&format!("/api/v1/runs?{query}")).await;
        let page = page.is(200).json();
        page["runs"].as_array().unwrap().len()
    };
    assert_eq!(found("text=tulips").await, 1);
    assert_eq!(found("text=GARDEN").await, 1);
    assert_eq!(found("text=roses").await, 1);
    assert_eq!(found("text=roses&all=true").await, 2);
    assert_eq!(found("text=nothing").await, 0);
    assert_eq!(found("agent=helper").await, 0);
    assert_eq!(found("agent=helper&all=true").await, 1);
    assert_eq!(found("since=1").await, 2);
    assert_eq!(found("before=1").await, 0);
    assert_eq!(found("since=99999999999999").await, 0);
    let all = desk.client.get("/api/v1/runs").await.json();
    let begins = &text_at(&all, "/runs/0/id")[..6];
    assert_eq!(found(&format!("text={begins}")).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_says_where_it_comes_from_and_a_run_can_be_resumed() {
    let desk = Desk::open().await;
    let said = desk.say(&desk.client, "s", "well").await.is(200).json();
    let run = text_at(&said, "/run/id");
    let body = json!({ "at": 1, "input": "better" });
    let forked = desk
        .client
        .post(&format!("/api/v1/runs/{run}/fork"), body)
        .await;
    let forked = text_at(&forked.is(200).json(), "/id");
    let shown = desk
        .client
        .get(&format!("/api/v1/runs/{forked}"))
        .await
        .json();
    assert_eq!(text_at(&shown, "/forked/run"), run);
    assert_eq!(text_at(&shown, "/forked/at"), "1");
    let shown = desk.client.get(&format!("/api/v1/runs/{run}")).await.json();
    assert!(shown["forked"].is_null());
    // A run that goes on is left as it is; so is one that has ended.
    for run in [desk.begin(&desk.client, "t", "hang").await, run] {
        let path = format!("/api/v1/runs/{run}/resume");
        desk.client.request("POST", &path, "", None).await.is(202);
    }
}
