//! Requests of AG-UI clients.

use std::collections::BTreeSet;

use axum::http::HeaderMap;
use ghostlight_actors::{
    session::Turn,
    vocabulary::{
        DataSource, Message, OperationId, Part, Question, QuestionKind, Role, RunId, ToolDefinition,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    api::turn_id,
    compatible::{answer_of, clients_tool},
    files::file,
    problem::Problem,
};

/// The most tools, answers and pieces of context of a request.
const MOST: usize = 128;

/// A request to run an agent (`RunAgentInput`). Fields that are not listed here are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunAgentInput {
    /// The session.
    pub(super) thread_id: String,
    /// The id of the turn: a request that is sent again under it is the same run.
    pub(super) run_id: String,
    /// The conversation. The last messages of the user are the turn; the team keeps the earlier ones itself.
    pub(super) messages: Vec<Value>,
    /// The client's tools.
    #[serde(default)]
    pub(super) tools: Option<Vec<Tool>>,
    /// The context that the agent should know besides the conversation.
    #[serde(default)]
    context: Option<Vec<Context>>,
    /// Answers to interrupts.
    #[serde(default)]
    resume: Option<Vec<ResumeEntry>>,
}

/// A tool of the client.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Tool {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    parameters: Option<Value>,
}

/// Something that the agent should know besides the conversation.
#[derive(Debug, Deserialize, JsonSchema)]
struct Context {
    description: String,
    value: String,
}

/// The answer to one interrupt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ResumeEntry {
    interrupt_id: String,
    status: ResumeStatus,
    #[serde(default)]
    payload: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ResumeStatus {
    Resolved,
    Cancelled,
}

/// A question's place: the run that asks, and its operation.
pub(super) type Asking = (RunId, OperationId);

/// The id of a question for clients, of an interrupt or of a call of the client's tool.
pub(super) fn id_of(run: RunId, operation: OperationId) -> String {
    format!("{run}_{operation}")
}

/// The question that such an id names.
pub(super) fn asking_of(id: &str) -> Option<Asking> {
    let (run, operation) = id.split_once('_')?;
    Some((run.parse().ok()?, operation.parse().ok()?))
}

/// An answer to a question of a run.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// The payload of an interrupt's answer.
    Payload(Value),
    /// The interrupt was given up.
    GivenUp,
    /// The result of a call.
    Result(Value),
}

/// The kind of a request.
#[derive(Debug)]
pub(super) enum Wanted {
    /// To send a turn.
    Turn(Box<Turn>),
    /// To answer questions, with words of the user beside the answers.
    Answers(Vec<(Asking, Answer)>, String),
    /// To see the thread.
    Look,
}

impl RunAgentInput {
    /// The names of the client's tools.
    pub(super) fn tool_names(&self) -> BTreeSet<String> {
        let tools = self.tools.iter().flatten();
        tools.map(|tool| tool.name.clone()).collect()
    }

    /// The change that the request asks of the thread.
    pub(super) fn wanted(&self) -> Result<Wanted, Problem> {
        let answers = self.answers()?;
        let parts = self.said()?;
        if !answers.is_empty() {
            let words: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
            return Ok(Wanted::Answers(answers, words.join("\n")));
        }
        if parts.is_empty() {
            return Ok(Wanted::Look);
        }
        self.turn(parts).map(|turn| Wanted::Turn(Box::new(turn)))
    }

    /// The client's messages after the last message of the agent.
    fn last(&self) -> &[Value] {
        let is_agents = |message: &Value| {
            let role = message["role"].as_str().unwrap_or_default();
            matches!(role, "assistant" | "reasoning" | "activity")
        };
        let before = self.messages.iter().rposition(is_agents);
        &self.messages[before.map_or(0, |at| at + 1)..]
    }

    fn said(&self) -> Result<Vec<Part>, Problem> {
        let mut parts = Vec::new();
        for message in self.last().iter().filter(|said| said["role"] == "user") {
            match &message["content"] {
                Value::String(text) if text.is_empty() => {}
                Value::String(text) => parts.push(Part::Text(text.clone())),
                Value::Array(content) => {
                    for given in content {
                        parts.push(part(given)?);
                    }
                }
                _ => return Err(Problem::invalid("a message of the user has no `content`")),
            }
        }
        Ok(parts)
    }

    fn turn(&self, said: Vec<Part>) -> Result<Turn, Problem> {
        let mut parts = Vec::new();
        let context = self.context.as_deref().unwrap_or_default();
        bounded("pieces of context", context.len())?;
        if !context.is_empty() {
            let mut text = String::from("What the client shows:\n");
            for Context { description, value } in context {
                text.push_str(&format!("- {description}: {value}\n"));
            }
            text.push_str("\nWhat the user says:\n");
            parts.push(Part::Text(text));
        }
        parts.extend(said);
        let mut message = Message::text(Role::User, "");
        message.parts = parts;
        let mut turn = Turn::from(message).streaming(true);
        if let Some(id) = turn_id(&HeaderMap::new(), Some(self.run_id.clone()))? {
            turn = turn.id(id);
        }
        let tools = self.tools.as_deref().unwrap_or_default();
        bounded("tools", tools.len())?;
        for tool in tools {
            turn = turn.tool(tool.definition()?);
        }
        Ok(turn)
    }

