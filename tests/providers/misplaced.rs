//! Calls that a server sends twice, and pieces of an answer that come in the place of another one: nothing is done twice,
//! and nothing is lost.

#[cfg(feature = "bedrock")]
use ghostlight::models::Bedrock;
use ghostlight::{
    models::{Anthropic, Gemini, Secret},
    prelude::*,
};
use ghostlight_actors::vocabulary::Delta;
use serde_json::{Value, json};

#[cfg(feature = "bedrock")]
use crate::bedrock;
use crate::{
    ask,
    fake::{Fake, events},
    oddities::{called, calls},
    respond, responses, stream,
};

/// The arguments of each call that was shown.
fn shown(deltas: &[Delta]) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    for delta in deltas {
        if let Delta::ToolCall {
            index, arguments, ..
        } = delta
        {
            let index = usize::try_from(*index).unwrap();
            shown.resize(shown.len().max(index + 1), String::new());
            shown[index].push_str(arguments);
        }
    }
    shown
}

/// Answers of these calls in the form of each provider, as its adapter reads them.
async fn answers(written: &[(&str, &str)]) -> Vec<ModelResponse> {
    let key = || Secret::value("sk-hunter2");
    let address = |fake: &Fake| fake.model().settings().base_url.clone();
    let input = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let all = |to_json: &dyn Fn(&str, &str) -> Value| -> Vec<Value> {
        written.iter().map(|(id, text)| to_json(id, text)).collect()
    };
    let mut answers = Vec::new();

    let list = all(
        &|id, text| json!({"id": id, "type": "function", "function": {"name": "pay", "arguments": text}}),
    );
    let body =
        json!({"choices": [{"message": {"tool_calls": list}, "finish_reason": "tool_calls"}]});
    let fake = Fake::json(body).await;
    answers.push(respond(&fake.model(), ask("go")).await.unwrap());

    let list = all(
        &|id, text| json!({"type": "function_call", "call_id": id, "name": "pay", "arguments": text}),
    );
    let fake = Fake::start([responses::answer(json!(list))]).await;
    answers.push(respond(&responses::model(&fake), ask("go")).await.unwrap());

    // Of these two, the text of the arguments is ours where they come whole, so they come in pieces.
    let mut parts =
        vec![json!({"type": "message_start", "message": {"model": "m", "usage": {}}}).to_string()];
    for (index, (id, text)) in written.iter().enumerate() {
        let block = json!({"type": "tool_use", "id": id, "name": "pay", "input": {}});
        let delta = json!({"type": "input_json_delta", "partial_json": text});
        parts.extend([
            json!({"type": "content_block_start", "index": index, "content_block": block})
                .to_string(),
            json!({"type": "content_block_delta", "index": index, "delta": delta}).to_string(),
        ]);
    }
    parts.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}).to_string());
    parts.push(json!({"type": "message_stop"}).to_string());
    let fake = Fake::start([events(parts.iter().map(String::as_str))]).await;
    let claude = Anthropic::new("claude-test").base_url(address(&fake));
    let answer = stream(&claude.api_key(key()), ask("go")).await.0;
    answers.push(answer.unwrap());

    #[cfg(feature = "bedrock")]
    {
        let frames = written.iter().enumerate().flat_map(|(index, (id, text))| {
            let index = u64::try_from(index).unwrap();
            let start = json!({"toolUse": {"name": "pay", "toolUseId": id}});
            [
                bedrock::start(index, start),
                bedrock::delta(index, json!({"toolUse": {"input": text}})),
            ]
        });
        answers.push(of_bedrock(frames).await.0);
    }

    let list =
        all(&|id, text| json!({"functionCall": {"id": id, "name": "pay", "args": input(text)}}));
    let body = json!({"candidates": [{"content": {"role": "model", "parts": list}, "finishReason": "STOP"}]});
    let fake = Fake::json(body).await;
    let google = Gemini::new("gemini-3-pro").base_url(address(&fake));
    answers.push(respond(&google.api_key(key()), ask("go")).await.unwrap());
    answers
}

