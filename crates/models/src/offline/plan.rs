//! The next step: which tools to call, or what to answer.

use std::sync::Arc;

use ghostlight_actors::{
    definition::{DELEGATE_PREFIX, TRANSFER_PREFIX},
    vocabulary::{Effect, ModelRequest, ToolCall, ToolChoice, ToolDefinition, ToolSet},
};
use serde_json::Value;

use super::{
    answering,
    arguments::arguments,
    text,
    turn::{CurrentTurn, MadeCall, Question},
};
use ghostlight_retrieval::{bm25::Bm25Index, terms::content_terms};

/// The most tools that are tried for one question.
const MAX_TRIES: usize = 3;

/// Words that describe calculators. A question with arithmetic in it implies them.
const ARITHMETIC_WORDS: &str = "calculate arithmetic math number expression percentage sum";
/// Words that describe searches. Any other question implies them.
const LOOKUP_WORDS: &str = "search find look documentation document information knowledge";
/// The weight of an implied word, relative to a word of the question.
const ARITHMETIC_WEIGHT: f64 = 2.0;
const LOOKUP_WEIGHT: f64 = 0.5;
/// The weight of an agent that takes the conversation over, relative to a tool that fits as well.
const TRANSFER_WEIGHT: f64 = 0.9;

/// The next action of the model.
pub(super) enum Plan {
    /// Call these tools.
    Call(Vec<ToolCall>),
    /// Give this answer.
    Answer(String),
}

/// The next step of one question.
enum Step {
    Call(Arc<ToolDefinition>, Value),
    Answered(String),
    /// No tool helped. Holds the failure of each call that was made.
    Failed(Vec<String>),
}

/// Decides by the request alone. A call that was already made is recognised by its name and
/// arguments, and is not repeated.
pub(super) fn plan(request: &ModelRequest) -> Plan {
    let turn = CurrentTurn::of(&request.conversation);
    let tools = match &request.settings.tool_choice {
        Some(ToolChoice::None) => ToolSet::default(),
        Some(ToolChoice::Tool(name)) => request.tools.get(name).cloned().into_iter().collect(),
        _ => request.tools.clone(),
    };
    let questions = turn.questions();
    let steps = questions
        .iter()
        .map(|question| step(question, &turn, &tools));
    let steps: Vec<Step> = steps.collect();
    let calls = calls(request, &steps);
    match calls.is_empty() {
        true => Plan::Answer(answer(&questions, steps, request)),
        false => Plan::Call(calls),
    }
}

/// Tries the best tools in order.
fn step(question: &Question, turn: &CurrentTurn, tools: &ToolSet) -> Step {
    let mut failures = Vec::new();
    for tool in nearest(tools, question) {
        if failures.len() >= MAX_TRIES {
            break;
        }
        // An agent that takes the conversation over gets the whole task.
        let text = match is_transfer(&tool.name) {
            true => &turn.task,
            false => &question.text,
        };
        let Some(arguments) = arguments(tool, text, &turn.task) else {
            continue;
        };
        let mut made = turn.made.iter();
        match made.find(|made| made.is(&tool.name, &arguments)) {
            None => return Step::Call(tool.clone(), arguments),
            // The other agent handed the conversation back, so it could not answer.
            Some(_) if is_transfer(&tool.name) => {}
            Some(made) => match answering::from_call(question, made) {
                Ok(answer) => return Step::Answered(answer),
                Err(failure) => failures.push(failure),
            },
        }
    }
    match other_call(question, turn).filter(|_| failures.is_empty()) {
        Some(answer) => Step::Answered(answer),
        None => Step::Failed(failures),
    }
}

/// An answer from a call by another agent, which then handed the conversation over.
fn other_call(question: &Question, turn: &CurrentTurn) -> Option<String> {
    let about = question.arithmetic.as_ref().unwrap_or(&question.text);
    let of_question = |made: &&MadeCall| {
        !is_transfer(&made.call.name) && made.call.arguments.text().contains(about.as_str())
    };
    let mut made = turn.made.iter().rev().filter(of_question);
    made.find_map(|made| answering::from_call(question, made).ok())
}

/// The tools that fit a question, the best first. Tools that fit equally well keep the order of the
/// request.
fn nearest<'t>(tools: &'t ToolSet, question: &Question) -> Vec<&'t Arc<ToolDefinition>> {
    let tools: Vec<&Arc<ToolDefinition>> = tools.iter().collect();
    let index = Bm25Index::new(tools.iter().map(|tool| words_of(tool)));
    let implied = match &question.arithmetic {
        Some(_) => (ARITHMETIC_WORDS, ARITHMETIC_WEIGHT),
        None if text::asks(&question.text) => (LOOKUP_WORDS, LOOKUP_WEIGHT),
        None => ("", 0.0),
    };
    let mut scores = vec![0.0; tools.len()];
    for (words, weight) in [(question.text.as_str(), 1.0), implied] {
        for hit in index.search(words, tools.len()) {
            scores[hit.document] += weight * hit.score;
        }
    }
    let mut ranked: Vec<(f64, &Arc<ToolDefinition>)> = Vec::new();
    for (tool, score) in tools.into_iter().zip(scores) {
        let nearness = match is_transfer(&tool.name) {
            true => TRANSFER_WEIGHT,
            false => 1.0,
        };
        if score > 0.0 && is_safe(tool, question) {
            ranked.push((score * nearness, tool));
        }
    }
    // A stable sort keeps the order of the request.
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.into_iter().map(|(_, tool)| tool).collect()
}

