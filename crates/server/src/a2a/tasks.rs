//! The operations on an agent's tasks, the same for both bindings.

use axum::http::HeaderMap;
use ghostlight_a2a::{
    protocol::{ErrorCode, Message, ProtocolError, PushConfig, SendMessage, Task, TaskQuery},
    translation::{TaskReader, question_name, question_of, turn_of},
};
use ghostlight_actors::{
    actor::{Run, SystemError},
    contract::{RunRow, RunStatus},
    vocabulary::{Digest, OperationId, Question, QuestionKind, RunId, SessionId},
};
use serde_json::Value;

use super::{
    following::{Following, TaskEvents},
    refused,
};
use crate::{
    api::Asked,
    caller::Scope,
    compatible::answer_of,
    problem::Problem,
    sse::{Place, last_event_id},
    waiting::quiet,
};

/// An agent as one caller sees it.
pub(super) struct Agent {
    pub(super) asked: Asked,
    pub(super) team: String,
    pub(super) is_json: bool,
}

/// A task as of the last event that was read.
pub(super) struct Seen {
    pub(super) task: Task,
    events: TaskEvents,
    /// The place of the last event that was read.
    pub(super) last: Option<Place>,
}

/// A message that was taken: the task as it was then, and a reader of its next events.
pub(super) struct Begun {
    pub(super) task: Task,
    pub(super) following: Following,
}

impl Agent {
    pub(super) fn of(asked: Asked, team: String) -> Result<Self, ProtocolError> {
        let Some(found) = asked.state.team(&team) else {
            let message = format!("there is no agent {team:?}; /a2a lists the agents");
            return Err(ProtocolError::new(ErrorCode::MethodNotFound, message));
        };
        let is_json = found.agent.output.is_some();
        Ok(Self {
            asked,
            team,
            is_json,
        })
    }

    /// Checks that the caller may change something.
    pub(super) fn may_run(&self) -> Result<(), ProtocolError> {
        if self.asked.caller.may(Scope::Run) {
            return Ok(());
        }
        Err(ProtocolError::new(
            ErrorCode::Forbidden,
            "the key lacks the scope run",
        ))
    }

    /// A task of the caller's.
    pub(super) async fn run(&self, id: &str) -> Result<(Run, RunRow), ProtocolError> {
        let unknown = || {
            let id: String = id.chars().take(64).collect();
            ProtocolError::new(ErrorCode::TaskNotFound, format!("there is no task {id:?}"))
        };
        let found =
            self.asked
                .run(id)
                .await
                .map_err(|problem| match problem.status().as_u16() {
                    404 => unknown(),
                    _ => refused(&problem),
                })?;
        let is_task =
            found.1.team == self.team && found.1.run == found.1.root && found.1.session.is_some();
        is_task.then_some(found).ok_or_else(unknown)
    }

    /// The context of a task, as its client names it.
    pub(super) fn context(&self, session: &SessionId) -> String {
        self.asked
            .caller
            .key_of(session)
            .unwrap_or(&session.key)
            .to_owned()
    }

    fn events_of(&self, run: RunId, session: &SessionId, message: &str) -> TaskEvents {
        let context = self.context(session);
        let artifacts = format!("/api/v1/sessions/{}/{context}/artifacts", self.team);
        let reader = TaskReader::new(run, context, message).structured(self.is_json);
        let session = self
            .asked
            .system
            .session(session.team.clone(), session.key.clone());
        TaskEvents {
            reader,
            session,
            artifacts,
        }
    }

    /// A task in the state that its recorded events give, up to one of them or to now.
    pub(super) async fn seen(
        &self,
        run: &Run,
        row: &RunRow,
        until: Option<Place>,
    ) -> Result<Seen, ProtocolError> {
        let failed = |error: SystemError| refused(&error.into());
        // A run without a session is not a task.
        let none = || ProtocolError::new(ErrorCode::TaskNotFound, "there is no such task");
        let id = row.session.as_ref().ok_or_else(none)?;
        let message = self.message_of(run, row).await?;
        let mut events = self.events_of(run.id(), id, &message);
        let mut task = events.reader.submitted(row.started_at);
        let mut last = None;
        let records = run
            .events()
            .so_far()
            .await
            .map_err(|error| failed(error.into()))?;
        for record in &records {
            let place = Place::of(record);
            if until.is_some() && place > until {
                break;
            }
            for news in events.read(record).await {
                news.add_to(&mut task);
            }
            last = place;
        }
        Ok(Seen { task, events, last })
    }

    pub(super) async fn get(&self, query: &TaskQuery) -> Result<Task, ProtocolError> {
        let (run, row) = self.run(&query.id).await?;
        let seen = self.seen(&run, &row, None).await?;
        Ok(seen.task.with_history(query.history_length))
    }

