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
    contract::{Entropy, Reconciled, SeededEntropy, Tool, ToolContext, ToolError, ToolOutput},
    run::{
        Agent, BeforeTool, Policy, PolicyContext, RunContext,
        operations::{AgentMessage, Scope},
    },
    testing::{EffectLog, LoggedTool, Scenario, ScriptedModel},
    vocabulary::{
        AgentError, Answer, Arguments, Effect, InDoubt, Message, ModelRequest, ModelResponse,
        Outcome, Question, Role, ToolCall, ToolDefinition, ToolResult, Transfer, Usage,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What agents do, one after the other.
#[derive(Clone, Debug)]
enum Step {
    /// Some calls of tools, side by side.
    Tools(Vec<&'static str>),
    /// A conversation with a model, with the tools that it asks for.
    Talk,
    /// Some children, side by side.
    Delegate(Vec<&'static str>),
    /// A child that goes on beside the next steps, and is waited for.
    Spawn,
    /// A child that goes on in a journal for each word that it is told.
    Tell,
    Ask,
    Sleep(u64),
    Receive,
    /// Two branches, of which one wins.
    Race,
    Count,
    Remember,
    Emit,
    /// An effect of the function's own.
    Own,
    Draw,
    /// What is to be called when the run is cancelled.
    Undo,
    /// More operations than a runtime polls in one go.
    Long,
    /// What the first process's code does not have, and that of all later ones does.
    Added,
    /// A child whose own child asks a person.
    Nested,
}

/// How the first agent of a run ends it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Answer,
    HandOver,
    GoOn,
    Fail,
}

#[derive(Debug)]
struct Plan {
    lead: Vec<Step>,
    helper: Vec<Step>,
    closer: Vec<Step>,
    end: End,
    /// Whether the helper goes on in another journal.
    helper_goes_on: bool,
    /// Whether a policy watches over the agents.
    is_watched: bool,
}

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

struct Draw(SeededEntropy);

impl Draw {
    fn below(&self, bound: u64) -> u64 {
        (self.0.bits() % u128::from(bound)) as u64
    }

    fn one_of<T: Copy>(&self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn some_of<T: Copy>(&self, of: &[T], most: u64) -> Vec<T> {
        let many = 1 + self.below(most);
        (0..many).map(|_| self.one_of(of)).collect()
    }

    fn step(&self, deep: bool) -> Step {
        match self.below(if deep { 22 } else { 11 }) {
            0..3 => Step::Tools(self.some_of(&TOOLS, 3)),
            3 | 4 => Step::Talk,
            5 => Step::Sleep(self.below(1_200)),
            6 => Step::Count,
            7 => Step::Remember,
            8 => Step::Own,
            9 => Step::Draw,
            10 => Step::Emit,
            11 => Step::Ask,
            12 => Step::Receive,
            13 => Step::Race,
            14 => Step::Spawn,
            15 | 16 => Step::Tell,
            17 => Step::Undo,
            18 => Step::Long,
            19 => Step::Nested,
            _ => Step::Added,
        }
    }

    fn plan(&self) -> Plan {
        let steps = |most, deep| (0..1 + self.below(most)).map(|_| self.step(deep)).collect();
        let mut lead: Vec<Step> = steps(5, true);
        // Children make a tree of it, so most have some.
        if self.below(3) > 0 {
            let place = self.below(lead.len() as u64 + 1) as usize;
            lead.insert(place, Step::Delegate(self.some_of(&CHILDREN, 3)));
        }
        // A message that comes twice shows only where another one is received later.
        if lead.iter().any(|step| matches!(step, Step::Receive)) {
            lead.extend([Step::Sleep(self.below(1_200)), Step::Receive]);
        }
        Plan {
            lead,
            helper: steps(3, false),
            closer: steps(2, false),
            end: self.one_of(&[
                End::Answer,
                End::Answer,
                End::Answer,
                End::HandOver,
                End::GoOn,
                End::Fail,
            ]),
            helper_goes_on: self.below(3) == 0,
            is_watched: self.below(2) == 0,
        }
    }
}

const TOOLS: [&str; 6] = ["look", "put", "charge", "wipe", "order", "nothing"];
const CHILDREN: [&str; 3] = ["helper", "asker", "nobody"];

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

/// Holds back each fourth call, and changes each third result.
#[derive(Default)]
struct Counting {
    calls: u32,
    results: u32,
}

impl Policy for Counting {
    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        self.calls += 1;
        let drawn = cx.random().await?;
        Ok(match self.calls % 4 {
            0 => BeforeTool::blocked(call, format!("held back, {drawn:.3}")),
            _ => BeforeTool::Go,
        })
    }

    async fn after_tool(
        &mut self,
        _cx: &PolicyContext<'_>,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Result<Option<ToolResult>, AgentError> {
        self.results += 1;
        let text = format!("{}, result {}", result.text, self.results);
        let is_third = self.results.is_multiple_of(3);
        Ok(is_third.then(|| ToolResult::new(call, result.status, text)))
    }
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
            if work.plan.helper_goes_on && !task.starts_with("on with ") {
                return Ok(cx.continue_as(format!("on with {task}")));
            }
            if task.ends_with("fail") {
                return Err(AgentError::failed("as it was asked"));
            }
            Ok(Outcome::answer(said))
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
        .agent(with_tools(closer))
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
        End::HandOver => {
            let said = vec![Arc::new(Message::assistant("one moment").by("lead"))];
            Ok(Outcome::Transfer(
                Transfer::to("closer").with_messages(said).request("close"),
            ))
        }
        End::GoOn if cx.input().content() != "and on" => Ok(cx.continue_as("and on")),
        End::Fail => Err(AgentError::failed("it was drawn to fail")),
        _ => {
            let messages = vec![Arc::new(Message::assistant(said.clone()).by("lead"))];
            Ok(Outcome::Answer(Answer::text(said).with_messages(messages)))
        }
    }
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
            let (fast, slow) = (cx.branch("fast"), cx.branch("slow"));
            let calls = vec![
                fast.tool(call("look", number, 0)),
                slow.tool(call("put", number, 1)),
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
                true => cx.tool(call("look", number, 7)).await?.text,
                false => String::from("as it was"),
            }
        }
        Step::Nested => cx.delegate("deep", "ask").await?.text,
    })
}

/// The loop that agents with tools are made of.
async fn talk(cx: &RunContext) -> Result<String, AgentError> {
    let mut conversation = cx.conversation();
    for _ in 0..4 {
        let request = cx.model_request(conversation.clone()).streaming();
        let response: ModelResponse = cx.model(request).await?;
        conversation.push(response.message.clone());
        let calls: Vec<ToolCall> = response.message.tool_calls().cloned().collect();
        let over = calls.is_empty();
        if !over {
            conversation.push(Message::results(cx.tools(calls).await?));
        }
        for said in &response.steering {
            conversation.push(said.clone());
        }
        if over && response.steering.is_empty() {
            return Ok(response.message.content());
        }
    }
    Ok(String::from("talked enough"))
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