    fn answers(&self) -> Result<Vec<(Asking, Answer)>, Problem> {
        let mut answers = Vec::new();
        let resume = self.resume.as_deref().unwrap_or_default();
        bounded("answers", resume.len())?;
        for entry in resume {
            let asking = asking_of(&entry.interrupt_id).ok_or_else(|| {
                let id: String = entry.interrupt_id.chars().take(100).collect();
                Problem::not_found(format!("interrupt {id:?}"))
            })?;
            answers.push((
                asking,
                match entry.status {
                    ResumeStatus::Cancelled => Answer::GivenUp,
                    ResumeStatus::Resolved => {
                        Answer::Payload(entry.payload.clone().unwrap_or_default())
                    }
                },
            ));
        }
        for message in self.last().iter().filter(|said| said["role"] == "tool") {
            // Results of the agent's own tools stand there, too; their calls have other ids.
            let Some(asking) = message["toolCallId"].as_str().and_then(asking_of) else {
                continue;
            };
            let text = text_of(&message["content"]);
            let result = match message["error"].as_str() {
                Some(error) if text.is_empty() => json!({ "error": error }),
                Some(error) => json!({ "error": format!("{error}\n{text}") }),
                None => Value::String(text),
            };
            answers.push((asking, Answer::Result(result)));
        }
        Ok(answers)
    }
}

impl Tool {
    fn definition(&self) -> Result<ToolDefinition, Problem> {
        let name = &self.name;
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if !(1..=64).contains(&name.len()) || !name.chars().all(fits) {
            let name: String = name.chars().take(64).collect();
            return Err(Problem::invalid(format!(
                "{name:?} is not a name of a tool: it has 1 to 64 of A-Z a-z 0-9 _ -"
            )));
        }
        let schema = self.parameters.clone().filter(Value::is_object);
        let schema = schema.unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
        Ok(clients_tool(name, &self.description, schema))
    }
}

fn bounded(what: &str, count: usize) -> Result<(), Problem> {
    if count <= MOST {
        return Ok(());
    }
    let detail = format!("a request has at most {MOST} {what}");
    Err(Problem::invalid(detail))
}

/// The text of a message's content.
fn text_of(content: &Value) -> String {
    let parts = match content {
        Value::String(text) => return text.clone(),
        Value::Array(parts) => parts,
        _ => return String::new(),
    };
    let texts = parts.iter().map(|part| match part["text"].as_str() {
        Some(text) => text.to_owned(),
        None => part.to_string(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn part(given: &Value) -> Result<Part, Problem> {
    let fault = || Problem::invalid("a part of a message says less than its type needs");
    let kind = given["type"].as_str().unwrap_or_default();
    match kind {
        "text" => {
            let text = given["text"].as_str().ok_or_else(fault)?;
            Ok(Part::Text(text.to_owned()))
        }
        "image" | "audio" | "video" | "document" => {
            let source = &given["source"];
            let value = source["value"].as_str().ok_or_else(fault)?.to_owned();
            let media_type = source["mimeType"].as_str().map(str::to_owned);
            let source = match source["type"].as_str() {
                Some("data") => DataSource::Base64(value),
                Some("url") => DataSource::Url(value),
                _ => {
                    let detail = "a file at a provider is out of reach: send its bytes or its URL";
                    return Err(Problem::invalid(detail));
                }
            };
            let any = || match kind {
                "document" => "application/octet-stream".to_owned(),
                kind => format!("{kind}/*"),
            };
            file(media_type.unwrap_or_else(any), None, source)
        }
        other => {
            let other: String = other.chars().take(32).collect();
            Err(Problem::invalid(format!(
                "a part of type {other:?} is none of text, image, audio, video and document"
            )))
        }
    }
}

/// The answer to a question in the engine's form; `None` where the run is to be cancelled.
pub(super) fn value_of(question: &Question, answer: Answer) -> Result<Option<Value>, Problem> {
    use QuestionKind::{Approval, Authentication, Confirmation, InDoubt, ToolResult};
    let payload = match answer {
        Answer::Result(value) if question.kind == ToolResult => return Ok(Some(value)),
        Answer::Result(_) => {
            let detail = "the run asks for no result of a call there: answer the interrupt";
            return Err(Problem::invalid(detail));
        }
        Answer::GivenUp => {
            let has_no = matches!(
                question.kind,
                Approval | Confirmation | InDoubt | Authentication
            );
            return Ok(has_no.then_some(Value::Bool(false)));
        }
        Answer::Payload(payload) => payload,
    };
    Ok(Some(match (question.kind, payload) {
        (Approval | Confirmation | InDoubt, Value::String(text)) => answer_of(question, &text)?,
        (Approval, Value::Object(mut decision)) => {
            // The protocol's name for the arguments that are to be used.
            if let Some(edited) = decision.remove("editedArgs") {
                decision.insert("arguments".to_owned(), edited);
            }
            match (decision.len(), decision.get("approved")) {
                (1, Some(approved)) => approved.clone(),
                _ => Value::Object(decision),
            }
        }
        (Confirmation | InDoubt, Value::Object(decision)) => {
            match (decision.get("approved"), decision.get("confirmed")) {
                (Some(yes), None) | (None, Some(yes)) => yes.clone(),
                _ => Value::Object(decision),
            }
        }
        (_, payload) => payload,
    }))
}