    /// Takes a message: a turn, or an answer where it names a task.
    pub(super) async fn begin(
        &self,
        request: SendMessage,
        streaming: bool,
    ) -> Result<Begun, ProtocolError> {
        self.may_run()?;
        let configuration = request.configuration.unwrap_or_default();
        let push = configuration.task_push_notification_config;
        if let Some(config) = &push {
            self.check_push(config)?;
        }
        let message = request.message;
        let begun = match message.task_id.as_deref().filter(|task| !task.is_empty()) {
            Some(task) => {
                // A receiver that comes with an answer hears what becomes of it.
                if let Some(config) = push {
                    let task_id = task.to_owned();
                    self.create_push(PushConfig { task_id, ..config }).await?;
                }
                return self.answer(task, &message).await;
            }
            None => self.say(&message, streaming).await?,
        };
        if let Some(config) = push {
            let (run, row) = self.run(&begun.task.id).await?;
            self.push((&run, &row), config, None).await?;
        }
        Ok(begun)
    }

    /// The id of the message that began a task.
    pub(super) async fn message_of(
        &self,
        run: &Run,
        row: &RunRow,
    ) -> Result<String, ProtocolError> {
        // A run without a session is not a task.
        let none = || ProtocolError::new(ErrorCode::TaskNotFound, "there is no such task");
        let id = row.session.as_ref().ok_or_else(none)?;
        let session = self.asked.system.session(id.team.clone(), id.key.clone());
        let log = session.log().await;
        let log = log.map_err(|error| refused(&error.into()))?;
        let turn = log.turns.iter().find(|turn| turn.run == run.id());
        Ok(turn.map_or_else(|| format!("{}/input", run.id()), |turn| turn.turn.clone()))
    }

    async fn say(&self, message: &Message, streaming: bool) -> Result<Begun, ProtocolError> {
        let mut turn = turn_of(message)?;
        if streaming {
            turn = turn.streaming(true);
        }
        // A message without a context gets one of its own, which is the same each time that the message is sent.
        let key = match message
            .context_id
            .as_deref()
            .filter(|context| !context.is_empty())
        {
            Some(context) => context.to_owned(),
            None => format!(
                "once-{:.32}",
                Digest::of(message.message_id.as_bytes()).to_string()
            ),
        };
        let session = self
            .asked
            .session(&self.team, &key)
            .map_err(|problem| refused(&problem))?;
        let said = self.asked.say(&session, turn).await;
        let run = said.map_err(|unsaid| refused(&unsaid.into()))?;
        let row = run.status().await.map_err(|error| refused(&error.into()))?;
        let events = self.events_of(run.id(), &session, &message.message_id);
        let task = events.reader.submitted(row.started_at);
        let following = Following::new(run.events(), events, true);
        Ok(Begun { task, following })
    }

    async fn answer(&self, task: &str, message: &Message) -> Result<Begun, ProtocolError> {
        let (run, row) = self.run(task).await?;
        // The message must be valid, whatever it answers.
        turn_of(message)?;
        let seen = self.seen(&run, &row, None).await?;
        let context = message
            .context_id
            .as_deref()
            .filter(|context| !context.is_empty());
        if context.is_some_and(|context| context != seen.task.context_id) {
            return Err(ProtocolError::invalid(
                "the task belongs to another context",
            ));
        }
        let named = question_of(message)?;
        let open = run
            .questions()
            .await
            .map_err(|error| refused(&error.into()))?;
        let asked = match named {
            Some(named) => {
                let is_named = |(asker, operation, _): &&Asking| {
                    question_name(&seen.task.id, *asker, *operation) == named
                };
                let asked = open.iter().find(is_named);
                // The message was sent again: its sender wants to follow the task.
                if asked.is_none() && was_answered(&seen.task, named) {
                    let waits = seen.task.status.state.is_interrupted();
                    return Ok(self.goes_on(&run, seen, waits));
                }
                if asked.is_none() && asks(&seen.task, named) {
                    // The answer is on its way to the run.
                    return Ok(self.goes_on(&run, seen, false));
                }
                asked.ok_or_else(|| {
                    ProtocolError::invalid(format!("the task does not ask in {named}"))
                })?
            }
            None => only_question(&open, &seen.task)?,
        };
        let (asker, operation, question) = asked;
        let value = value_of(question, message)?;
        let asker = self.asked.system.run(*asker);
        match asker.answer(*operation, value).await {
            Ok(()) => {}
            // Another client has answered first.
            Err(SystemError::Answer { error, .. }) if named.is_some() && error.is_settled() => {}
            Err(error) => return Err(refused(&error.into())),
        }
        Ok(self.goes_on(&run, seen, false))
    }

