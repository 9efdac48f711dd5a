//! What happens to a run on its way, and who does the work.

use ghostlight::{
    actor::{Fork, SystemOptions},
    contract::ModelError,
    definition::BehaviorSpec,
    vocabulary::{ErrorKind, Event, Message},
};

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

#[tokio::test]
async fn tasks_that_code_gives_stand_below_the_run_also_where_they_go_on_in_another_journal() {
    let collector = Collector::start(Answer::Takes).await;
    let helper = Agent::from_fn("helper", |cx: RunContext| async move {
        match cx.input().content().as_str() {
            "go" => Ok(Outcome::ContinueAs(Box::new(Message::user("go on")))),
            _ => Ok(Outcome::answer("helped")),
        }
    });
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        match cx.input().content().as_str() {
            "help" => {
                cx.delegate("helper", "go").await?;
                Ok(Outcome::ContinueAs(Box::new(Message::user("end"))))
            }
            _ => Ok(Outcome::answer("done")),
        }
    });
    let system = system(
        &InMemoryStore::new(),
        desk.agent(helper).into_team().unwrap(),
    )
    .await;
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let following = telemetry.follow(&system).await.unwrap();
    let run = system.session("desk", "s").send("help").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "done");
    following.flush().await.unwrap();
    let spans = collector.spans();
    check_whole(&spans);
    let of = |name: &str| -> Vec<_> { spans.iter().filter(|span| span.name == name).collect() };
    let (desks, helpers) = (of("invoke_agent desk"), of("invoke_agent helper"));
    assert_eq!((desks.len(), helpers.len()), (2, 2));
    let trace = run.id().to_string().replace('-', "");
    let first = desks
        .iter()
        .find(|span| hex(&span.trace_id) == trace)
        .unwrap();
    assert!(
        helpers
            .iter()
            .all(|helper| helper.parent_span_id == first.span_id)
    );
    assert_eq!(text(&first.attributes, "ghostlight.run.end"), "continued");
    // The turn goes on in a tree of its own, which the first span names.
    let next = run.id().next().to_string();
    assert_eq!(text(&first.attributes, "ghostlight.continued_by"), next);
    let later = desks
        .iter()
        .find(|span| hex(&span.trace_id) == next.replace('-', ""));
    assert_eq!(
        text(&later.unwrap().attributes, "ghostlight.run.end"),
        "answered"
    );
}

#[tokio::test]
async fn a_fork_is_a_trace_of_what_it_does_itself() {
    let collector = Collector::start(Answer::Takes).await;
    let add = ToolDefinition::new("add", "adds").effect(Effect::Read);
    let add = tool_fn(
        add,
        |numbers: Numbers| async move { Ok(numbers.a + numbers.b) },
    );
    let desk = Agent::new("desk").tool(add).model(model([
        calls("d1", "add", json!({ "a": 1.0, "b": 2.0 })),
        ModelResponse::text("it is 3"),
    ]));
    let system = system(&InMemoryStore::new(), desk.into_team().unwrap()).await;
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let following = telemetry.follow(&system).await.unwrap();
    let run = system.session("desk", "s").send("1 + 2?").await.unwrap();
    run.outcome().await.unwrap();
    let events = run.events().recorded().so_far().await.unwrap();
    let tool = events
        .iter()
        .find(|record| matches!(record.event, Event::ToolCalled { .. }));
    let fork = run
        .fork(Fork::at(tool.unwrap().sequence.unwrap()))
        .await
        .unwrap();
    assert_eq!(fork.outcome().await.unwrap().text(), "it is 3");
    following.flush().await.unwrap();
    let spans = collector.spans();
    check_whole(&spans);
    let trace = fork.id().to_string().replace('-', "");
    let mut own = spans.clone();
    own.retain(|span| hex(&span.trace_id) == trace);
    // The first model call is the other run's; the tool and the second one are its own.
    assert_eq!((spans.len(), own.len()), (4 + 3, 3));
    assert!(own.iter().any(|span| span.name == "execute_tool add"));
    let root = named(&own, "invoke_agent desk");
    assert_eq!(
        text(&root.attributes, "ghostlight.forked_from"),
        run.id().to_string()
    );
}

#[tokio::test]
async fn a_call_that_waited_for_its_provider_and_failed_took_all_that_time() {
    let collector = Collector::start(Answer::Takes).await;
    let down = ScriptedModel::from_fn(|_, _| {
        Err(ModelError::new(ErrorKind::Model, "no server").retryable())
    });
    let mut options = SystemOptions::default();
    (options.linger, options.gateway.attempts) = (Duration::ZERO, 3);
    options.gateway.base_pause = Duration::from_millis(100);
    let team = Agent::new("waits").model(down).into_team().unwrap();
    let builder = System::builder(InMemoryStore::new()).registry(ghostlight::builtin());
    let system = builder.options(options).team(team).start().await.unwrap();
    let telemetry = OpenTelemetry::over_http(&collector.endpoint).unwrap();
    let following = telemetry.follow(&system).await.unwrap();
    let run = system.session("waits", "s").send("go").await.unwrap();
    run.outcome().await.unwrap_err();
    following.flush().await.unwrap();
    let spans = collector.spans();
    check_whole(&spans);
    let chat = spans.iter().find(|span| span.name.starts_with("chat"));
    let chat = chat.unwrap();
    let took = Duration::from_nanos(chat.end_time_unix_nano - chat.start_time_unix_nano);
    // Two pauses, each at least half as long as is set.
    assert!(took >= Duration::from_millis(150), "{took:?}");
}
