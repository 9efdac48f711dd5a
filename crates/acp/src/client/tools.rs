//! The operations on an agent in a process as tools, so that each of them is recorded, bounded, shown and refused like any
//! other call.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use ghostlight_actors::{
    contract::{
        BoxFuture, Credential, Reconciled, Tool, ToolContext, ToolError, ToolHandle, ToolOutput,
        Toolset,
    },
    vocabulary::{Arguments, Continuation, Effect, Question, RunId, ToolCall, ToolDefinition},
};
use ghostlight_safety::is_secret_key;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    CANCEL, OPEN, PROMPT, ProcessOptions,
    process::{Failure, Process},
    prompt::{Answers, Bounds, Ended, UnderWay},
    tool_name,
};
use crate::{
    protocol::{ContentBlock, PromptRequest},
    translation::IDEMPOTENCY_KEY,
};

/// How many processes of one agent may work at once; further requests wait.
const MAX_PROCESSES: usize = 16;
/// How many processes of one agent may wait for people besides.
const MAX_HELD: usize = 256;
/// How often a process that dies in the middle of a prompt is started again.
const RESTARTS: u32 = 3;
/// The pause before the first of these starts; before each further one it is twice as long.
const PAUSE: Duration = Duration::from_millis(250);
/// How long after the task's time limit its call is aborted.
const SLACK: Duration = Duration::from_secs(150);
/// How long opening and cancelling may take.
const SHORT: Duration = Duration::from_secs(150);
/// The most characters of a result.
const OUTPUT_LIMIT: u32 = 2 << 20;
/// How many questions one prompt may ask.
const MAX_QUESTIONS: usize = 100;

/// The tools of an agent in a process; their names begin with the name of its member of the team.
#[derive(Debug)]
pub struct ProcessToolset {
    tools: Vec<ToolHandle>,
    elsewhere: Elsewhere,
}

impl ProcessToolset {
    /// The tools of the member with this name. No process is started yet.
    pub fn new(agent: &str, settings: ProcessOptions) -> Self {
        let elsewhere = Elsewhere {
            agent: agent.to_owned(),
            settings: Arc::new(settings),
            processes: Arc::new(Semaphore::new(MAX_PROCESSES)),
            held: Held::default(),
        };
        let tools = vec![
            ToolHandle::new(Open(elsewhere.clone())),
            ToolHandle::new(Prompt(elsewhere.clone())),
            ToolHandle::new(Cancel(elsewhere.clone())),
        ];
        Self { tools, elsewhere }
    }
}

impl Toolset for ProcessToolset {
    fn tools(&self) -> Result<Vec<ToolHandle>, ToolError> {
        Ok(self.tools.clone())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let held = std::mem::take(&mut *self.elsewhere.held.0.lock());
            for waiting in held.into_values() {
                waiting.under_way.end().await;
            }
        })
    }
}

/// The message, and its session.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToSay {
    /// The session.
    pub(super) session: String,
    /// The message.
    pub(super) prompt: Vec<Value>,
}

/// One session.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InSession {
    /// Its id.
    pub(super) session: String,
}

/// Nothing.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Clone, Debug)]
struct Elsewhere {
    agent: String,
    settings: Arc<ProcessOptions>,
    processes: Arc<Semaphore>,
    held: Held,
}

/// The prompts whose agent waits until a person has answered, by their names. The ids of sessions are the agent's, and two
/// of its processes may choose the same.
#[derive(Clone, Default)]
struct Held(Arc<Mutex<HashMap<String, Waiting>>>);

/// A prompt whose agent waits, with its process.
struct Waiting {
    run: RunId,
    session: String,
    under_way: UnderWay,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.0.lock().len()).finish()
    }
}

impl Elsewhere {
    fn definition(&self, what: &str, about: &str) -> ToolDefinition {
        ToolDefinition::new(tool_name(&self.agent, what), about).output_limit(OUTPUT_LIMIT)
    }

    /// The secrets in the environment of the process, which the agent may repeat.
    fn secrets(&self) -> Vec<Credential> {
        let named = self.settings.environment.iter();
        let named = named.filter(|(name, _)| is_secret_key(name));
        let revealed = named.filter_map(|(name, value)| Some((name, value().ok()?)));
        revealed
            .flat_map(|(name, value)| Credential::of_header(name, &value))
            .collect()
    }

    /// The directory that sessions name: an absolute path.
    fn directory(&self) -> Result<String, ToolError> {
        let directory = match &self.settings.directory {
            Some(directory) => std::path::absolute(directory)?,
            None => std::env::current_dir()?,
        };
        let directory = directory.to_str().map(str::to_owned);
        directory.ok_or_else(|| ToolError::new("the agent's directory is not text"))
    }

    /// Starts a process that has opened the session of a prompt, which is not sent yet.
    async fn begin(&self, request: &PromptRequest) -> Result<UnderWay, Failure> {
        let directory = self.directory();
        let directory = directory.map_err(|error| Failure::NotStarted(error.to_string()))?;
        let mut process = Process::start(&self.settings).await?;
        process.open_session(&request.session_id, directory).await?;
        Ok(UnderWay::new(process, request.clone()))
    }

