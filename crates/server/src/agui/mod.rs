//! AG-UI 1.0, which front ends of agents speak: a team is an agent, a session is a thread, a run of the client's is a
//! turn, or continues with the answers to the questions of one.
//!
//! [`input`] decides what a request wants, and [`reader`] what a recorded event means to the client.

mod conversation;
mod event;
mod following;
mod forms;
mod input;
mod reader;
mod segment;
mod speech;

use axum::{
    http::{HeaderMap, Method, StatusCode},
    response::{Response, sse},
};
use futures_util::stream::{self, Stream};
use ghostlight_actors::{
    actor::{Run, SystemError},
    contract::RunStatus,
    session::Turn,
    vocabulary::{Event as Recorded, EventRecord, QuestionKind, RunId, Scope as State, SessionId},
};
use ghostlight_safety::redact_json;
use serde_json::{Map, Value};

use self::{
    conversation::Conversation,
    event::{Event, Told, VERSION},
    following::Following,
    input::{Answer, Asking, RunAgentInput, Wanted, value_of},
    reader::{Named, Reader},
};
use crate::{
    address::Path,
    api::{Asked, Unsaid},
    body::Json as Body,
    caller::Scope,
    endpoint::{Access, Endpoints},
    problem::Problem,
    sse::{Place, last_event_id, respond},
};

pub(crate) fn endpoints(endpoints: Endpoints) -> Endpoints {
    endpoints
        .add(
            Method::POST,
            "/agui/{team}",
            Access::Needs(Scope::Run),
            "A turn, answers to interrupts or results of calls, and what comes of them as a stream (AG-UI).",
            run,
        )
        .takes::<RunAgentInput>()
}

/// Why a request to a thread is not carried out.
enum Refusal {
    /// The thread cannot take it: the client's run begins, and ends with this error.
    Run(Problem),
    /// The request is refused as a whole.
    Request(Problem),
}

impl<P: Into<Problem>> From<P> for Refusal {
    fn from(problem: P) -> Self {
        Self::Request(problem.into())
    }
}

/// One request to one thread.
struct Thread {
    asked: Asked,
    session: SessionId,
    named: Named,
    messages: Vec<Value>,
    is_json: bool,
    after: Option<Place>,
}

async fn run(
    asked: Asked,
    Path(team): Path<String>,
    headers: HeaderMap,
    Body(input): Body<RunAgentInput>,
) -> Result<Response, Problem> {
    let Some(found) = asked.state.team(&team) else {
        let team: String = team.chars().take(64).collect();
        return Err(Problem::not_found(format!("agent {team:?}")));
    };
    let session = asked.session(&team, &input.thread_id)?;
    let wanted = input.wanted()?;
    let thread = Thread {
        session,
        named: Named {
            tools: input.tool_names(),
            thread: input.thread_id,
            run: input.run_id,
        },
        messages: input.messages,
        is_json: found.agent.output.is_some(),
        after: last_event_id(&headers)?,
        asked,
    };
    let state = thread.asked.state.clone();
    let (thread_id, run_id) = (thread.named.thread.clone(), thread.named.run.clone());
    let following = match wanted {
        Wanted::Turn(turn) => thread.say(*turn).await,
        Wanted::Answers(answers, words) => thread.answer(answers, words).await,
        Wanted::Look => thread.look().await,
    };
    match following {
        Ok(following) => Ok(respond(&state, events(following))),
        Err(Refusal::Request(problem)) => Err(problem),
        Err(Refusal::Run(problem)) => {
            let started = Event::RunStarted {
                thread_id,
                run_id,
                protocol_version: VERSION,
                metadata: None,
            };
            let error = Event::RunError {
                message: problem.detail().to_owned(),
                code: problem.word().to_owned(),
                usage: Vec::new(),
            };
            let told = [started, error].map(|event| {
                sent(&Told {
                    event,
                    timestamp: None,
                    subagent_run_id: None,
                })
            });
            Ok(respond(&state, stream::iter(told)))
        }
    }
}

fn sent(told: &Told) -> sse::Event {
    sse::Event::default().data(serde_json::to_string(told).unwrap_or_default())
}

/// The events of a stream. The id of an event is its place, so a client resumes behind the last id that it has; what
/// comes without an id may come again, and while any message is half told nothing has one.
fn events(following: Following) -> impl Stream<Item = sse::Event> + Send + 'static {
    stream::unfold(following, |mut following| async move {
        let (told, place) = following.next().await?;
        let event = match place {
            Some(place) => sent(&told).id(place.to_string()),
            None => sent(&told),
        };
        Some((event, following))
    })
}

impl Thread {
    /// A reader of this run's events for the client.
    async fn follow(self, run: Run, messages: Vec<Value>) -> Result<Following, Refusal> {
        let SessionId { team, key } = self.session;
        let session = self.asked.system.session(team, key);
        let state: Map<String, Value> = session.state(State::Session).await?.into_iter().collect();
        let state = match redact_json(&Value::Object(state)) {
            Value::Object(state) => state,
            _ => Map::new(),
        };
        let conversation = Conversation::new(messages);
        let reader = Reader::new(run.id(), self.named, conversation, state, self.is_json);
        Ok(Following::new(self.asked, run, reader).after(self.after))
    }

