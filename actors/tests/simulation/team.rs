//! Teams that are drawn from a seed: what their agents do, how often and side by side with what.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use ghostlight_actors::{
    contract::{Reconciled, SeededEntropy, Tool, ToolContext, ToolError, ToolOutput},
    run::{
        Agent, RunContext, Task,
        operations::{AgentMessage, Scope, Subscription},
    },
    testing::{EffectLog, LoggedTool, Scenario, ScriptedModel},
    vocabulary::{
        AgentError, Answer, Arguments, Effect, InDoubt, Message, ModelRequest, ModelResponse,
        Outcome, Question, Role, ToolCall, ToolDefinition, Transfer, Usage,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    drawn::{Counting, talk},
    plan::{Draw, End, Plan, Step, TOOLS},
};

/// What a parent tells its child; 0 is the last.
#[derive(Debug, Serialize, Deserialize)]
struct Word(u64);

impl AgentMessage for Word {
    const NAME: &'static str = "word";
}

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    pieces: u64,
}

impl AgentMessage for Order {
    const NAME: &'static str = "order";
}

/// The work of one seed.
pub(crate) fn scenario(seed: u64) -> Scenario {
    let draw = Draw(SeededEntropy::new(seed.rotate_left(32) ^ 0x6768_6f73_7400));
    let (plan, turns) = (Arc::new(draw.plan()), 1 + draw.below(2));
    let orders = plan.lead.iter().filter(|s| matches!(s, Step::Receive));
    // A run that goes on in another journal receives there too.
    let orders = orders.count() * if plan.end == End::GoOn { 2 } else { 1 };
    let of = plan.clone();
    let lives = AtomicU32::new(0);
    let mut scenario = Scenario::new("lead", move |builder, log| {
        // The code of the first process is older than that of the others.
        let work = Work {
            plan: of.clone(),
            log,
            is_changed: lives.fetch_add(1, Ordering::SeqCst) > 0,
        };
        let team = team(&work).into_team().unwrap();
        builder.model("default", model()).team(team)
    });
    for turn in 0..turns {
        scenario = scenario.turn(format!("turn {turn}"));
    }
    for pieces in 0..orders as u64 {
        scenario = scenario.message(&Order { pieces });
    }
    scenario
        .named("a drawn team")
        .answers(|question| match question.options.first() {
            Some(first) => json!(first),
            None => json!(!question.prompt.contains("no")),
        })
}

/// What agents go by in one process.
#[derive(Clone)]
struct Work {
    plan: Arc<Plan>,
    log: EffectLog,
    /// Whether its code has what was added.
    is_changed: bool,
}

fn watched(agent: Agent, plan: &Plan) -> Agent {
    match plan.is_watched {
        true => agent.policy("counting", Counting::default),
        false => agent,
    }
}

fn team(work: &Work) -> Agent {
    let (plan, log) = (&work.plan, &work.log);
    let tool = |name: &str, effect, millis| {
        let definition = ToolDefinition::new(name, "is logged").effect(effect);
        let definition = match name {
            "wipe" => definition.approval("Wipe {id}?"),
            "charge" => definition.in_doubt(InDoubt::AskPerson),
            _ => definition,
        };
        log.tool(definition, Duration::from_millis(millis))
    };
    let (leads, helps, closes) = (work.clone(), work.clone(), work.clone());
    let helper = Agent::from_fn("helper", move |cx: RunContext| {
        let work = helps.clone();
        async move {
            let said = follow(&cx, &work.plan.helper, &work).await?;
            let task = cx.input().content();
            match work.plan.helper_end {
                End::GoOn if !task.starts_with("on with ") => {
                    Ok(cx.continue_as(format!("on with {task}")))
                }
                End::HandOver => Ok(handed_over("helper")),
                _ if task.ends_with("fail") => Err(AgentError::failed("as it was asked")),
                _ => Ok(Outcome::answer(said)),
            }
        }
    });
    let asker = Agent::from_fn("asker", |cx: RunContext| async move {
        let answer = cx.ask(Question::choice("Which?", ["red", "blue"])).await?;
        Ok(Outcome::answer(answer.to_string()))
    });
    let ear = Agent::from_fn("ear", |cx: RunContext| async move {
        let heard = cx.input().content();
        Ok(match cx.receive().await? {
            Word(0) => Outcome::answer(heard),
            Word(word) => cx.continue_as(format!("{heard} {word}")),
        })
    });
    let reader = Agent::from_fn("reader", |cx: RunContext| async move {
        let mut queue = cx
            .topic::<u64>(cx.input().content())
            .subscribe(few())
            .await?;
        let mut read = Vec::new();
        while read.len() < 3 {
            cx.sleep(Duration::from_millis(40)).await?;
            read.push(queue.next().await?.event.to_string());
        }
        Ok(Outcome::answer(read.join(" ")))
    });
    let deep = Agent::from_fn("deep", |cx: RunContext| async move {
        Ok(Outcome::answer(cx.delegate("asked", "which").await?.text))
    });
    let asked = Agent::from_fn("asked", |cx: RunContext| async move {
        let answer = cx.ask(Question::confirmation("Shall it be no?")).await?;
        Ok(Outcome::answer(answer.to_string()))
    });
    let closer = Agent::from_fn("closer", move |cx: RunContext| {
        let work = closes.clone();
        async move {
            Ok(Outcome::answer(
                follow(&cx, &work.plan.closer, &work).await?,
            ))
        }
    });
    let lead = Agent::from_fn("lead", move |cx: RunContext| {
        let work = leads.clone();
        async move { lead(cx, &work).await }
    });
    let reconciled = |name, effect, millis| Remembering {
        log: log.clone(),
        inner: tool(name, effect, millis),
    };
    watched(lead, plan)
        .tool(tool("look", Effect::Read, 10))
        .tool(tool("put", Effect::Idempotent, 60))
        .tool(tool("charge", Effect::Once, 80))
        .tool(reconciled("wipe", Effect::Once, 40))
        .tool(tool("order", Effect::Once, 20).later())
        .agent(watched(with_tools(helper), plan))
        .agent(asker)
        .agent(deep.agent(asked))
        .agent(ear)
        .agent(reader)
        .agent(with_tools(closer))
}