#[cfg(feature = "bedrock")]
async fn of_bedrock(frames: impl IntoIterator<Item = Vec<u8>>) -> (ModelResponse, Vec<Delta>) {
    let mut acts = vec![bedrock::head()];
    let begin = bedrock::event("messageStart", json!({"role": "assistant"}));
    let end = bedrock::event("messageStop", json!({"stopReason": "tool_use"}));
    let all = std::iter::once(begin).chain(frames).chain([end]);
    acts.extend(all.map(crate::fake::piece));
    acts.push(crate::fake::stream_end());
    let fake = Fake::start([acts]).await;
    let model: Bedrock = bedrock::model(&fake);
    let (answer, deltas) = stream(&model, ask("go")).await;
    (answer.unwrap(), deltas)
}

#[tokio::test]
async fn a_call_that_comes_twice_is_one_call_however_its_arguments_are_written() {
    for written in [
        [
            ("a", "{\"n\":1,\"m\":\"é\"}"),
            ("a", "{\"m\": \"\\u00e9\", \"n\": 1}"),
        ],
        [("a", "{}"), ("a", " {} ")],
    ] {
        for answer in answers(&written).await {
            assert_eq!(answer.calls().len(), 1, "{answer:?}");
        }
    }
    // Another id, or other arguments, are another call.
    for written in [
        [("a", "{\"n\":1}"), ("b", "{\"n\":1}")],
        [("a", "{\"n\":1}"), ("a", "{\"n\":2}")],
    ] {
        for answer in answers(&written).await {
            let ids: Vec<String> = answer.calls().iter().map(|call| call.id.clone()).collect();
            assert!(ids.len() == 2 && ids[0] != ids[1], "{answer:?}");
        }
    }
}

#[cfg(feature = "bedrock")]
#[tokio::test]
async fn blocks_of_bedrock_are_kept_under_whatever_index_they_come() {
    let text = |more: &str| bedrock::delta(0, json!({"text": more}));
    let input = |more: &str| bedrock::delta(0, json!({"toolUse": {"input": more}}));
    let thought = |more: Value| bedrock::delta(0, json!({"reasoningContent": more}));
    let call = |id: &str, name: &str| {
        bedrock::start(0, json!({"toolUse": {"name": name, "toolUseId": id}}))
    };
    let (answer, deltas) = of_bedrock([
        thought(json!({"text": "Hm."})),
        thought(json!({"signature": "c2ln"})),
        thought(json!({"redactedContent": "aGlk"})),
        text("First "),
        call("a", "f"),
        input("{\"x\":1}"),
        call("b", "g"),
        call("b", "g"),
        text("and then."),
        input("{\"y\":2}"),
    ])
    .await;
    assert_eq!(answer.content(), "First and then.");
    assert_eq!(
        calls(&answer),
        [called("f", "{\"x\":1}"), called("g", "{\"y\":2}")]
    );
    assert_eq!(shown(&deltas), ["{\"x\":1}", "{\"y\":2}"]);
    let thoughts = answer.message.parts.iter();
    let thoughts =
        thoughts.filter(|part| matches!(part, ghostlight_actors::vocabulary::Part::Reasoning(_)));
    assert_eq!(thoughts.count(), 2);
}

#[tokio::test]
async fn items_of_responses_are_kept_under_whatever_index_they_come() {
    let item = |kind: &str, item: &Value| json!({"type": format!("response.output_item.{kind}"), "output_index": 0, "item": item});
    let more = |id: &str, more: &str| json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": id, "delta": more});
    let begun = |id: &str| {
        let mut begun = responses::call(id);
        begun["arguments"] = json!("");
        begun
    };
    let said = responses::text("msg_1", "Twice:");
    let end = json!({"type": "response.completed", "response": {
        "object": "response", "status": "completed", "output": []}});
    let all = [
        item("done", &said),
        item("done", &said),
        item("added", &begun("a")),
        more("fc_a", "{\"n\": 7}"),
        item("done", &responses::call("a")),
        item("added", &begun("b")),
        more("fc_b", "{\"n\": 7}"),
        item("done", &responses::call("b")),
        end,
    ];
    let all: Vec<String> = all.iter().map(Value::to_string).collect();
    let fake = Fake::start([events(all.iter().map(String::as_str))]).await;
    let (answer, deltas) = stream(&responses::model(&fake), ask("go")).await;
    let answer = answer.unwrap();
    assert_eq!(answer.content(), "Twice:");
    let ids: Vec<String> = answer.calls().iter().map(|call| call.id.clone()).collect();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(shown(&deltas), ["{\"n\": 7}", "{\"n\": 7}"]);
}
