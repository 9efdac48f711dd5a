//! What to do next: which calls to make, or what to answer.

use std::sync::Arc;

use ghostlight_actors::vocabulary::{
    ModelRequest, ToolCall, ToolChoice, ToolDefinition, ToolSet, Transcript,
};
use serde_json::Value;

use super::{
    answering,
    question::{CurrentTurn, MadeCall, Part},
    routing::{self, Kind, Router},
    schema_filling::Filler,
};

/// How many tools are tried for one part.
const MAX_TRIES: usize = 3;
/// The share of a part's words that a result of somebody else's call must have to answer it.
const MIN_OVERLAP: f64 = 0.5;

/// What the model does.
pub(super) enum Plan {
    /// It asks for tools.
    Call(Vec<ToolCall>),
    /// It answers.
    Answer {
        /// What was asked.
        task: String,
        /// The answer.
        text: String,
    },
}

/// What becomes of one part of the task.
enum Step {
    /// A tool is to be called for it.
    Call(Arc<ToolDefinition>, Value),
    /// It has an answer.
    Answered(String),
    /// Nothing helped; what was tried says why.
    Failed(Vec<String>),
}

/// Decides by the request alone, so the same conversation always goes on the same way: a call
/// that was made is recognised by its name and arguments, and never asked for again.
pub(super) fn plan(request: &ModelRequest) -> Plan {
    let turn = CurrentTurn::of(&request.conversation);
    let parts = turn.parts();
    let allowed = allowed_tools(request);
    let router = Router::new(&allowed);
    let steps: Vec<Step> = parts
        .iter()
        .map(|part| step(part, &turn, &router))
        .collect();
    let calls = calls(request, &steps);
    if !calls.is_empty() {
        return Plan::Call(calls);
    }
    if turn.made.is_empty()
        && let Some(call) = forced_call(request, &turn)
    {
        return Plan::Call(vec![call]);
    }
    let text = answer(&parts, steps, request);
    let task = turn.task;
    Plan::Answer { task, text }
}

fn allowed_tools(request: &ModelRequest) -> ToolSet {
    match &request.settings.tool_choice {
        Some(ToolChoice::None) => ToolSet::default(),
        Some(ToolChoice::Tool(name)) => request.tools.get(name).cloned().into_iter().collect(),
        _ => request.tools.clone(),
    }
}

/// Tries the nearest tools in turn.
fn step(part: &Part, turn: &CurrentTurn, router: &Router<'_>) -> Step {
    let mut failures = Vec::new();
    for tool in router.ranked(part) {
        if failures.len() >= MAX_TRIES {
            break;
        }
        let Some(arguments) = arguments(tool, part, turn) else {
            continue;
        };
        let made = turn
            .made
            .iter()
            .find(|made| made.is(&tool.name, &arguments));
        match made {
            None => return Step::Call(tool.clone(), arguments),
            // It came back, so the other agent could not do it.
            Some(_) if routing::kind(&tool.name) == Kind::Transfer => {}
            Some(made) => match answering::from_result(part, made) {
                Some(answer) => return Step::Answered(answer),
                None => failures.push(failure(made)),
            },
        }
    }
    match failures.is_empty() {
        true => from_other_calls(part, turn).map_or(Step::Failed(failures), Step::Answered),
        false => Step::Failed(failures),
    }
}

fn failure(made: &MadeCall) -> String {
    match made.success() {
        Some(_) => format!("{} found nothing about it.", made.call.name),
        None => answering::from_failure(made),
    }
}

/// An answer from a call that this agent would not make, such as one of the agent that
/// transferred the conversation.
fn from_other_calls(part: &Part, turn: &CurrentTurn) -> Option<String> {
    let told = |made: &&MadeCall| routing::kind(&made.call.name) != Kind::Transfer;
    let of_part = |made: &&MadeCall| {
        let about = part.arithmetic.as_deref().unwrap_or(&part.text);
        let text = made.call.arguments.text();
        text.contains(about) || answering::overlap(part, text) >= MIN_OVERLAP
    };
    let mut made = turn.made.iter().rev().filter(told).filter(of_part);
    made.find_map(|made| answering::from_result(part, made))
}

fn arguments(tool: &ToolDefinition, part: &Part, turn: &CurrentTurn) -> Option<Value> {
    // An agent that takes the conversation over takes over the whole task.
    let text = match routing::kind(&tool.name) {
        Kind::Transfer => turn.task.as_str(),
        Kind::Tool | Kind::Delegate => part.text.as_str(),
    };
    let filled = Filler::arguments(&tool.parameters, text, &turn.task).fill()?;
    filled.is_object().then_some(filled)
}