    /// Says something once, in a process of its own; or continues with the process that waited for the answers. Says also whether
    /// the process waits for an answer now.
    async fn say(
        &self,
        request: &PromptRequest,
        kept: &Kept,
        cx: &ToolContext,
    ) -> Result<(Ended, bool), (Failure, Sent)> {
        let unsent = |failure| (failure, Sent::No);
        let permit = self.processes.acquire().await;
        let _permit = permit.map_err(|error| unsent(Failure::NotStarted(error.to_string())))?;
        let lost = |text: &str| (Failure::Lost(text.to_owned()), Sent::Once);
        let mut under_way = match kept.is_held {
            true => {
                let waiting = self.held.0.lock().remove(&kept.name);
                let waiting =
                    waiting.ok_or_else(|| lost("its process ended while a person was asked"))?;
                waiting.under_way
            }
            false => self.begin(request).await.map_err(unsent)?,
        };
        let sent = match under_way.ends_with_its_process() {
            true => Sent::Once,
            false => Sent::MayRepeat,
        };
        let bounds = Bounds {
            cancelled: cx.cancelled(),
            time: self.settings.task_timeout,
        };
        let ended = under_way.follow(&kept.answers, &bounds, |text| cx.output(text));
        let ended = ended.await.map_err(|failure| (failure, sent))?;
        let is_held = matches!(ended, Ended::Permission { .. }) && sent == Sent::Once;
        if !is_held {
            under_way.end().await;
            return Ok((ended, false));
        }
        let waiting = Waiting {
            run: cx.run(),
            session: request.session_id.clone(),
            under_way,
        };
        let mut held = self.held.0.lock();
        if held.len() >= MAX_HELD {
            return Err(lost(
                "too many of its questions are open, so its process was ended: answer or cancel some",
            ));
        }
        held.insert(kept.name.clone(), waiting);
        Ok((ended, true))
    }

    /// Cancels the prompts of this run in a session whose processes wait for an answer.
    async fn give_up(&self, run: RunId, session: &str) {
        let is_meant =
            |_: &String, waiting: &mut Waiting| waiting.run == run && waiting.session == session;
        let meant: Vec<_> = self.held.0.lock().extract_if(is_meant).collect();
        for (_, Waiting { mut under_way, .. }) in meant {
            let cancelled = CancellationToken::new();
            cancelled.cancel();
            let bounds = Bounds {
                cancelled: &cancelled,
                time: Duration::ZERO,
            };
            // However it ends, nobody waits for it.
            let _ = under_way.follow(&Answers::default(), &bounds, |_| {}).await;
            under_way.end().await;
        }
    }
}

/// Whether the agent may have got a prompt that came to nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sent {
    No,
    /// It may, and takes it once, however often it is sent.
    MayRepeat,
    /// It may, and nobody knows.
    Once,
}

fn read<T: DeserializeOwned>(arguments: &Arguments) -> Result<T, ToolError> {
    Ok(serde_json::from_str(arguments.text())?)
}

/// Begins a session. One that nobody uses is nothing but an id.
struct Open(Elsewhere);

impl Tool for Open {
    fn definition(&self) -> ToolDefinition {
        let about = "Begins a session with the agent in another process.";
        let definition = self.0.definition(OPEN, about);
        definition
            .parameters_of::<Nothing>()
            .effect(Effect::Idempotent)
            .timeout(SHORT)
    }

    fn secrets(&self) -> Vec<Credential> {
        self.0.secrets()
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let _process = self.0.processes.acquire().await?;
        let directory = self.0.directory()?;
        let mut process = Process::start(&self.0.settings).await?;
        let session = process.new_session(directory).await?;
        process.end().await;
        Ok(ToolOutput::text(session))
    }
}

/// Says something, and waits for the answer.
struct Prompt(Elsewhere);

/// The state of a prompt while a person is asked.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// The name of the prompt, which each part of the call sends again.
    name: String,
    answers: Answers,
    asked: Option<Asked>,
    /// Whether the process waits for the answer.
    #[serde(default)]
    is_held: bool,
}

#[derive(Debug, Serialize, Deserialize)]
enum Asked {
    Permission {
        call: String,
        options: Vec<(String, String)>,
    },
    Words(String),
}

impl Kept {
    fn of(cx: &ToolContext) -> Result<Self, ToolError> {
        let Some(continued) = cx.continued() else {
            return Ok(Self {
                name: cx.idempotency_key(),
                answers: Answers::default(),
                asked: None,
                is_held: false,
            });
        };
        let mut kept: Self = serde_json::from_str(&continued.state)?;
        let answer = match &continued.answer {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => return Err(ToolError::new("nobody answered what the agent asked")),
        };
        match kept.asked.take() {
            Some(Asked::Permission { call, options }) => {
                let chosen = options.into_iter().find(|(_, label)| *label == answer);
                let (id, _) =
                    chosen.ok_or_else(|| ToolError::new("the answer is not an option"))?;
                kept.answers.permissions.insert(call, id);
            }
            Some(Asked::Words(operation)) => {
                kept.answers.words.insert(operation, answer);
            }
            None => {}
        }
        Ok(kept)
    }