    /// The events of a task from now on; none where it has ended, or waits for another answer.
    fn goes_on(&self, run: &Run, seen: Seen, waits: bool) -> Begun {
        let mut events = run.events();
        if let Some(last) = seen.last {
            events = events.after_event(last.position, last.part);
        }
        let mut following = Following::new(events, seen.events, true);
        following.ends_now(waits || seen.task.status.state.is_terminal());
        Begun {
            task: seen.task,
            following,
        }
    }

    /// Waits until the task has ended or needs input, at most as long as a request may wait.
    pub(super) async fn settled(&self, mut begun: Begun) -> Result<Task, ProtocolError> {
        let waiting = async {
            while let Some(news) = begun.following.next().await {
                news?.0.add_to(&mut begun.task);
            }
            Ok(())
        };
        tokio::select! {
            biased;
            result = waiting => result?,
            // The client gets the task as it is now, and looks at it again later.
            () = tokio::time::sleep(self.asked.state.limits.max_wait) => {}
            () = self.asked.state.stopping.cancelled() => return Err(refused(&Problem::stopping())),
        }
        Ok(begun.task)
    }

    pub(super) async fn cancel(&self, id: &str) -> Result<Task, ProtocolError> {
        self.may_run()?;
        let (run, row) = self.run(id).await?;
        let failed = |error: SystemError| refused(&error.into());
        let ended = || ProtocolError::new(ErrorCode::TaskNotCancelable, "the task has ended");
        if row.status.is_ended() && row.status != RunStatus::Continued {
            return Err(ended());
        }
        if !run.cancel("a client cancelled it").await.map_err(failed)? {
            return Err(ended());
        }
        let quiet = quiet(&self.asked.state, &run).await;
        quiet.map_err(|problem| refused(&problem))?;
        let row = run.status().await.map_err(failed)?;
        Ok(self.seen(&run, &row, None).await?.task)
    }

    /// Follows a task. A client without an event gets the task first; one that has an event resumes behind it.
    pub(super) async fn subscribe(
        &self,
        id: &str,
        headers: &HeaderMap,
    ) -> Result<(Option<(Task, Option<Place>)>, Following), ProtocolError> {
        let (run, row) = self.run(id).await?;
        let after = last_event_id(headers).map_err(|problem| refused(&problem))?;
        let seen = self.seen(&run, &row, after).await?;
        if seen.task.status.state.is_terminal() {
            let text = "the task has ended, and nothing becomes of it any more: get it";
            return Err(ProtocolError::new(ErrorCode::UnsupportedOperation, text));
        }
        let mut events = run.events();
        if let Some(last) = after.or(seen.last) {
            events = events.after_event(last.position, last.part);
        }
        let following = Following::new(events, seen.events, false);
        let first = after.is_none().then_some((seen.task, seen.last));
        Ok((first, following))
    }
}

/// Whether the task's history holds an answer to the question of this name.
fn was_answered(task: &Task, name: &str) -> bool {
    let answers = task
        .history
        .iter()
        .filter(|message| message.message_id.ends_with("/answer"));
    answers
        .filter_map(|message| message.named(ghostlight_a2a::protocol::QUESTION))
        .any(|named| named == name)
}

/// Whether the last message of a task asks this, as far as its run has recorded answers.
fn asks(task: &Task, name: &str) -> bool {
    let said = task.status.message.as_ref();
    let named = said.and_then(|said| said.named(ghostlight_a2a::protocol::QUESTION));
    named == Some(name)
}

type Asking = (RunId, OperationId, Question);

fn only_question<'q>(open: &'q [Asking], task: &Task) -> Result<&'q Asking, ProtocolError> {
    let unsupported = |text: &str| Err(ProtocolError::new(ErrorCode::UnsupportedOperation, text));
    match open {
        [asked] => Ok(asked),
        [] if task.status.state.is_terminal() => {
            unsupported("the task has ended: name its context, and no task, to go on")
        }
        [] => unsupported("the task is at work and asks nothing: wait until it asks or has ended"),
        _ => Err(ProtocolError::invalid(
            "the task asks several things: name one in the metadata `ghostlight/question`",
        )),
    }
}

/// The value that a message gives as the answer to a question.
fn value_of(question: &Question, message: &Message) -> Result<Value, ProtocolError> {
    if question.kind == QuestionKind::Authentication {
        let text = "a credential is not taken in a message: POST it to /api/v1/runs/{task}/answers";
        return Err(ProtocolError::new(ErrorCode::UnsupportedOperation, text));
    }
    if let [part] = message.parts.as_slice()
        && let Some(data) = &part.data
    {
        return Ok(data.clone());
    }
    answer_of(question, &message.content()).map_err(|problem| refused(&problem))
}