/// The calls to make now. A transfer ends this agent's part in the run, so it comes alone and
/// after everything else.
fn calls(request: &ModelRequest, steps: &[Step]) -> Vec<ToolCall> {
    let mut wanted: Vec<(&Arc<ToolDefinition>, &Value)> = Vec::new();
    for step in steps {
        if let Step::Call(tool, arguments) = step
            && !wanted.contains(&(tool, arguments))
        {
            wanted.push((tool, arguments));
        }
    }
    let is_transfer = |tool: &Arc<ToolDefinition>| routing::kind(&tool.name) == Kind::Transfer;
    if wanted.iter().any(|(tool, _)| !is_transfer(tool)) {
        wanted.retain(|(tool, _)| !is_transfer(tool));
    } else {
        wanted.truncate(1);
    }
    if request.settings.parallel_tool_calls == Some(false) {
        wanted.truncate(1);
    }
    let first = calls_before(&request.conversation);
    let calls = wanted.into_iter().enumerate();
    calls
        .map(|(place, (tool, arguments))| call(first + place, tool, arguments.clone()))
        .collect()
}

/// The call that the request insists on although no part of the task leads to one.
fn forced_call(request: &ModelRequest, turn: &CurrentTurn) -> Option<ToolCall> {
    let mut tools: Vec<&Arc<ToolDefinition>> = match &request.settings.tool_choice {
        Some(ToolChoice::Tool(name)) => request.tools.get(name).into_iter().collect(),
        Some(ToolChoice::Required) => request.tools.iter().collect(),
        _ => return None,
    };
    let whole = Part::whole(&turn.task);
    let allowed: ToolSet = tools.iter().map(|tool| Arc::clone(tool)).collect();
    let nearest = Router::new(&allowed).ranked(&whole);
    let rank = |tool: &&Arc<ToolDefinition>| {
        let place = nearest.iter().position(|near| near.name == tool.name);
        place.unwrap_or(usize::MAX)
    };
    tools.sort_by_key(rank);
    let first = calls_before(&request.conversation);
    let mut calls = tools.into_iter().filter_map(|tool| {
        let arguments = arguments(tool, &whole, turn)?;
        Some(call(first, tool, arguments))
    });
    calls.next()
}

fn calls_before(conversation: &Transcript) -> usize {
    let messages = conversation.messages();
    messages
        .iter()
        .map(|message| message.tool_calls().count())
        .sum()
}

fn call(number: usize, tool: &ToolDefinition, arguments: Value) -> ToolCall {
    ToolCall::new(format!("offline-{}", number + 1), &tool.name, arguments)
}

fn answer(parts: &[Part], steps: Vec<Step>, request: &ModelRequest) -> String {
    let mut answers: Vec<String> = Vec::new();
    let mut unfit: Vec<&str> = Vec::new();
    for (part, step) in parts.iter().zip(steps) {
        match step {
            Step::Answered(answer) if answers.contains(&answer) => {}
            Step::Answered(answer) => answers.push(answer),
            Step::Failed(failures) if failures.is_empty() => unfit.push(&part.text),
            Step::Failed(failures) => {
                answers.push(format!("\"{}\": {}", part.text, failures.join(" ")));
            }
            // Without leave to call tools nothing is called.
            Step::Call(..) => unfit.push(&part.text),
        }
    }
    if answers.is_empty() || !unfit.is_empty() {
        answers.push(limits(&unfit, request));
    }
    answers.join("\n\n")
}

/// What the model is, what it has, and that it can do no more.
fn limits(unfit: &[&str], request: &ModelRequest) -> String {
    let mut text = String::from(
        "I am the offline model: a built-in stand-in without a neural network. I hand a task to \
         the tool or agent whose description shares words with it, and repeat what comes back; \
         I cannot reason or write.",
    );
    let names: Vec<&str> = request
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    let have = match names.is_empty() {
        true => String::from("I have no tools here"),
        false => format!("I have {}", names.join(", ")),
    };
    if unfit.is_empty() {
        text.push_str(&format!(" {have}."));
    } else {
        let parts: Vec<String> = unfit
            .iter()
            .map(|part| format!("\"{}\"", brief(part)))
            .collect();
        text.push_str(&format!(" {have}; nothing fits {}.", parts.join(" or ")));
    }
    text.push_str(" Choose another model for more.");
    text
}

/// The beginning of a text that may be long.
fn brief(text: &str) -> String {
    const MOST: usize = 120;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}