/// A queue that holds up who publishes.
fn few() -> Subscription {
    Subscription::new("few").capacity(1)
}

fn with_tools(agent: Agent) -> Agent {
    TOOLS[..5]
        .iter()
        .fold(agent, |agent, tool| agent.tool_named(*tool))
}

type Ended = Result<Outcome, AgentError>;

async fn lead(cx: RunContext, work: &Work) -> Ended {
    let said = follow(&cx, &work.plan.lead, work).await?;
    match work.plan.end {
        End::HandOver => Ok(handed_over("lead")),
        End::GoOn if cx.input().content() != "and on" => Ok(cx.continue_as("and on")),
        End::Fail => Err(AgentError::failed("it was drawn to fail")),
        _ => {
            let messages = vec![Arc::new(Message::assistant(said.clone()).by("lead"))];
            Ok(Outcome::Answer(Answer::text(said).with_messages(messages)))
        }
    }
}

fn handed_over(by: &str) -> Outcome {
    let said = vec![Arc::new(Message::assistant("one moment").by(by))];
    Outcome::Transfer(Transfer::to("closer").with_messages(said).request("close"))
}

/// Takes the steps, and tells all that came of them, so that a result that reached the function
/// otherwise than it is recorded shows in the outcome.
async fn follow(cx: &RunContext, steps: &[Step], work: &Work) -> Result<String, AgentError> {
    let mut said = String::from("done:");
    for (number, step) in steps.iter().enumerate() {
        let told = match take(cx, number, step, work).await {
            Ok(told) => told,
            // A failed operation is told; what ends the function ends it.
            Err(AgentError::Operation(error)) => format!("{:?}", error.kind),
            Err(error) => return Err(error),
        };
        said.push_str(&format!(" {told}"));
    }
    Ok(said)
}

fn call(name: &str, number: usize, place: usize) -> ToolCall {
    let id = format!("{number}-{place}");
    ToolCall::new(id.clone(), name, json!({"id": id}))
}

