//! Showing what runs do, and asking the client's user what they ask.

use std::{collections::HashMap, sync::Arc};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use ghostlight_actors::{
    actor::{EventStream, Run},
    session::{LoggedTurn, SessionLog},
    vocabulary::{OperationId, RunId, RunResult, Spent, StopReason as Stopped},
};
use ghostlight_safety::redact_text;
use serde::Deserialize as _;
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Client, GoesOn, failed, prompting::response};
use crate::{
    protocol::{
        Chunk, ContentBlock, PermissionOutcome, PermissionResponse, PromptResponse, StopReason,
        Update, Usage,
    },
    translation::{ASKS, Asked, Told, UpdateReader, permission, prompt},
    wire::{RequestError, RpcError},
};

/// How many of a session's turns are shown when it is loaded.
const MAX_TURNS: usize = 500;

/// A run that is followed, from a point on.
pub(super) struct Followed {
    run: Run,
    reader: UpdateReader,
    events: EventStream,
    /// A question that this client has answered already.
    answered: Option<(RunId, OperationId)>,
}

impl Followed {
    /// A run from its beginning.
    pub(super) fn of(run: &Run) -> Self {
        Self {
            run: run.clone(),
            reader: UpdateReader::new(run.id()),
            events: run.events(),
            answered: None,
        }
    }

    /// A run whose events up to this position were read by the reader.
    pub(super) fn after(run: &Run, reader: UpdateReader, position: u64) -> Self {
        Self {
            run: run.clone(),
            reader,
            events: run.events().after(position),
            answered: None,
        }
    }

    pub(super) fn answered(&mut self, asked: &Asked) {
        self.answered = Some((asked.run, asked.operation));
    }

    pub(super) fn run(&self) -> &Run {
        &self.run
    }
}

/// The result of a permission request.
enum Permission {
    /// An answer.
    Given(Value),
    /// None; the question stays open.
    Withheld,
    /// This client cannot ask.
    Impossible,
    /// The question is closed.
    Over,
}

/// The permission requests that wait for their answers. A question that is closed meanwhile ends its request.
#[derive(Default)]
struct Asking {
    requests: FuturesUnordered<BoxFuture<'static, (Asked, Permission)>>,
    open: HashMap<(RunId, OperationId), DropGuard>,
}

impl Client {
    /// The updates of a run so far, and the reader that read them, up to the position.
    pub(super) async fn caught_up(
        &self,
        run: &Run,
    ) -> Result<(UpdateReader, u64, Vec<Told>), RpcError> {
        let past = run.events().recorded().so_far().await;
        let past = past.map_err(|error| failed(error.into()))?;
        let (mut reader, mut position, mut told) = (UpdateReader::new(run.id()), 0, Vec::new());
        for record in past {
            position = record.position.unwrap_or(position);
            told.extend(reader.read(&record.redacted()));
        }
        Ok((reader, position, told))
    }

