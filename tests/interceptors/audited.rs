//! An audit says for whom a call was made, and who said that it may be.

use std::{fs, time::Duration};

use ghostlight::{
    actor::System,
    definition::ApprovalRule,
    interceptors::Audit,
    run::{Agent, Intercept, RunContext},
    session::Turn,
    testing::{EffectLog, InMemoryStore, ScriptedModel},
    vocabulary::{ModelResponse, Outcome, ToolCall, ToolDefinition},
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