    /// The output of a call that goes on when a person has answered.
    fn asking(mut self, question: Question, asked: Asked) -> Result<ToolOutput, ToolError> {
        let answered = self.answers.permissions.len() + self.answers.words.len();
        if answered >= MAX_QUESTIONS {
            let message = format!("the agent asked {MAX_QUESTIONS} questions and came to no end");
            return Err(ToolError::new(message));
        }
        self.asked = Some(asked);
        let state = serde_json::to_string(&self)?;
        Ok(ToolOutput::goes_on(Continuation::asking(question, state)))
    }
}

impl Tool for Prompt {
    fn definition(&self) -> ToolDefinition {
        let about = "Says something to the agent in another process and gives its answer.";
        let definition = self.0.definition(PROMPT, about);
        definition
            .parameters_of::<ToSay>()
            .effect(Effect::Once)
            .timeout(self.0.settings.task_timeout + SLACK)
    }

    fn secrets(&self) -> Vec<Credential> {
        self.0.secrets()
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let said: ToSay = read(&arguments)?;
        let blocks = said.prompt.into_iter().map(serde_json::from_value);
        let blocks: Vec<ContentBlock> = blocks.collect::<Result<_, _>>()?;
        let mut kept = match Kept::of(&cx) {
            Ok(kept) => kept,
            Err(error) => {
                self.0.give_up(cx.run(), &said.session).await;
                return Err(error);
            }
        };
        let name = [(IDEMPOTENCY_KEY.to_owned(), kept.name.clone().into())];
        let request = PromptRequest {
            session_id: said.session,
            prompt: blocks,
            meta: Some(name.into()),
        };
        let mut restarts = 0;
        let (ended, is_held) = loop {
            match self.0.say(&request, &kept, &cx).await {
                Ok(ended) => break ended,
                Err((Failure::Lost(_), Sent::MayRepeat)) if restarts < RESTARTS => {
                    tokio::time::sleep(PAUSE * 2_u32.pow(restarts)).await;
                    restarts += 1;
                }
                Err((failure @ Failure::Lost(_), Sent::MayRepeat | Sent::Once)) => {
                    return Err(ToolError::in_doubt(failure.to_string()));
                }
                Err((failure, _)) => return Err(failure.into()),
            }
        };
        let agent = &self.0.agent;
        match ended {
            Ended::Answered(text) => Ok(ToolOutput::text(text)),
            Ended::Stopped(why) => Err(ToolError::new(why)),
            Ended::Cancelled => Err(ToolError::new("it was cancelled")),
            Ended::Late => Err(ToolError::new(format!(
                "it took longer than {:?}, and was cancelled",
                self.0.settings.task_timeout
            ))),
            Ended::Permission {
                call,
                question,
                options,
            } => {
                let labels = options.iter().map(|(_, label)| label.clone());
                let question = format!("{agent} (in another process) asks: {question}");
                let question = Question::choice(question, labels.collect::<Vec<_>>());
                kept.is_held = is_held;
                kept.asking(question, Asked::Permission { call, options })
            }
            Ended::Words {
                operation,
                question,
            } => kept.asking(Question::new(question), Asked::Words(operation)),
        }
    }

    /// Checks whether the prompt may be sent again.
    async fn reconcile(&self, _: &ToolCall, _: ToolContext) -> Reconciled {
        match Process::start(&self.0.settings).await {
            // To this agent it is the same prompt, with which it goes on.
            Ok(process) if process.knows_prompts() => {
                process.end().await;
                Reconciled::DidNotHappen
            }
            _ => Reconciled::Unknown,
        }
    }
}

/// Cancels what is under way in a session, also where its process has ended with ours.
struct Cancel(Elsewhere);

impl Tool for Cancel {
    fn definition(&self) -> ToolDefinition {
        let about = "Cancels the prompt of the agent in another process.";
        let definition = self.0.definition(CANCEL, about);
        definition
            .parameters_of::<InSession>()
            .effect(Effect::Idempotent)
            .timeout(SHORT)
    }

    fn secrets(&self) -> Vec<Credential> {
        self.0.secrets()
    }

    async fn call(&self, arguments: Arguments, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let InSession { session } = read(&arguments)?;
        self.0.give_up(cx.run(), &session).await;
        let mut process = Process::start(&self.0.settings).await?;
        // What another agent had under way ended with its process.
        if process.knows_prompts() {
            process.open_session(&session, self.0.directory()?).await?;
            process.close_session(&session).await?;
        }
        process.end().await;
        Ok(ToolOutput::text("cancelled"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_knows_the_secrets_in_the_environment_of_the_process() {
        let settings = ProcessOptions::new("agent")
            .variable("SERVICE_API_KEY", || Ok("hunter2".to_owned()))
            .variable("LANGUAGE", || {
                Ok("a-very-long-name-of-a-language".to_owned())
            });
        for tool in ProcessToolset::new("clerk", settings).tools {
            let name = &tool.definition().name;
            assert_eq!(tool.secrets().len(), 1, "{name}");
        }
    }
}