async fn take(
    cx: &RunContext,
    number: usize,
    step: &Step,
    work: &Work,
) -> Result<String, AgentError> {
    Ok(match step {
        Step::Tools(names) => {
            let calls = names.iter().enumerate();
            let calls = calls.map(|(place, name)| call(name, number, place));
            let results = cx.tools(calls).await?;
            let texts = results.iter().map(|r| format!("{:?} {}", r.status, r.text));
            texts.collect::<Vec<_>>().join(",")
        }
        Step::Talk => talk(cx).await?,
        Step::Delegate(names) => {
            let mut children: FuturesUnordered<_> = names
                .iter()
                .enumerate()
                .map(|(place, name)| {
                    let task = if place == 2 { "fail" } else { "help" };
                    cx.delegate(*name, task)
                })
                .collect();
            let mut texts = Vec::new();
            while let Some(child) = children.next().await {
                texts.push(match child {
                    Ok(done) => done.text,
                    Err(AgentError::Operation(error)) => error.to_string(),
                    Err(error) => return Err(error),
                });
            }
            texts.join(",")
        }
        Step::Spawn => {
            let child = cx.spawn("helper", "beside").await?;
            cx.sleep(Duration::from_millis(50)).await?;
            cx.join(&child).await?.text
        }
        Step::Tell => {
            let child = cx.spawn("ear", "heard").await?;
            for word in [1, 2, 3, 0] {
                cx.tell(&child, &Word(word)).await?;
                cx.sleep(Duration::from_millis(number as u64 * 20)).await?;
            }
            let heard = cx.join(&child).await?.outcome;
            // One that was stopped has heard less.
            if let Outcome::Answer(answer) = &heard {
                assert_eq!(answer.text, "heard 1 2 3");
            }
            heard.text().to_owned()
        }
        Step::Ask => {
            let question = Question::choice("Which?", ["red", "blue"]);
            cx.ask(question).await?.to_string()
        }
        Step::Sleep(millis) => {
            let before = cx.now().await?;
            cx.sleep(Duration::from_millis(*millis)).await?;
            let slept = cx.now().await?.since(before).as_millis();
            format!("{}", slept >= u128::from(*millis))
        }
        Step::Receive => cx.receive::<Order>().await?.pieces.to_string(),
        Step::Race => {
            let (fast, slow) = (cx.lane("fast"), cx.lane("slow"));
            let calls = vec![
                fast.tool_unasked(call("look", number, 0)),
                slow.tool_unasked(call("put", number, 1)),
            ];
            let (place, result) = cx.race(calls).await;
            let late = cx.timeout(Duration::from_millis(30), cx.sleep(Duration::from_secs(5)));
            let late = late.await.is_err();
            format!("{place} {:?} {late}", result?.status)
        }
        Step::Count => {
            let total = cx.state(Scope::App);
            let changes =
                (0..2).map(|_| total.update("count", |n: Option<u64>| n.unwrap_or(0) + 1));
            let changes: Vec<_> = changes.collect();
            let mut counted = VecDeque::new();
            for change in join_all(changes).await {
                counted.push_back(change?);
            }
            format!("{counted:?}")
        }
        Step::Remember => {
            let memory = cx.memory();
            memory.set("last", &number).await?;
            let last: Option<usize> = memory.get("last").await?;
            format!("{last:?}")
        }
        Step::Emit => {
            cx.emit("step", &json!({"number": number}));
            String::from("told")
        }
        Step::Own => {
            let (log, key) = (work.log.clone(), format!("{}/own-{number}", cx.run()));
            let act = async move {
                let brief = Duration::from_millis(20);
                log.perform(key, "own", Effect::Idempotent, brief).await;
                Ok::<_, std::convert::Infallible>(number)
            };
            cx.step("own", Effect::Idempotent, act).await?.to_string()
        }
        Step::Draw => format!("{:.3} {}", cx.random().await?, cx.uuid().await?),
        Step::Undo => {
            cx.on_cancel(call("put", number, 9));
            String::from("can be undone")
        }
        Step::Long => {
            let mut last = 0.0;
            for _ in 0..48 {
                last = cx.random().await?;
            }
            format!("{last:.3}")
        }
        Step::Added => {
            let added = work.is_changed && cx.version(format!("added {number}"), 1).await? > 0;
            match added {
                true => cx.tool_unasked(call("look", number, 7)).await?.text,
                false => String::from("as it was"),
            }
        }
        Step::Nested => cx.delegate("deep", "ask").await?.text,
        Step::Publish => {
            let name = format!("{number} {}", cx.input().content());
            let topic = cx.topic::<u64>(&name);
            // The queue is there before its reader is, so that no event is missed.
            topic.subscribe(few()).await?;
            let reader = cx.spawn("reader", name).await?;
            for event in 1..=3 {
                // A reader that failed leaves this run as the queue's one member, so that it would wait
                // for itself.
                let published = cx.timeout(Duration::from_secs(20), topic.publish(&event));
                let Ok(published) = published.await else {
                    return Ok(String::from("nobody reads"));
                };
                published?;
            }
            let read = cx.join(&reader).await?.outcome;
            if let Outcome::Answer(answer) = &read {
                assert_eq!(answer.text, "1 2 3");
            }
            read.text().to_owned()
        }
        Step::Leave(policy) => {
            let task = Task::from("beside").when_parent_ends(*policy);
            cx.spawn("helper", task).await?;
            String::from("left")
        }
    })
}

/// Asks for tools at first, one of which does not exist and one with arguments that are no JSON,
/// and then answers. What it says depends on the conversation alone.
fn model() -> ScriptedModel {
    let usage = Usage {
        input_tokens: 11,
        output_tokens: 7,
        ..Usage::default()
    };
    let model = ScriptedModel::from_fn(|request: &ModelRequest, _| {
        let messages = request.conversation.messages();
        let since = messages.iter().rev().take_while(|m| m.role != Role::User);
        let turns = since.filter(|m| m.role == Role::Assistant).count();
        let place = messages.len();
        Ok(match turns {
            0 => ModelResponse::tool_calls([
                call("look", place, 0),
                call("charge", place, 1),
                call("nothing", place, 2),
            ]),
            1 => {
                let mut broken = call("put", place, 0);
                broken.arguments = Arguments::from_text("{\"id\": ");
                ModelResponse::tool_calls([broken, call("put", place, 1)])
            }
            _ => ModelResponse::text(format!("after {place} messages")),
        })
    });
    model.usage(usage)
}

/// A `once` tool that can say what became of a call.
#[derive(Debug)]
struct Remembering {
    log: EffectLog,
    inner: LoggedTool,
}

impl Tool for Remembering {
    fn definition(&self) -> ToolDefinition {
        self.inner.definition()
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.inner.call(arguments, cx).await
    }

    async fn reconcile(&self, _: &ToolCall, cx: ToolContext) -> Reconciled {
        let key = cx.idempotency_key();
        let effects = self.log.effects();
        match effects.iter().find(|effect| effect.key == key) {
            Some(effect) if effect.ended => Reconciled::Happened(ToolOutput::text("it happened")),
            _ => Reconciled::Unknown,
        }
    }
}