    /// Sends a turn.
    async fn say(mut self, turn: Turn) -> Result<Following, Refusal> {
        let run = match self.asked.say(&self.session, turn).await {
            Ok(run) => run,
            Err(Unsaid::Problem(problem)) => return Err(problem.into()),
            Err(Unsaid::Asking(run)) => {
                let detail = format!(
                    "run {run} of the thread waits for answers: resume its interrupts, give the results of its calls, \
                     or cancel it"
                );
                return Err(Refusal::Run(Problem::conflict(detail)));
            }
        };
        let messages = std::mem::take(&mut self.messages);
        self.follow(run, messages).await
    }

    /// Answers questions of the run that carries the thread.
    async fn answer(
        mut self,
        answers: Vec<(Asking, Answer)>,
        words: String,
    ) -> Result<Following, Refusal> {
        let unknown = || Refusal::Run(Problem::not_found("such question in the thread"));
        let asking: Vec<Asking> = answers.iter().map(|(asking, _)| *asking).collect();
        let mut root = None;
        for (asker, _) in &asking {
            let found = self.asked.run(&asker.to_string()).await;
            let (_, row) = found.map_err(|problem| match problem.status() {
                StatusCode::NOT_FOUND => unknown(),
                _ => Refusal::Request(problem),
            })?;
            let mut of_root = Some(row.clone());
            if row.root != row.run {
                of_root = self.asked.system.store().run(row.root).await?;
            }
            let is_here = of_root.is_some_and(|row| row.session.as_ref() == Some(&self.session));
            if !is_here || root.is_some_and(|root| root != row.root) {
                return Err(unknown());
            }
            root = Some(row.root);
        }
        let run = self.asked.system.run(root.ok_or_else(unknown)?);
        let open = run.questions().await?;
        let is_open = |asking: &Asking| open.iter().any(|(run, op, _)| (*run, *op) == *asking);
        if asking.iter().any(is_open) {
            // The answers are new. A request that is sent again finds none of its questions open.
            let is_left = open.iter().any(|(run, operation, question)| {
                question.kind != QuestionKind::ToolResult && !asking.contains(&(*run, *operation))
            });
            if is_left {
                let detail = "the thread has other open interrupts: answer all of them at once";
                return Err(Refusal::Run(Problem::conflict(detail)));
            }
            if !words.is_empty() {
                run.steer(words).await?;
            }
        }
        let mut known = None;
        let mut gives_up = false;
        for (asking, answer) in answers {
            let Some((.., question)) = open.iter().find(|(run, op, _)| (*run, *op) == asking)
            else {
                let records = match &mut known {
                    Some(records) => records,
                    None => known.insert(run.events().so_far().await?),
                };
                let is_answer = |record: &EventRecord| match &record.event {
                    Recorded::QuestionAnswered { operation, .. } => {
                        (record.run, *operation) == asking
                    }
                    _ => false,
                };
                if !records.iter().any(is_answer) {
                    return Err(unknown());
                }
                continue;
            };
            let Some(value) = value_of(question, answer).map_err(Refusal::Run)? else {
                gives_up = true;
                continue;
            };
            match self
                .asked
                .system
                .run(asking.0)
                .answer(asking.1, value)
                .await
            {
                // Another client has answered first.
                Ok(()) => {}
                Err(SystemError::Answer { error, .. }) if error.is_settled() => {}
                Err(error) => return Err(Refusal::Run(error.into())),
            }
        }
        if gives_up {
            run.cancel("the user gave up its question").await?;
        }
        let messages = std::mem::take(&mut self.messages);
        let following = self.follow(run, messages).await?;
        Ok(match gives_up {
            true => following.at_the_end(),
            false => following.beginning_with(asking),
        })
    }

    /// Shows the messages of the thread, and what its last run is doing.
    async fn look(self) -> Result<Following, Refusal> {
        let SessionId { team, key } = self.session.clone();
        let session = self.asked.system.session(team, key);
        let log = session.log().await?;
        let transcript = session.transcript().await?;
        let last = log.turns.last();
        let mut open = None;
        if let Some(turn) = last {
            let row = self.asked.system.run(turn.carried_by).status().await?;
            open = Some(turn).filter(|_| !row.status.is_ended() && row.status != RunStatus::Parked);
        }
        let messages = conversation::of_session(transcript.messages(), open);
        let messages = messages.iter().map(redact_json).collect();
        let run = open
            .or(last)
            .map_or(RunId::from_random(0), |turn| turn.carried_by);
        let run = self.asked.system.run(run);
        let is_all = open.is_none();
        let following = self.follow(run, messages).await?;
        Ok(following.showing(is_all))
    }
}