    /// Shows the turns of a session that is loaded, and then how the run that is under way goes on.
    pub(super) async fn show_turns(
        self: &Arc<Self>,
        id: &str,
        log: &SessionLog,
        replay: bool,
    ) -> Result<(), RpcError> {
        let passed = log.turns.len().saturating_sub(MAX_TURNS);
        for turn in &log.turns[passed..] {
            let is_open = turn.is_open();
            if !replay && !is_open {
                continue;
            }
            if replay {
                self.show_said(id, turn).await?;
            }
            let run = self.served.system.run(turn.run);
            let (reader, position, told) = match self.caught_up(&run).await {
                Ok(caught_up) => caught_up,
                // The run was pruned; the session keeps the answer.
                Err(_) if !is_open => {
                    let answer = turn.answer.as_deref().unwrap_or_default();
                    self.say(id, &redact_text(answer)).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if replay {
                for told in told {
                    if let Told::Update(update) = told {
                        self.tell(id, update).await?;
                    }
                }
            }
            if is_open {
                self.goes_on(id, Followed::after(&run, reader, position));
            }
        }
        Ok(())
    }

    async fn show_said(&self, id: &str, turn: &LoggedTurn) -> Result<(), RpcError> {
        let mut text = turn.said.clone();
        for file in &turn.files {
            text.push_str(&format!("\n[{file}]"));
        }
        let chunk = Chunk {
            content: ContentBlock::text(redact_text(text.trim_start())),
            message_id: Some(format!("{}/said", turn.run)),
        };
        self.tell(id, Update::UserMessageChunk(chunk)).await
    }

    /// Shows how a run goes on that no prompt waits for, unless it is shown already.
    fn goes_on(self: &Arc<Self>, id: &str, followed: Followed) {
        let mut sessions = self.sessions.lock();
        let Some(open) = sessions.get_mut(id) else {
            return;
        };
        if open.prompt.is_some() || open.goes_on.is_some() {
            return;
        }
        let (client, run) = (self.clone(), followed.run().clone());
        let shown = CancellationToken::new();
        let mut followers = self.followers.lock();
        while followers.try_join_next().is_some() {}
        let follower = followers.spawn({
            let (id, ends) = (id.to_owned(), shown.clone().drop_guard());
            async move {
                let _ends = ends;
                // Without a prompt nobody waits for the end, but its reason can be said.
                if let Err(error) = client.follow(&id, followed).await {
                    let _ = client.say(&id, &error.message).await;
                }
                if let Some(open) = client.sessions.lock().get_mut(&id) {
                    open.goes_on = None;
                }
            }
        });
        open.goes_on = Some(GoesOn {
            run,
            follower,
            shown,
        });
    }

    /// Waits until an earlier run of the session is shown to its end, so that the texts of two are not mixed.
    pub(super) async fn earlier_shown(&self, id: &str) {
        let shown = {
            let sessions = self.sessions.lock();
            let earlier = sessions.get(id).and_then(|open| open.goes_on.as_ref());
            earlier.map(|earlier| earlier.shown.clone())
        };
        if let Some(shown) = shown {
            shown.cancelled().await;
        }
    }

    /// Ends the task that shows this run, because a prompt waits for it from now on.
    pub(super) fn take_over(&self, id: &str, run: &Run) {
        if let Some(open) = self.sessions.lock().get_mut(id)
            && let Some(known) = open.goes_on.take_if(|known| known.run.id() == run.id())
        {
            known.follower.abort();
        }
    }

    /// Shows what a run does until it has ended, or asks what is answered in words.
    pub(super) async fn follow(
        self: &Arc<Self>,
        id: &str,
        mut followed: Followed,
    ) -> Result<PromptResponse, RpcError> {
        let run = followed.run.clone();
        let mut asking = Asking::default();
        for asked in followed.reader.open().to_vec() {
            if followed.answered == Some((asked.run, asked.operation)) {
                continue;
            }
            let asker = (asked.run, asked.operation);
            if !self.ask(id, &mut asking, asked).await? {
                return Ok(asks(&run, asker));
            }
        }
        loop {
            let told = tokio::select! {
                biased;
                Some((asked, permission)) = asking.requests.next() => {
                    asking.open.remove(&(asked.run, asked.operation));
                    match permission {
                        // An answer that comes too late changes nothing.
                        Permission::Given(value) => {
                            let asker = self.served.system.run(asked.run);
                            let _ = asker.answer(asked.operation, value).await;
                        }
                        Permission::Impossible => {
                            self.say(id, &prompt(&asked.question)).await?;
                            return Ok(asks(&run, (asked.run, asked.operation)));
                        }
                        Permission::Withheld | Permission::Over => {}
                    }
                    continue;
                }
                record = followed.events.next_as_one() => {
                    let record = match record {
                        Some(Ok(record)) => record,
                        Some(Err(error)) => return Err(failed(error.into())),
                        None => return Err(RpcError::internal("the run's events ended early")),
                    };
                    followed.reader.missed(followed.events.missed().previews);
                    followed.reader.read(&record.redacted())
                }
            };
            for told in told {
                match told {
                    Told::Update(update) => self.tell(id, update).await?,
                    Told::Asked(asked) => {
                        let asker = (asked.run, asked.operation);
                        if !self.ask(id, &mut asking, asked).await? {
                            return Ok(asks(&run, asker));
                        }
                    }
                    Told::Closed(asker, operation) => {
                        asking.open.remove(&(asker, operation));
                        self.given.lock().remove(&(asker, operation));
                    }
                    Told::Parked(reason) => {
                        let run = run.id();
                        return Err(RpcError::internal(format!("run {run} is parked: {reason}")));
                    }
                    Told::Ended(end, spent) => return self.ended(id, &run, end, spent).await,
                }
            }
        }
    }

    /// Asks a question as a permission request. One that is answered in words is said; then the result is `false`.
    async fn ask(&self, id: &str, asking: &mut Asking, asked: Asked) -> Result<bool, RpcError> {
        let Some((request, values)) = permission(id, &asked) else {
            self.say(id, &prompt(&asked.question)).await?;
            return Ok(false);
        };
        let over = CancellationToken::new();
        let key = (asked.run, asked.operation);
        asking.open.insert(key, over.clone().drop_guard());
        let (peer, given) = (self.peer.clone(), self.given.clone());
        asking.requests.push(Box::pin(async move {
            let permission_of = move |response: &Value| {
                let outcome = PermissionResponse::deserialize(response).map(|read| read.outcome);
                match outcome {
                    Ok(PermissionOutcome::Selected { option_id }) => {
                        let chosen = option_id.parse::<usize>().ok();
                        let chosen = chosen.and_then(|place| values.get(place)).cloned();
                        chosen.map_or(Permission::Impossible, Permission::Given)
                    }
                    Ok(PermissionOutcome::Cancelled) => Permission::Withheld,
                    Err(_) => Permission::Impossible,
                }
            };
            // A prompt that comes right after the answer is a new turn, and no second answer.
            let answers = permission_of.clone();
            let note = move |response: &Value| {
                if let Permission::Given(_) = answers(response) {
                    given.lock().insert(key);
                }
            };
            let response = tokio::select! {
                biased;
                () = over.cancelled() => return (asked, Permission::Over),
                response = peer.request_then("session/request_permission", &request, note) => response,
            };
            let permission = match response {
                Ok(response) => permission_of(&response),
                Err(RequestError::Closed) => Permission::Withheld,
                Err(_) => Permission::Impossible,
            };
            (asked, permission)
        }));
        Ok(true)
    }

    /// The response to the prompt of a run that has ended.
    async fn ended(
        &self,
        id: &str,
        run: &Run,
        end: RunResult,
        spent: Spent,
    ) -> Result<PromptResponse, RpcError> {
        let stop_reason = match end {
            RunResult::Failed(error) => {
                let run = run.id();
                return Err(RpcError::internal(format!("run {run} failed: {error}")));
            }
            RunResult::Stopped(Stopped::Cancelled(_)) => StopReason::Cancelled,
            RunResult::Stopped(reason) => {
                self.say(id, &format!("The team stopped before its end: {reason}"))
                    .await?;
                stop_reason_of(&reason)
            }
            _ => StopReason::EndTurn,
        };
        let used = spent.usage;
        let usage = Usage {
            total_tokens: used.total_tokens(),
            input_tokens: used.input_tokens,
            output_tokens: used.output_tokens,
            thought_tokens: used.reasoning_tokens,
            cached_read_tokens: used.cached_tokens,
        };
        Ok(PromptResponse {
            usage: Some(usage),
            ..response(stop_reason, run)
        })
    }
}

/// The response to a prompt whose run asks something that the next prompt answers.
fn asks(run: &Run, (asker, operation): (RunId, OperationId)) -> PromptResponse {
    let mut response = response(StopReason::EndTurn, run);
    let meta = response.meta.get_or_insert_default();
    let question = format!("{}/{asker}/{operation}", run.id());
    meta.insert(ASKS.to_owned(), question.into());
    response
}

fn stop_reason_of(reason: &Stopped) -> StopReason {
    match reason {
        Stopped::Truncated => StopReason::MaxTokens,
        Stopped::ContentFilter => StopReason::Refusal,
        Stopped::MaxSteps(_)
        | Stopped::BudgetExhausted(_)
        | Stopped::FinishOverBudget(_)
        | Stopped::Deadline
        | Stopped::TransferLimit(_) => StopReason::MaxTurnRequests,
        _ => StopReason::EndTurn,
    }
}
