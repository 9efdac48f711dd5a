//! How far a conversation and a task can go.

use std::sync::Arc;

use ghostlight::{behaviors, tools::tool_fn};
use ghostlight_actors::{
    actor::{Session, System, SystemBuilder, recording},
    definition::{OnHandoff, Reach, Sees, TransferRules},
    run::{Agent, Registry, RunContext, replay},
    testing::{
        CrashOptions, InMemoryStore, Reply, Scenario, ScriptedModel, check_transcript,
        crash_everywhere,
    },
    vocabulary::{
        AgentError, Data, DataSource, Effect, ErrorKind, Event, Message, ModelRequest, Outcome,
        Part, StopReason, ToolCall, ToolDefinition, ToolResult, ToolStatus, Transfer,
    },
};
use serde_json::{Value, json};

use crate::patterns::acts;

async fn run(agent: Agent, model: ScriptedModel, transfers: Option<u32>) -> (Outcome, Vec<String>) {
    let team = agent.into_team().unwrap();
    let system = System::builder(InMemoryStore::new())
        .registry(behaviors::register(Registry::new()))
        .model("default", model)
        .team(team.define(|spec| spec.max_transfers = transfers))
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    let records = run.events().so_far().await.unwrap();
    let taken = records.into_iter().filter_map(|record| match record.event {
        Event::LegStarted { agent, .. } => Some(agent),
        _ => None,
    });
    let taken = taken.collect();
    system.stop().await.unwrap();
    (outcome, taken)
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_kept_from_its_peers_and_its_parent_where_its_rules_say_so() {
    for (parent, peers) in [(false, false), (true, false), (false, true)] {
        let mut rules = TransferRules::default();
        (rules.parent, rules.peers) = (parent, peers);
        let desk = Agent::new("desk")
            .agent(Agent::new("billing").transfers(rules))
            .agent(Agent::new("sales"));
        let to = |agent: &str| {
            acts([(
                format!("transfer_to_{agent}").as_str(),
                json!({"request": "x"}),
            )])
        };
        let replies = vec![to("billing"), to("sales"), to("desk"), "stayed".into()];
        let model = ScriptedModel::replies(replies);
        let (outcome, legs) = run(desk, model.clone(), None).await;
        let offered: Vec<String> = model.requests()[1]
            .tools
            .iter()
            .map(|tool| tool.name.clone())
            .collect();
        let expected = match (parent, peers) {
            (true, _) => vec!["transfer_to_desk"],
            (_, true) => vec!["transfer_to_sales"],
            _ => Vec::new(),
        };
        assert_eq!(offered, expected);
        if (parent, peers) == (false, false) {
            assert_eq!(outcome, Outcome::answer("stayed"));
            assert_eq!(legs, ["billing"], "what is not offered is not done");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_agents_that_hand_a_conversation_to_and_fro_are_stopped() {
    for (bound, legs) in [(None, 16), (Some(3), 3)] {
        let desk = Agent::new("desk").agent(Agent::new("billing"));
        let model = ScriptedModel::from_reply_fn(|request, _| {
            let tool = request.tools.iter().next().map(|tool| tool.name.clone());
            acts([(
                tool.unwrap_or_default().as_str(),
                json!({"request": "you do it"}),
            )])
        });
        let (outcome, taken) = run(desk, model, bound).await;
        let reason = StopReason::TransferLimit(legs);
        assert_eq!(outcome.stop_reason(), Some(&reason));
        assert_eq!(taken.len(), legs as usize, "{taken:?}");
        assert_eq!(taken[..2], ["billing", "desk"]);
    }
}

#[tokio::test(start_paused = true)]
async fn delegations_nest_down_to_a_depth_and_no_deeper() {
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        let depth = cx.start().path.len();
        match cx.delegate("desk", "deeper").await {
            Ok(done) => Ok(Outcome::answer(done.text)),
            Err(error) if error.kind() == Some(&ErrorKind::Denied) => {
                Ok(Outcome::answer(format!("{depth}: {error}")))
            }
            Err(error) => Err(error),
        }
    });
    let (outcome, _) = run(desk, ScriptedModel::hanging(), None).await;
    assert_eq!(outcome.text(), "64: delegations nest deeper than 64");
}

/// The agent that is asked, and what the conversation that it sees says.
fn seen(request: &ModelRequest) -> (String, Vec<String>) {
    let messages = request.conversation.messages();
    let says = messages.iter().map(|message| message.content());
    (request.instructions.to_string(), says.collect())
}

/// A model that plays each agent by its instructions, from how often it was asked before.
fn playing(play: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> ScriptedModel {
    ScriptedModel::from_reply_fn(move |request, _| {
        check_transcript(&request.conversation.messages()).unwrap();
        let name = request.instructions.to_string();
        let own = |message: &std::sync::Arc<ghostlight_actors::vocabulary::Message>| {
            message.author.as_deref() == Some(name.as_str())
        };
        let spoken = request
            .conversation
            .messages()
            .iter()
            .filter(|m| own(m))
            .count();
        play(&name, spoken)
    })
}

fn agent(name: &str) -> Agent {
    Agent::new(name).instructions(name)
}

fn hand_to(name: &str) -> Reply {
    acts([(
        format!("transfer_to_{name}").as_str(),
        json!({"request": format!("be {name}")}),
    )])
}

fn built(builder: SystemBuilder, desk: Agent, model: ScriptedModel) -> SystemBuilder {
    builder
        .registry(behaviors::register(Registry::new()))
        .model("default", model)
        .team(desk.into_team().unwrap())
}

async fn started(store: &InMemoryStore, desk: Agent, model: ScriptedModel) -> System {
    built(System::builder(store.clone()), desk, model)
        .start()
        .await
        .unwrap()
}

/// The text of a turn's outcome, and the agents that took the conversation over meanwhile.
async fn turn(session: &Session, text: &str) -> (Outcome, Vec<String>) {
    let run = session.send(text).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    let records = run.events().so_far().await.unwrap();
    let legs = records.into_iter().filter_map(|record| match record.event {
        Event::LegStarted { agent, .. } => Some(agent),
        _ => None,
    });
    (outcome, legs.collect())
}

#[tokio::test(start_paused = true)]
async fn who_takes_over_sees_what_its_rule_says_and_the_session_keeps_all() {
    let note = "[You have taken over this conversation. be billing]";
    for (sees, before) in [
        (Sees::All, &["one", "first", "two", "", "", ""][..]),
        (Sees::Spoken, &["one", "first", "two"]),
        (Sees::Last(1), &["two"]),
        (Sees::Request, &[]),
    ] {
        let look = ToolDefinition::new("look", "looks").effect(Effect::Read);
        let look = tool_fn(look, |_: Value| async { Ok("seen") });
        let billing = agent("billing").on_handoff(OnHandoff::new().sees(sees));
        let desk = agent("desk").tool(look).agent(billing);
        let model = playing(|name, spoken| match (name, spoken) {
            ("desk", 0) => "first".into(),
            ("desk", 1) => acts([
                ("look", json!({})),
                ("transfer_to_billing", json!({"request": "be billing"})),
            ]),
            (name, _) => format!("{name} answers").into(),
        });
        let system = started(&InMemoryStore::new(), desk, model.clone()).await;
        let session = system.session("desk", "s");
        turn(&session, "one").await;
        let (outcome, legs) = turn(&session, "two").await;
        assert_eq!(
            (outcome.text(), legs),
            ("billing answers", vec!["billing".to_owned()])
        );
        // It has the next turn too, and sees the same of what was before its time.
        turn(&session, "three").await;
        let requests = model.requests();
        let mut of_billing: Vec<Vec<String>> = requests
            .iter()
            .map(seen)
            .filter(|(name, _)| name == "billing")
            .map(|(_, says)| says)
            .collect();
        let mut expected: Vec<&str> = before.to_vec();
        if sees == Sees::All {
            // The calls, and their results.
            expected.truncate(5);
        }
        expected.push(note);
        assert_eq!(of_billing.remove(0), expected, "{sees:?}");
        expected.extend(["billing answers", "three"]);
        assert_eq!(of_billing.remove(0), expected, "{sees:?}");
        let kept = session.transcript().await.unwrap().messages();
        check_transcript(&kept).unwrap();
        assert_eq!(
            kept.iter()
                .flat_map(|message| message.tool_results())
                .count(),
            2
        );
        system.stop().await.unwrap();
    }
}

/// A desk whose billing gives the conversation back, and asks a tax office that does so too.
fn returning() -> (Agent, ScriptedModel) {
    let returns = || OnHandoff::new().returning();
    let tax = agent("tax").on_handoff(returns());
    let billing = agent("billing")
        .on_handoff(returns().sees(Sees::Request))
        .agent(tax);
    let model = playing(|name, spoken| match (name, spoken) {
        ("desk", 0) => hand_to("billing"),
        ("billing", 0) => hand_to("tax"),
        ("tax", _) => "nineteen percent".into(),
        ("billing", _) => "95.20 euro".into(),
        _ => "it is 95.20 euro".into(),
    });
    (agent("desk").agent(billing), model)
}

#[tokio::test(start_paused = true)]
async fn who_is_done_gives_the_conversation_back_to_who_handed_it_over() {
    let (desk, model) = returning();
    let store = InMemoryStore::new();
    let system = started(&store, desk, model.clone()).await;
    let session = system.session("desk", "s");
    let run = session.send("80 euro and VAT?").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "it is 95.20 euro");
    let (outcome, legs) = turn(&session, "thanks").await;
    // The turn that follows is the desk's, which had the conversation last.
    assert_eq!((outcome.text(), legs.len()), ("it is 95.20 euro", 0));
    let requests: Vec<_> = model.requests().iter().map(seen).collect();
    let order: Vec<&str> = requests.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(order, ["desk", "billing", "tax", "billing", "desk", "desk"]);
    let (_, billing) = &requests[3];
    assert_eq!(
        billing[0],
        "[You have taken over this conversation. be billing]"
    );
    assert_eq!(
        billing[billing.len() - 2..],
        [
            "nineteen percent",
            "[You have this conversation again. tax is done.]"
        ]
    );
    let (_, again) = &requests[4];
    let last = "[You have this conversation again. billing is done.]";
    assert_eq!(again.last().unwrap(), last);

    // Its journal says the same, and so does today's code.
    let recording = recording(&store.clone().into(), run.id()).await.unwrap();
    let registry = behaviors::register(Registry::new());
    let replayed = replay(&recording, &registry, None).unwrap();
    assert!(replayed.runs[0].divergence.is_none(), "{replayed:?}");
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_conversation_comes_back_wherever_a_crash_strikes() {
    let scenario = Scenario::new("desk", |builder, _| {
        let (desk, model) = returning();
        built(builder, desk, model)
    });
    let scenario = scenario
        .named("returning")
        .turn("80 euro and VAT?")
        .turn("thanks");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.crashes >= 10, "{report}");
}

#[tokio::test(start_paused = true)]
async fn who_takes_over_from_a_receiver_gives_back_in_its_place_and_a_problem_goes_back_too() {
    // Billing hands over for good, so what the tax office answers goes back to the desk; and what
    // it cannot do is the desk's to deal with.
    for (answer, told) in [
        (Outcome::answer("nineteen percent"), "tax is done."),
        (
            Outcome::escalated("no access"),
            "tax hands the problem back: no access",
        ),
    ] {
        let tax = Agent::from_fn("tax", move |_| {
            let answer = answer.clone();
            async move { Ok(answer) }
        });
        let billing = Agent::from_fn("billing", |_| async {
            Ok(Outcome::Transfer(Transfer::to("tax")))
        });
        let desk = Agent::from_fn("desk", |cx: RunContext| async move {
            Ok(match cx.returned_by() {
                None => Outcome::Transfer(Transfer::to("billing").returning()),
                Some(by) => {
                    let last = cx.conversation().last().map(|last| last.content());
                    assert_eq!(cx.request(), None);
                    Outcome::answer(format!("{by}: {}", last.unwrap_or_default()))
                }
            })
        });
        let desk = desk.agent(billing.agent(tax));
        let system = started(&InMemoryStore::new(), desk, ScriptedModel::hanging()).await;
        let (outcome, legs) = turn(&system.session("desk", "s"), "go").await;
        let expected = format!("tax: [You have this conversation again. {told}]");
        assert_eq!(outcome, Outcome::answer(expected));
        assert_eq!(legs, ["billing", "tax", "desk"]);
        system.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_for_ever_is_stopped_at_the_bound_on_transfers() {
    let billing = agent("billing").on_handoff(OnHandoff::new().returning());
    let desk = agent("desk").agent(billing);
    let model = playing(|name, _| match name {
        "desk" => hand_to("billing"),
        _ => "done".into(),
    });
    let (outcome, legs) = run(desk, model, Some(5)).await;
    assert_eq!(outcome.stop_reason(), Some(&StopReason::TransferLimit(5)));
    assert_eq!(legs, ["billing", "desk", "billing", "desk", "billing"]);
}

fn transfers(transfer: Transfer) -> Result<Outcome, AgentError> {
    Ok(Outcome::Transfer(transfer))
}

/// What a conversation says: of each message its author or role, and its text.
fn spoken(cx: &RunContext) -> Vec<String> {
    let say = |message: &Arc<Message>| {
        let who = message.author.clone();
        let who = who.unwrap_or_else(|| format!("{:?}", message.role));
        format!("{who}: {}", message.content())
    };
    cx.conversation().messages().iter().map(say).collect()
}

async fn answer_of(desk: Agent) -> Outcome {
    let system = started(&InMemoryStore::new(), desk, ScriptedModel::hanging()).await;
    let (outcome, _) = turn(&system.session("desk", "s"), "go").await;
    system.stop().await.unwrap();
    outcome
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_goes_back_is_said_in_its_agents_name_and_an_empty_one_is_not_said() {
    let told = "[You have this conversation again. tax is done.]";
    for (answer, said) in [
        ("nineteen", &["User: go", "tax: nineteen"][..]),
        ("", &["User: go"]),
    ] {
        let tax = Agent::from_fn("tax", move |_| async move { Ok(Outcome::answer(answer)) });
        let desk = Agent::from_fn("desk", |cx: RunContext| async move {
            match cx.returned_by() {
                None => transfers(Transfer::to("tax").returning()),
                Some(_) => Ok(Outcome::answer(spoken(&cx).join("|"))),
            }
        });
        let heard = answer_of(desk.agent(tax)).await;
        let expected = format!("{}|User: {told}", said.join("|"));
        assert_eq!(heard.text(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_gets_the_conversation_by_a_transfer_waits_for_it_no_more() {
    let billing = Agent::from_fn("billing", |_| async {
        transfers(Transfer::to("desk").request("yours"))
    });
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        match cx.request() {
            None => transfers(Transfer::to("billing").returning()),
            Some(_) => Ok(Outcome::answer("mine")),
        }
    });
    let system = started(
        &InMemoryStore::new(),
        desk.agent(billing),
        ScriptedModel::hanging(),
    )
    .await;
    let (outcome, legs) = turn(&system.session("desk", "s"), "go").await;
    assert_eq!(outcome, Outcome::answer("mine"));
    assert_eq!(legs, ["billing", "desk"]);
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_a_request_only_an_agent_that_sees_less_than_all_is_told_that_it_took_over() {
    for (sees, last) in [
        (Sees::All, "User: go"),
        (
            Sees::Spoken,
            "User: [You have taken over this conversation.]",
        ),
    ] {
        let billing = Agent::from_fn("billing", |cx: RunContext| async move {
            Ok(Outcome::answer(spoken(&cx).pop().unwrap_or_default()))
        });
        let billing = billing.on_handoff(OnHandoff::new().sees(sees));
        let desk = Agent::from_fn("desk", |_| async { transfers(Transfer::to("billing")) });
        let heard = answer_of(desk.agent(billing)).await;
        assert_eq!(heard.text(), last);
    }
}

#[tokio::test(start_paused = true)]
async fn of_what_agents_said_words_and_data_are_seen_and_one_agents_messages_are_one() {
    let desk = Agent::from_fn("desk", |_| async {
        let call = ToolCall::new("1", "look", "{}");
        let mut asks = Message::assistant("I look.").by("desk");
        asks.parts.push(Part::ToolCall(call.clone()));
        let mut data = Message::assistant(" ").by("desk");
        let source = DataSource::Url("https://example.com/bill.png".to_owned());
        data.parts.push(Part::Data(Data {
            media_type: "image/png".to_owned(),
            name: None,
            source,
        }));
        let said = [
            asks,
            Message::results([ToolResult::new(&call, ToolStatus::Success, "found")]),
            data,
            Message::assistant("And I say so.").by("clerk"),
        ];
        let said = said.into_iter().map(Arc::new).collect();
        transfers(Transfer::to("billing").with_messages(said))
    });
    let billing = Agent::from_fn("billing", |cx: RunContext| async move {
        let parts = |message: &Arc<Message>| {
            let who = message.author.clone().unwrap_or_default();
            format!(
                "{who} {:?}",
                message.parts.iter().map(kind).collect::<Vec<_>>()
            )
        };
        let seen = cx.conversation().messages();
        let seen: Vec<String> = seen.iter().map(parts).collect();
        Ok(Outcome::answer(seen.join("|")))
    });
    let billing = billing.on_handoff(OnHandoff::new().sees(Sees::Spoken));
    let heard = answer_of(desk.agent(billing)).await;
    let expected = r#" ["text"]|desk ["text", "data"]|clerk ["text"]| ["text"]"#;
    assert_eq!(heard.text(), expected);
}

fn kind(part: &Part) -> &'static str {
    match part {
        Part::Text(_) => "text",
        Part::Data(_) => "data",
        _ => "other",
    }
}

#[tokio::test(start_paused = true)]
async fn agents_of_the_longest_names_are_reached_by_tools_that_every_provider_takes() {
    let long = |name: &str| format!("{name}-{}", "x".repeat(63 - name.len()));
    let (below, beside) = (long("below"), long("beside"));
    let one = |name: &str| {
        let told = format!("You are {name}.");
        Agent::new(name).instructions(told).reach(Reach::Both)
    };
    let desk = Agent::new("desk").agent(one(&below)).agent(one(&beside));
    let model = ScriptedModel::from_reply_fn(|request, _| {
        let to = |prefix: &str, name: &str, argument: &str| {
            let of = |tool: &&Arc<ToolDefinition>| {
                tool.name.starts_with(prefix) && tool.description.contains(&format!(" {name}-x"))
            };
            let tool = request.tools.iter().find(of).unwrap();
            acts([(tool.name.as_str(), json!({ argument: "go on" }))])
        };
        let messages = request.conversation.messages();
        let mut results = messages.iter().flat_map(|message| message.tool_results());
        match &request.instructions {
            told if told.starts_with("You are below") => "did it".into(),
            told if told.starts_with("You are beside") => "did it all".into(),
            _ if results.any(|result| result.text == "did it") => {
                to("transfer_to_", "beside", "request")
            }
            _ => to("delegate_to_", "below", "task"),
        }
    });
    let (outcome, legs) = run(desk, model.clone(), None).await;
    assert_eq!(outcome, Outcome::answer("did it all"));
    assert_eq!(legs.last(), Some(&beside), "{legs:?}");
    let names: Vec<String> = model.requests()[0]
        .tools
        .iter()
        .map(|tool| tool.name.clone())
        .collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names.iter().all(|name| name.len() <= 64), "{names:?}");
}
