//! Quotas: how many turns and tokens, for whom, over restarts and processes.

use std::time::{Duration, Instant};

use ghostlight_actors::{
    actor::{System, SystemOptions},
    run::{Agent, RunContext},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{AgentError, ModelResponse, Outcome, Usage},
};
use ghostlight_server::{KeyFile, KeySpec, Quota, QuotaFor, Scope, Server};
use serde_json::json;
use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    client::{Answer, Client, PATIENCE},
    desk::{self, Desk, text_at},
};

const ALL: [Scope; 2] = [Scope::Read, Scope::Run];

pub(crate) fn quota(text: &str) -> Quota {
    text.parse().unwrap()
}

/// A server without keys over this System, which lasts as long as the test.
pub(crate) async fn served(system: System, set_up: impl FnOnce(Server) -> Server) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let server = set_up(Server::new(system));
    tokio::spawn(server.serve(listener, std::future::pending::<()>()));
    Client { to, key: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_callers_at_once_over_two_processes_as_many_as_allowed_are_let_in() {
    let store = InMemoryStore::new();
    let rule = |server: Server| server.quota(QuotaFor::Team, quota("10/1h"));
    let one = desk::system(store.clone(), SystemOptions::default()).await;
    let two = desk::system(store.another_process(), SystemOptions::default()).await;
    let clients = [served(one, rule).await, served(two, rule).await];
    let mut callers = JoinSet::new();
    for number in 0..100 {
        let client = clients[number % 2].clone();
        let path = format!("/api/v1/sessions/desk/s{number}/turns");
        callers.spawn(async move { client.post(&path, json!({ "text": "well" })).await });
    }
    let mut let_in = 0;
    while let Some(answer) = callers.join_next().await {
        let answer = answer.unwrap();
        match answer.status {
            202 => let_in += 1,
            429 => {
                let seconds: u64 = answer.headers["retry-after"].parse().unwrap();
                assert!((1..=360).contains(&seconds), "{answer:?}");
                assert_eq!(text_at(&answer.json(), "/status"), "429");
            }
            _ => panic!("{answer:?}"),
        }
    }
    assert_eq!(let_in, 10);
    // Another life of the program knows it.
    let three = desk::system(store.another_process(), SystemOptions::default()).await;
    let client = served(three, rule).await;
    let path = "/api/v1/sessions/desk/t/turns";
    let refused = client.post(path, json!({ "text": "x" })).await;
    assert_eq!(
        refused.is(429).headers["ratelimit-policy"],
        "\"turns\";q=10;w=3600"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_sent_again_costs_nothing_and_what_is_refused_takes_nothing() {
    let desk = Desk::start(SystemOptions::default(), |server, keys| {
        let server = server.quota(QuotaFor::Subject, quota("3/1h"));
        server.keys(keys.clone())
    })
    .await;
    let ada = desk.client_of("ada", &ALL);
    let path = "/api/v1/sessions/desk/s/turns?wait=50";
    let body = json!({ "text": "well", "id": "one" });
    for _ in 0..5 {
        let said = ada.post(path, body.clone()).await.is(200);
        let left = said.headers.get("ratelimit").cloned();
        assert!(left.is_none_or(|left| left.starts_with("\"turns\";r=2;t=")));
    }
    // A turn that is refused, since a question is open, is given back.
    desk.say(&ada, "asks", "ask what?").await.is(202);
    for _ in 0..5 {
        desk.say(&ada, "asks", "well").await.is(409);
    }
    let me = ada.get("/api/v1/me").await.is(200).json();
    assert_eq!(text_at(&me, "/quotas/0/left"), "1", "{me}");
    // A fork is a run, too.
    let runs = ada
        .get("/api/v1/runs?team=desk&session=s")
        .await
        .is(200)
        .json();
    let run = text_at(&runs, "/runs/0/id");
    let fork = format!("/api/v1/runs/{run}/fork");
    ada.post(&fork, json!({})).await.is(200);
    ada.post(&fork, json!({})).await.is(429);
    desk.say(&ada, "s", "more").await.is(429);
    // Another subject has its own.
    desk.say(&desk.client_of("eve", &ALL), "s", "well")
        .await
        .is(200);
    desk.say(&desk.client_of("root", &[Scope::Admin]), "s", "well")
        .await
        .is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_interface_keeps_to_the_quota_of_a_key_and_says_so_in_its_form() {
    let desk = Desk::locked().await;
    let mut spec = KeySpec::new("ada", &ALL);
    spec.quotas.push(quota("2/1h"));
    let key = desk.keys.make(&spec).unwrap();
    let ada = Client {
        key: Some(key.secret),
        ..desk.client.clone()
    };
    let messages = json!([{ "role": "user", "content": "well" }]);
    let chat = json!({ "model": "desk", "max_tokens": 9, "messages": messages });
    let said = ada.post("/v1/chat/completions", chat.clone()).await.is(200);
    assert!(said.headers["ratelimit"].starts_with("\"turns\";r=1;t="));
    ada.post("/v1/messages", chat.clone()).await.is(200);
    for path in ["/v1/chat/completions", "/v1/messages"] {
        let refused = ada.post(path, chat.clone()).await.is(429);
        assert_eq!(text_at(&refused.json(), "/error/type"), "rate_limit_error");
        assert!(refused.headers["retry-after"].parse::<u64>().unwrap() > 1);
        assert!(refused.headers["ratelimit"].starts_with("\"turns\";r=0;t="));
    }
    let response = json!({ "model": "desk", "input": "well" });
    ada.post("/v1/responses", response).await.is(429);
    #[cfg(feature = "a2a")]
    {
        let part = json!([{ "text": "well" }]);
        let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": part });
        let body = json!({ "message": message }).to_string();
        let version = "A2A-Version: 1.0\r\n";
        let path = "/a2a/desk/message:send";
        let refused = ada.request("POST", path, version, Some(&body)).await;
        assert!(refused.is(503).headers.contains_key("retry-after"));
    }
    // Another key of the same subject has its own.
    desk.say(&desk.client_of("ada", &ALL), "s", "well")
        .await
        .is(200);
}

/// Calls its model once.
async fn call(cx: RunContext) -> Result<Outcome, AgentError> {
    if cx.input().content() == "ask" {
        cx.ask("go on?").await?;
    }
    cx.model(cx.model_request(cx.conversation())).await?;
    Ok(Outcome::answer("done"))
}

/// A System each of whose turns consumes so many tokens.
async fn consuming(store: InMemoryStore, tokens: u64) -> System {
    using(store, tokens, 0).await
}

/// A System each of whose turns consumes so many tokens and so much money.
async fn using(store: InMemoryStore, output_tokens: u64, cost_micros: u64) -> System {
    let usage = Usage {
        output_tokens,
        cost_micros,
        ..Usage::default()
    };
    let model = ScriptedModel::from_fn(|_, _| Ok(ModelResponse::text("done"))).usage(usage);
    let agent = Agent::from_fn("desk", call).model(model);
    let system = System::builder(store).team(agent.into_team().unwrap());
    system.start().await.unwrap()
}

async fn say(client: &Client, session: &str, text: &str) -> Answer {
    let path = format!("/api/v1/sessions/desk/{session}/turns?wait=50");
    client.post(&path, json!({ "text": text })).await
}

/// Says a turn again and again until it is let in, and tells how many tokens were left then.
async fn let_in(client: &Client, session: &str) -> u64 {
    let began = Instant::now();
    loop {
        let answer = say(client, session, "well").await;
        if answer.status == 200 {
            let told = &answer.headers["ratelimit"];
            let left = told.strip_prefix("\"tokens\";r=").unwrap();
            return left.split(';').next().unwrap().parse().unwrap();
        }
        assert_eq!(answer.status, 429, "{answer:?}");
        assert!(began.elapsed() < PATIENCE, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_reserved_and_settled_by_whoever_looks_next_where_the_process_died() {
    let store = InMemoryStore::new();
    let rule = |server: Server| server.quota(QuotaFor::Team, quota("10000tokens/31d"));
    let client = served(consuming(store.clone(), 100).await, rule).await;
    let asks = say(&client, "a", "ask").await.is(202).json();
    say(&client, "b", "ask").await.is(202);
    say(&client, "c", "well").await.is(429);
    store.crash();
    let store = store.another_process();
    let client = served(consuming(store, 100).await, rule).await;
    say(&client, "c", "well").await.is(429);
    let run = text_at(&asks, "/run/id");
    let operation = text_at(&asks, "/questions/0/operation");
    let answer = json!({ "operation": operation, "value": "yes" });
    let answers = format!("/api/v1/runs/{run}/answers");
    client.post(&answers, answer).await.is(202);
    // That of `a` is settled by the first who is refused, and `b` still asks.
    assert_eq!(let_in(&client, "c").await, 10_000 - 100 - 4_096 - 4_096);
    // That of `c` is settled when its run has ended.
    assert_eq!(
        let_in(&client, "d").await,
        10_000 - 100 - 100 - 4_096 - 4_096
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_consumed_more_than_it_reserved_is_paid_before_the_next() {
    let rule = |server: Server| server.quota(QuotaFor::Team, quota("10000tokens/10h"));
    let client = served(consuming(InMemoryStore::new(), 20_000).await, rule).await;
    assert_eq!(let_in(&client, "a").await, 10_000 - 4_096);
    let began = Instant::now();
    let refused = loop {
        let path = "/api/v1/sessions/desk/b/turns";
        let body = json!({ "text": "well", "budget": { "tokens": 10_000 } });
        let refused = client.post(path, body).await.is(429);
        let seconds: u64 = refused.headers["retry-after"].parse().unwrap();
        // Until it is settled only what it reserved is missing.
        if seconds > 36_000 {
            break seconds;
        }
        assert!(began.elapsed() < PATIENCE, "{refused:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!((71_900..=72_000).contains(&refused), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn money_is_reserved_by_the_budget_settled_at_the_end_and_bounds_all_of_a_tenant() {
    let store = InMemoryStore::new();
    let folder = std::env::temp_dir().join(format!("ghostlight-money-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let keys = KeyFile::open(folder.join("keys.json"));
    let key = |tenant: Option<&str>, subject: &str| {
        let mut spec = KeySpec::new(subject, &ALL);
        spec.tenant = tenant.map(str::to_owned);
        Some(keys.make(&spec).unwrap().secret)
    };
    let (ada, bob) = (key(Some("acme"), "ada"), key(Some("acme"), "bob"));
    let (eve, none) = (key(Some("other"), "ada"), key(None, "ada"));
    let rule = |server: Server| {
        let server = server.quota(QuotaFor::Tenant, quota("1cost/31d"));
        server.keys(keys.clone())
    };
    // Each turn costs 0.3, which nobody knows before.
    let client = served(using(store.clone(), 1, 300_000).await, rule).await;
    let with = |client: &Client, key: &Option<_>| Client {
        key: key.clone(),
        ..client.clone()
    };
    let budget = json!({ "text": "ask", "budget": { "cost_micros": 600_000 } });
    let path = "/api/v1/sessions/desk/a/turns?wait=50";
    let asks = with(&client, &ada).post(path, budget.clone()).await;
    let asks = asks.is(202).json();
    // 0.4 are left for the tenant, whoever of it asks.
    let refused = with(&client, &bob).post(path, budget.clone()).await;
    let refused = refused.is(429);
    let seconds: u64 = refused.headers["retry-after"].parse().unwrap();
    // A fifth of it is missing, which comes back in a fifth of the window.
    assert!((535_600..=535_700).contains(&seconds), "{seconds}");
    assert_eq!(
        refused.headers["ratelimit-policy"],
        "\"cost\";q=1000000;w=2678400"
    );
    let problem = refused.json();
    assert_eq!(text_at(&problem, "/status"), "429");
    let detail = text_at(&problem, "/detail");
    assert!(detail.starts_with("1 cost within"), "{detail}");
    for other in [&eve, &none] {
        with(&client, other)
            .post(path, budget.clone())
            .await
            .is(202);
    }
    // Another life of the program knows it, and settles it: 0.3 were used of the 0.6.
    store.crash();
    let store = store.another_process();
    let client = served(using(store, 1, 300_000).await, rule).await;
    let (ada, bob) = (with(&client, &ada), with(&client, &bob));
    bob.post(path, budget.clone()).await.is(429);
    let me = bob.get("/api/v1/me").await.is(200).json();
    assert_eq!(text_at(&me, "/tenant"), "acme");
    assert_eq!(text_at(&me, "/quotas/0/quota"), "1cost/2678400s");
    let left: u64 = text_at(&me, "/quotas/0/left").parse().unwrap();
    assert!((400_000..400_100).contains(&left), "{me}");
    let answer = json!({ "operation": text_at(&asks, "/questions/0/operation"), "value": "yes" });
    let answers = format!("/api/v1/runs/{}/answers", text_at(&asks, "/run/id"));
    ada.post(&answers, answer).await.is(202);
    let path = "/api/v1/sessions/desk/b/turns?wait=50";
    let budget = json!({ "text": "well", "budget": { "cost_micros": 600_000 } });
    let began = Instant::now();
    let told = loop {
        let answer = bob.post(path, budget.clone()).await;
        match answer.status {
            200 => break answer.headers["ratelimit"].clone(),
            status => assert_eq!(status, 429, "{answer:?}"),
        }
        assert!(began.elapsed() < PATIENCE, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(told.starts_with("\"cost\";r=100"), "{told}");
    // Without a budget a turn reserves a hundredth of the currency.
    let path = "/api/v1/sessions/desk/c/turns";
    let said = ada.post(path, json!({ "text": "ask" })).await.is(202);
    let told = &said.headers["ratelimit"];
    let left = told.strip_prefix("\"cost\";r=").unwrap().split(';').next();
    let left: u64 = left.unwrap().parse().unwrap();
    assert!([90, 390].contains(&(left / 1_000)), "{told}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_quota_that_bounds_nobody_does_not_start() {
    let system = crate::desk::system(InMemoryStore::new(), SystemOptions::default()).await;
    let server = Server::new(system).quota(QuotaFor::Tenant, quota("1/1h"));
    let error = server.check().unwrap_err().to_string();
    assert!(error.contains("no caller has a tenant"), "{error}");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let served = server.serve(listener, std::future::pending::<()>()).await;
    assert_eq!(served.unwrap_err().to_string(), error);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_sent_many_times_at_once_to_two_servers_is_one_run_and_counts_once() {
    let store = InMemoryStore::new();
    let rule = |server: Server| {
        let server = server.quota(QuotaFor::Team, quota("5/31d"));
        server.quota(QuotaFor::Team, quota("100000tokens/31d"))
    };
    let other = store.another_process();
    let first = served(consuming(store, 100).await, rule).await;
    let second = served(consuming(other, 100).await, rule).await;
    let mut sending = JoinSet::new();
    for number in 0..20 {
        let client = [&first, &second][number % 2].clone();
        sending.spawn(async move {
            let path = "/api/v1/sessions/desk/s/turns";
            // Every fourth fails, and gives nothing back that the others have paid.
            let text = if number % 4 == 3 { " " } else { "well" };
            client
                .post(path, json!({ "text": text, "id": "one" }))
                .await
        });
    }
    let mut runs = std::collections::BTreeSet::new();
    while let Some(answer) = sending.join_next().await {
        let answer = answer.unwrap();
        match answer.status {
            // The session is with the other server.
            409 | 422 | 503 => {}
            200 | 202 => {
                runs.insert(text_at(&answer.json(), "/run/id"));
            }
            _ => panic!("{answer:?}"),
        }
    }
    assert_eq!(runs.len(), 1);
    // Of five turns one was taken, and this is the next.
    let told = say(&first, "other", "well").await.is(200);
    let told = &told.headers["ratelimit"];
    assert!(told.starts_with("\"turns\";r=3;"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_with_the_smallest_budget_reserve_what_a_call_may_cost() {
    let rule = |server: Server| server.quota(QuotaFor::Team, quota("1000tokens/31d"));
    let client = served(consuming(InMemoryStore::new(), 15).await, rule).await;
    let mut sending = JoinSet::new();
    for number in 0..120 {
        let client = client.clone();
        sending.spawn(async move {
            let path = format!("/api/v1/sessions/desk/{number}/turns?wait=50");
            let body = json!({ "text": "well", "budget": { "tokens": 1 } });
            client.post(&path, body).await.status
        });
    }
    let statuses = sending.join_all().await;
    let said = statuses.iter().filter(|status| **status == 200).count();
    assert!((1..=66).contains(&said), "{said} of 120 were let in");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_its_own_quota_and_an_operator_resets_what_was_taken() {
    let desk = Desk::start(SystemOptions::default(), |server, keys| {
        let server = server.quota(QuotaFor::Session, quota("2/1h"));
        let server = server.quota(QuotaFor::Subject, quota("5/1h"));
        server.keys(keys.clone())
    })
    .await;
    let ada = desk.client_of("ada", &ALL);
    let root = desk.client_of("root", &[Scope::Admin]);
    for _ in 0..2 {
        desk.say(&ada, "one", "well").await.is(200);
    }
    desk.say(&ada, "one", "well").await.is(429);
    desk.say(&ada, "two", "well").await.is(200);
    let reset = |client: &Client, whose: &str, name: &str| {
        let (client, body) = (client.clone(), json!({ "whose": whose, "name": name }));
        async move { client.post("/api/v1/quotas/reset", body).await }
    };
    reset(&ada, "session", "desk/one").await.is(403);
    let done = reset(&root, "session", "desk/ada/one").await.is(200).json();
    assert_eq!(text_at(&done, "/quotas"), "1");
    for _ in 0..2 {
        desk.say(&ada, "one", "well").await.is(200);
    }
    // Now the five turns of the subject are used up, in whatever session.
    desk.say(&ada, "three", "well").await.is(429);
    let done = reset(&root, "subject", "ada").await.is(200).json();
    assert_eq!(text_at(&done, "/quotas"), "1");
    desk.say(&ada, "three", "well").await.is(200);
    let none = reset(&root, "subject", "eve").await.is(200).json();
    assert_eq!(text_at(&none, "/quotas"), "0");
    reset(&root, "planet", "earth").await.is(422);
}
