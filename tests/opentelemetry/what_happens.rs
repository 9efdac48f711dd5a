//! What happens to a run on its way, and who does the work.

use ghostlight::{definition::BehaviorSpec, vocabulary::Event};

use super::*;

#[tokio::test]
async fn questions_handovers_and_who_decides_are_told() {
    let collector = Collector::start(Answer::Takes).await;
    let pay = ToolDefinition::new("pay", "pays").approval("Pay?");
    let pay = tool_fn(pay, |_: Numbers| async move { Ok("paid") });
    let clerk = Agent::new("clerk").tool(pay).model(model([
        ModelResponse::text("never asked"),
        calls("c1", "pay", json!({ "a": 1.0, "b": 2.0 })),
        ModelResponse::text("paid"),
    ]));
    let desk = Agent::new("desk").hand_off_to(clerk).model(model([calls(
        "d1",
        "transfer_to_clerk",
        json!({ "request": "pay it" }),
    )]));
    let system = system(&InMemoryStore::new(), desk.into_team().unwrap()).await;
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let following = telemetry.follow(&system).await.unwrap();
    let run = system.session("desk", "s").send("pay").await.unwrap();
    let mut events = run.events().recorded();
    let operation = loop {
        let record = events.next().await.unwrap().unwrap();
        if let Event::QuestionAsked { operation, .. } = record.event {
            break operation;
        }
    };
    run.answer(operation, json!({ "approved": true, "by": "Ada Lovelace" }))
        .await
        .unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "paid");
    following.flush().await.unwrap();
    let spans = collector.spans();
    check_whole(&spans);
    let root = named(&spans, "invoke_agent desk");
    let happened: Vec<&str> = root.events.iter().map(|event| &*event.name).collect();
    let expected = ["handed_over", "question_asked", "question_answered"];
    let expected = expected.map(|name| format!("ghostlight.{name}"));
    assert_eq!(happened, expected);
    let of = |span, name| text(&named(&spans, span).attributes, name);
    assert_eq!(
        of("execute_tool pay", "ghostlight.tool.approval"),
        "approved"
    );
    assert_eq!(of("execute_tool pay", "ghostlight.tool.effect"), "once");
    assert_eq!(of("execute_tool pay", "gen_ai.agent.name"), "clerk");
    let handed = "execute_tool transfer_to_clerk";
    assert_eq!(of(handed, "ghostlight.tool.answered_by"), "agent");
    // A person's name is nobody else's business.
    assert!(!collector.heard("Lovelace"));
}

#[tokio::test]
async fn members_of_a_workflow_stand_below_it_and_it_is_called_one() {
    let collector = Collector::start(Answer::Takes).await;
    let member = |name: &str| Agent::new(name).model(model([ModelResponse::text("done")]));
    let flow = Agent::new("flow").behavior(BehaviorSpec::new("sequential"));
    let flow = flow.agent(member("first")).agent(member("second"));
    let system = system(&InMemoryStore::new(), flow.into_team().unwrap()).await;
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let following = telemetry.follow(&system).await.unwrap();
    let run = system.session("flow", "s").send("go").await.unwrap();
    run.outcome().await.unwrap();
    following.flush().await.unwrap();
    let spans = collector.spans();
    check_whole(&spans);
    let flow = named(&spans, "invoke_workflow flow");
    assert_eq!(text(&flow.attributes, "gen_ai.workflow.name"), "flow");
    for member in ["invoke_agent first", "invoke_agent second"] {
        assert_eq!(
            named(&spans, member).parent_span_id,
            flow.span_id,
            "{member}"
        );
    }
    assert_eq!(collector.points("gen_ai.workflow.duration").len(), 1);
}
