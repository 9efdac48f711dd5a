//! An audit says for whom a call was made, and who said that it may be.

use std::{fs, time::Duration};

use ghostlight::{
    actor::System,
    definition::ApprovalRule,
    interceptors::Audit,
    run::{Agent, Intercept, RunContext},
    session::Turn,
    testing::{EffectLog, InMemoryStore, ScriptedModel},
    vocabulary::{Effect, ModelResponse, Outcome, ToolCall, ToolDefinition},
};
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn the_lines_of_a_call_hold_session_user_agent_approver_and_decision() {
    let path = super::scratch("who.jsonl");
    let log = EffectLog::new();
    let pay = ToolDefinition::new("pay", "pays").parameters(json!({ "type": "object" }));
    let agent = Agent::from_fn("desk", |cx: RunContext| async move {
        let request = cx.model_request(cx.conversation());
        cx.model(request).await?;
        for euro in [1, 2, 1, 9] {
            let call = ToolCall::new("c", "pay", json!({ "euro": euro }));
            cx.tools([call]).await?;
        }
        Ok(Outcome::answer("done"))
    })
    .tool(log.tool(pay, Duration::ZERO))
    .approval("pay", ApprovalRule::required().remember());
    let team = agent.into_team().unwrap();
    let system = System::builder(InMemoryStore::new())
        .model(
            "default",
            ScriptedModel::replies([ModelResponse::text("ok")]),
        )
        .team(team.intercept(Intercept::new(Audit::file(&path))))
        .start()
        .await
        .unwrap();
    let turn = Turn::text("go").owner("ada");
    let run = system.session("desk", "s").send(turn).await.unwrap();
    for answer in [
        json!({ "approved": true, "remember": true }),
        json!({ "approved": true, "arguments": { "euro": 3 } }),
        json!({ "approved": false, "reason": "too much" }),
    ] {
        run.wait().await.unwrap();
        let (_, operation, _) = run.questions().await.unwrap().remove(0);
        run.answer_as("ada", operation, answer).await.unwrap();
    }
    run.outcome().await.unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 9, "{text}");
    for line in &lines {
        let who = (&line["session"], &line["user"], &line["agent"]);
        assert_eq!(who, (&json!("desk/s"), &json!("ada"), &json!("desk")));
    }
    assert_eq!(lines[0]["approver"], Value::Null, "a model's call");
    let decided: Vec<(&Value, &Value)> = lines[2..8]
        .iter()
        .map(|line| (&line["approver"], &line["decision"]))
        .collect();
    let ada = json!("ada");
    for (pair, decision) in decided.chunks(2).zip(["approved", "edited", "remembered"]) {
        assert_eq!(pair, [(&ada, &json!(decision)); 2]);
    }
    assert_eq!(lines[4]["arguments"], json!({ "euro": 3 }));
    let denied = &lines[8];
    let told = (&denied["approver"], &denied["decision"], &denied["end"]);
    assert_eq!(told, (&ada, &json!("denied"), &json!("denied")));
    assert_eq!(denied["answered_by"], json!({ "person": "ada" }));
    assert_eq!(denied["arguments"], json!({ "euro": 9 }));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_cut_off_has_its_second_line_too() {
    let path = super::scratch("cut-off.jsonl");
    let log = EffectLog::new();
    let tool = |name, effect| {
        let definition = ToolDefinition::new(name, "takes long").effect(effect);
        log.tool(definition, Duration::from_secs(3_600))
    };
    let agent = Agent::from_fn("desk", |cx: RunContext| async move {
        let calls = ["look", "pay"].map(|name| ToolCall::new(name, name, json!({})));
        let model = cx.lane("model");
        let asked = model.model(model.model_request(cx.conversation()));
        let (results, _) = futures_util::join!(cx.tools(calls), asked);
        Ok(Outcome::answer(format!("{:?}", results?)))
    })
    .tool(tool("look", Effect::Read))
    .tool(tool("pay", Effect::Once));
    let model = ScriptedModel::replies(["late"]).delay(Duration::from_secs(3_600));
    let system = System::builder(InMemoryStore::new())
        .model("default", model)
        .team(agent.into_team().unwrap())
        .intercept(Intercept::new(Audit::file(&path)))
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    run.cancel("enough").await.unwrap();
    run.outcome().await.unwrap();
    system.stop().await.unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let mut ends: Vec<(String, bool)> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["begins"].is_null())
        .map(|line| {
            assert_eq!(line["end"], "interrupted", "{line}");
            assert_eq!(line["session"], "desk/s", "{line}");
            let name = line["tool"].as_str().or(line["model"].as_str()).unwrap();
            (name.to_owned(), line["ms"].as_u64().unwrap() >= 2_000)
        })
        .collect();
    ends.sort();
    let expected = ["default", "look", "pay"].map(|name| (name.to_owned(), true));
    assert_eq!(ends, expected, "{text}");
}