/// The words by which a tool is found. The words of its name are repeated, so that they count more.
fn words_of(tool: &ToolDefinition) -> String {
    let prefixes = [TRANSFER_PREFIX, DELEGATE_PREFIX];
    let agent = prefixes.iter().find_map(|of| tool.name.strip_prefix(of));
    if let Some(agent) = agent {
        // All agents' tools share the rest of the description.
        let own = tool.description.split_once(&format!("{agent}: "));
        return format!("{agent} {agent} {}", own.map_or("", |(_, own)| own));
    }
    let name = &tool.name;
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    let properties: Vec<&str> = properties
        .into_iter()
        .flat_map(|properties| properties.keys().map(String::as_str))
        .collect();
    format!(
        "{name} {name} {} {}",
        tool.description,
        properties.join(" ")
    )
}

/// Whether a tool may be called for this question. A tool that only reads and another agent may.
/// Any other tool must share a word of its name with the text, and the text must not be a question:
/// a stand-in does not act on a guess.
fn is_safe(tool: &ToolDefinition, question: &Question) -> bool {
    let said = content_terms(&question.text);
    let named = content_terms(&tool.name)
        .iter()
        .any(|term| said.contains(term));
    let delegates = is_transfer(&tool.name) || tool.name.starts_with(DELEGATE_PREFIX);
    tool.effect == Effect::Read || delegates || named && !text::asks(&question.text)
}

fn is_transfer(name: &str) -> bool {
    name.starts_with(TRANSFER_PREFIX)
}

/// The calls to make now. A transfer ends this agent's part in the run, so it is called alone and
/// last.
fn calls(request: &ModelRequest, steps: &[Step]) -> Vec<ToolCall> {
    let mut wanted: Vec<(&Arc<ToolDefinition>, &Value)> = Vec::new();
    for step in steps {
        if let Step::Call(tool, arguments) = step
            && !wanted.contains(&(tool, arguments))
        {
            wanted.push((tool, arguments));
        }
    }
    match wanted.iter().any(|(tool, _)| !is_transfer(&tool.name)) {
        true => wanted.retain(|(tool, _)| !is_transfer(&tool.name)),
        false => wanted.truncate(1),
    }
    if request.settings.parallel_tool_calls == Some(false) {
        wanted.truncate(1);
    }
    let messages = request.conversation.messages();
    let before: usize = messages.iter().map(|m| m.tool_calls().count()).sum();
    let numbered = wanted.into_iter().zip(before + 1..);
    numbered
        .map(|((tool, arguments), number)| {
            ToolCall::new(format!("offline-{number}"), &tool.name, arguments.clone())
        })
        .collect()
}

fn answer(questions: &[Question], steps: Vec<Step>, request: &ModelRequest) -> String {
    let mut answers: Vec<String> = Vec::new();
    let mut unfit: Vec<&str> = Vec::new();
    for (question, step) in questions.iter().zip(steps) {
        match step {
            Step::Answered(answer) if answers.contains(&answer) => {}
            Step::Answered(answer) => answers.push(answer),
            Step::Failed(failures) if !failures.is_empty() => {
                answers.push(format!("\"{}\": {}", question.text, failures.join(" ")));
            }
            Step::Failed(_) | Step::Call(..) => unfit.push(&question.text),
        }
    }
    if answers.is_empty() || !unfit.is_empty() {
        answers.push(limits(&unfit, request));
    }
    answers.join("\n\n")
}

/// Words by which the model knows an answer of its own again: where agents read each other's answers it would quote itself.
const OWN_WORDS: [&str; 5] = [
    "I am the offline model",
    "I have no tools here",
    "I hand a task to the tool or agent whose",
    "nothing fits \"",
    "Choose another model for more",
];
/// How many questions without an answer are quoted.
const MOST_UNFIT: usize = 2;

/// An answer that says what the model is, which tools it has, and that it can do no more.
fn limits(unfit: &[&str], request: &ModelRequest) -> String {
    let names: Vec<&str> = request.tools.iter().map(|t| t.name.as_str()).collect();
    let tools = match names.is_empty() {
        true => String::from("no tools here"),
        false => names.join(", "),
    };
    let unfit: Vec<String> = unfit
        .iter()
        .filter(|text| !OWN_WORDS.iter().any(|words| text.contains(words)))
        .take(MOST_UNFIT)
        .map(|text| format!("\"{}\"", beginning(text)))
        .collect();
    let nothing = match unfit.is_empty() {
        true => String::new(),
        false => format!("; nothing fits {}", unfit.join(" or ")),
    };
    format!(
        "I am the offline model: a built-in stand-in without a neural network. I hand a task to \
         the tool or agent whose description shares words with it, and repeat what comes back; \
         I cannot reason or write. I have {tools}{nothing}. Choose another model for more."
    )
}

/// The beginning of a text that may be long or have several lines.
fn beginning(text: &str) -> String {
    const MOST: usize = 120;
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None if line.len() < text.trim_end().len() => format!("{line}…"),
        None => line.to_owned(),
    }
}
