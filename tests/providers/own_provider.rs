//! A provider of one's own, made of the kit: the one of the guide, against a server that misbehaves.

#[path = "acme.rs"]
mod acme;

use std::time::Duration;

use acme::Acme;
use ghostlight::{
    builtin,
    definition::ModelSpec,
    models::kit::ServerSpec,
    prelude::*,
    vocabulary::{Delta, ErrorKind, FinishReason, Message, Part, Reasoning, ToolCall, Transcript},
};
use serde_json::{Value, json};

use crate::{
    ask, double,
    fake::{Act, Fake, events, json as whole, piece, reply, stream_head},
    respond, said, stream,
};

fn url(fake: &Fake) -> String {
    fake.model().settings().base_url.clone()
}

/// A model at a server of ours.
fn at(fake: &Fake, model: &str) -> Acme {
    let mut spec = ServerSpec::new(model);
    spec.base_url = url(fake);
    spec.into()
}

#[test]
fn the_page_shows_the_provider_that_is_tried_here() {
    let page = include_str!("../../docs/guide/extending.md");
    assert!(page.contains(include_str!("acme.rs")));
    let lines = include_str!("acme.rs").lines().map(str::trim);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    assert!(code.count() <= 100);
}

#[tokio::test]
async fn an_answer_is_read_whole_and_as_a_stream() {
    let call = json!([{"nr": 0, "id": "c1", "name": "double", "with": "{\"n\":7}"}]);
    let answer = json!({
        "thought": "Seven.", "said": "I double it.", "calls": call, "ended": "all said", "read": 20, "written": 5,
    });
    let pieces = [
        json!({"thought": "Seven."}),
        json!({"said": "I double"}),
        json!({"said": " it."}),
        json!({"calls": [{"nr": 0, "id": "c1", "name": "double", "with": "{\"n\""}]}),
        json!({"calls": [{"nr": 0, "with": ":7}"}]}),
        json!({"ended": "all said", "read": 20, "written": 5}),
    ]
    .map(|piece| piece.to_string());
    let pieces = pieces.iter().map(String::as_str);
    let fake = Fake::start([
        vec![whole(200, &answer.to_string())],
        events(pieces.chain(["[DONE]"])),
    ])
    .await;
    let model = at(&fake, "fable-1");
    let asked = || ask("Double 7.").tools([double()].into_iter().collect());
    let alone = respond(&model, asked()).await.unwrap();
    let (streamed, shown) = stream(&model, asked()).await;
    let streamed = streamed.unwrap();
    assert_eq!(alone.message, streamed.message);
    assert_eq!(alone.usage, streamed.usage);
    assert_eq!(
        alone.message.parts,
        [
            Part::Reasoning(Reasoning {
                text: "Seven.".to_owned(),
                signature: None
            }),
            Part::Text("I double it.".to_owned()),
            Part::ToolCall(ToolCall::new("c1", "double", "{\"n\":7}")),
        ]
    );
    assert_eq!(alone.finish, FinishReason::ToolCalls);
    assert_eq!(
        (alone.usage.input_tokens, alone.usage.output_tokens),
        (20, 5)
    );
    let text = shown.iter().filter_map(|delta| match delta {
        Delta::Text(text) => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(text.collect::<String>(), "I double it.");
    let arguments = shown.iter().filter_map(|delta| match delta {
        Delta::ToolCall { arguments, .. } => Some(arguments.as_str()),
        _ => None,
    });
    assert_eq!(arguments.collect::<String>(), "{\"n\":7}");
    let sent = &fake.received()[0].body;
    assert_eq!(sent["turns"], json!([{"by": "user", "said": "Double 7."}]));
    assert_eq!(sent["tools"][0]["name"], "double");
}

#[tokio::test]
async fn what_a_server_does_not_tell_is_estimated_and_priced() {
    let fake = Fake::json(json!({"said": "Good morning, everybody.", "ended": "all said"})).await;
    let mut spec = ServerSpec::new("fable-1");
    spec.base_url = url(&fake);
    spec.prices = Some(ghostlight::vocabulary::Prices {
        input: 1_000.0,
        output: 1_000.0,
        ..Default::default()
    });
    let answer = respond(&Acme::from(spec), ask("Good morning!")).await;
    let usage = answer.unwrap().usage;
    assert!(usage.estimated_tokens > 0, "{usage:?}");
    assert_eq!(
        usage.cost_micros,
        (usage.input_tokens + usage.output_tokens) * 1_000
    );
}

#[tokio::test]
async fn what_goes_out_is_legal_whatever_is_in_the_conversation() {
    let fake = Fake::json(json!({"said": "So.", "ended": "all said"})).await;
    let call = ToolCall::new("call:with/signs", "not a name", "{}");
    let request = ModelRequest::new(Transcript::from_iter([
        Message::user("Go."),
        said(vec![Part::ToolCall(call)]),
        Message::user("And now?"),
    ]));
    respond(&at(&fake, "fable-1"), request).await.unwrap();
    let turns = fake.only_body()["turns"].clone();
    assert_eq!(turns[1]["called"], "not_a_name");
    assert_eq!(turns[2]["by"], "tool", "a call without a result gets one");
    let id = turns[1]["id"].as_str().unwrap();
    assert!(!id.contains([':', '/']), "{id}");
    assert_eq!(turns[2]["id"], id);
}

#[tokio::test]
async fn an_error_has_the_words_of_the_server_and_nothing_of_the_request() {
    let secret = "my grandmother's recipe for plum cake";
    let refused =
        json!({"error": {"type": "bad_turn", "message": format!("turn 3 is too old: {secret}")}});
    let fake = Fake::start([
        vec![whole(400, &refused.to_string())],
        vec![reply(503, &[("retry-after", "7")], "busy")],
        vec![whole(
            200,
            r#"{"fault":{"message":"the voice is hoarse","code":429}}"#,
        )],
        vec![whole(200, r#"{"greeting":"hello"}"#)],
    ])
    .await;
    let model = at(&fake, "fable-1");
    let error = respond(&model, ask(secret)).await.unwrap_err();
    assert_eq!(
        (error.kind.clone(), error.status),
        (ErrorKind::InvalidInput, Some(400))
    );
    assert!(error.message.contains("turn 3 is too old"), "{error}");
    assert!(!error.message.contains("plum"), "{error}");
    let error = respond(&model, ask("hello")).await.unwrap_err();
    assert!(error.retryable);
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    // The pause is one for all calls of a model, so another model asks at once.
    let model = at(&fake, "fable-2");
    let error = respond(&model, ask("hello")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::RateLimited);
    assert!(error.message.contains("the voice is hoarse"), "{error}");
    let error = respond(&at(&fake, "fable-3"), ask("hello")).await;
    assert_eq!(error.unwrap_err().kind, ErrorKind::Malformed);
}

#[tokio::test]
async fn a_stream_that_is_cut_is_asked_again_and_what_it_showed_is_void() {
    let half = json!({"said": "FIRST half of an answ"});
    let spent = json!({"said": "", "read": 20, "written": 5});
    let rest = [
        json!({"said": "SECOND whole answer."}),
        json!({"ended": "all said", "read": 20, "written": 5}),
    ];
    let rest = rest.map(|piece| piece.to_string());
    let fake = Fake::start([
        vec![
            stream_head(),
            piece(format!("data: {half}\n\ndata: {spent}\n\n")),
            Act::Close,
        ],
        events(rest.iter().map(String::as_str)),
    ])
    .await;
    let spec = ModelSpec::new("acme")
        .setting("model", "fable-1")
        .setting("base_url", url(&fake));
    let team = Agent::new("desk")
        .into_team()
        .unwrap()
        .model("default", spec);
    let system = System::builder(InMemoryStore::new())
        .registry(builtin().provider_type::<Acme>("acme"))
        .team(team)
        .start()
        .await
        .unwrap();
    let session = system.session("desk", "ada");
    let run = session.send(Turn::text("Hello!")).await.unwrap();
    let mut texts = run.text_stream();
    let mut shown = String::new();
    while let Some(piece) = texts.next().await {
        let piece = piece.unwrap();
        if piece.restarts {
            shown.clear();
        }
        shown.push_str(&piece.text);
    }
    assert_eq!(shown, "SECOND whole answer.");
    let (outcome, spent) = run.outcome_and_spent().await.unwrap();
    assert_eq!(outcome.text(), "SECOND whole answer.");
    assert_eq!(spent.usage.input_tokens, 40, "both attempts are paid");
    assert_eq!(fake.received().len(), 2);
    system.stop().await.unwrap();
}

#[test]
fn a_key_goes_to_its_own_server_alone_and_a_wrong_setting_is_refused() {
    let there: Value = json!({"model": "fable-1", "api_key": "sk-12345678901234567890"});
    let error = serde_json::from_value::<Acme>(there).unwrap_err();
    assert!(
        error.to_string().contains("environment variable"),
        "{error}"
    );
    let elsewhere = json!({"model": "fable-1", "base_url": "https://other.example"});
    let model: Acme = serde_json::from_value(elsewhere).unwrap();
    model
        .ready()
        .expect("another server needs no key of Acme's");
    assert_eq!(model.description(), "acme fable-1 at other.example");
    let own: Acme = serde_json::from_value(json!({"model": "fable-1"})).unwrap();
    let error = own.ready().unwrap_err();
    assert!(error.message.contains("ACME_API_KEY"), "{error}");
    assert!(!own.is_priced());
}
