//! A server of OpenAI's Responses that was to store a conversation, and lost it.

use ghostlight::models::responses::History;
use ghostlight_actors::vocabulary::{Message, ToolResult, ToolSet, ToolStatus};
use serde_json::{Value, json};

use crate::{
    ask, double,
    fake::{Fake, json as whole},
    respond,
    responses::{answer, call, model, reasoning, text},
};

#[tokio::test]
async fn a_server_that_lost_a_response_is_told_the_whole_conversation() {
    let lost = json!({"error": {"message": "Previous response with id 'resp_1' not found.",
        "type": "invalid_request_error", "param": "previous_response_id", "code": "previous_response_not_found"}});
    let replies = [
        answer(json!([reasoning("rs_1"), call("call_1")])),
        vec![whole(400, &lost.to_string())],
        answer(json!([text("msg_1", "14")])),
    ];
    let fake = Fake::start(replies).await;
    let model = model(&fake).with(|settings| settings.history = History::Stored);
    let request = ask("Double 7.").tools(ToolSet::from_iter([double()]));
    let first = respond(&model, request.clone()).await.unwrap();
    let mut request = request;
    request.conversation.push(first.message.clone());
    let result = ToolResult::new(&first.calls()[0], ToolStatus::Success, "14");
    request.conversation.push(Message::results([result]));
    let answer = respond(&model, request).await.unwrap();
    assert_eq!(answer.content(), "14");
    let bodies: Vec<Value> = fake.received().into_iter().map(|one| one.body).collect();
    assert_eq!(bodies.len(), 3);
    assert_eq!(bodies[1]["previous_response_id"], "resp_1");
    let again = &bodies[2];
    assert_eq!(
        (&again["store"], again.get("previous_response_id")),
        (&json!(true), None)
    );
    assert_eq!(
        again["input"],
        json!([
            {"role": "user", "content": "Double 7."},
            {"type": "function_call", "call_id": "call_1", "name": "double", "arguments": "{\"n\": 7}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "14"},
        ])
    );
}
