//! Prompts: turns, and answers to questions.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{
    actor::{AnswerError, Run, SystemError},
    session::Turn,
    vocabulary::RunId,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{CANCELLED, Client, failed, following::Followed};
use crate::{
    protocol::{
        Chunk, ContentBlock, PromptRequest, PromptResponse, SessionNotification, StopReason, Update,
    },
    translation::{ASKS, Asked, answer_of, turn_of},
    wire::RpcError,
};

/// How long the beginning of a turn may take to be recorded.
const RECORDED: Duration = Duration::from_millis(500);

impl Client {
    /// Sends a turn and shows what comes of it, up to its end or a question that is not a permission. While the session's
    /// run asks such a question, the prompt is the answer.
    pub(super) async fn prompt(
        self: &Arc<Self>,
        request: &PromptRequest,
        cancel: &CancellationToken,
    ) -> Result<PromptResponse, RpcError> {
        let id = &request.session_id;
        let dry_run = self
            .sessions
            .lock()
            .get(id)
            .is_some_and(|open| open.dry_run);
        let mut turn = turn_of(request)?.streaming(true);
        if dry_run {
            turn = turn.dry_run();
        }
        let text = turn.message.content();
        if let Some(question) = request.meta.as_ref().and_then(|meta| meta.get(ASKS)) {
            let run = self.asker(id, question).await?;
            if let Some(ended) = self.answer(id, &run, &text, cancel).await? {
                return Ok(ended);
            }
            // It was answered before: the prompt is sent again.
            self.take_over(id, &run);
            return self.until_it_ends(id, Followed::of(&run), cancel).await;
        }
        let run = loop {
            let asking = match self.begun(id, turn.clone(), cancel).await {
                Ok(Some(run)) => break run,
                Ok(None) => return Ok(stopped(StopReason::Cancelled)),
                Err(SystemError::Asking { run }) => self.served.system.run(run),
                Err(error) => return Err(failed(error)),
            };
            if let Some(ended) = self.answer(id, &asking, &text, cancel).await? {
                return Ok(ended);
            }
        };
        self.take_over(id, &run);
        let followed = Followed::of(&run);
        self.until_it_ends(id, followed, cancel).await
    }

    /// The run of a turn, once it is recorded. `None` if the prompt was cancelled while the turn waited behind others.
    async fn begun(
        &self,
        id: &str,
        turn: Turn,
        cancel: &CancellationToken,
    ) -> Result<Option<Run>, SystemError> {
        let submitted = self.session(id).submit(turn)?;
        let run = submitted.run().clone();
        tokio::select! {
            biased;
            begun = submitted.begun() => return begun.map(Some),
            () = cancel.cancelled() => {}
        }
        // A turn that waited is taken back now. One that began in this moment may not be recorded yet.
        if !run.cancel(CANCELLED).await? {
            tokio::time::sleep(RECORDED).await;
            run.cancel(CANCELLED).await?;
        }
        Ok(None)
    }

    /// The run of this session in which a question was asked, by the name that the question was told under.
    async fn asker(&self, id: &str, question: &Value) -> Result<Run, RpcError> {
        let run = question.as_str().and_then(|name| name.split_once('/'));
        let run = run.and_then(|(run, _)| run.parse::<RunId>().ok());
        let unknown =
            || RpcError::invalid_params(format!("`{ASKS}` names no question of this session"));
        let run = self.served.system.run(run.ok_or_else(unknown)?);
        let row = run.status().await.map_err(failed)?;
        match row.session.as_ref() == Some(self.session(id).id()) {
            true => Ok(run),
            false => Err(unknown()),
        }
    }

    /// Answers the first question of a run, and shows how it goes on. `None` if the question was answered meanwhile, and
    /// the run has begun to go on.
    async fn answer(
        self: &Arc<Self>,
        id: &str,
        run: &Run,
        text: &str,
        cancel: &CancellationToken,
    ) -> Result<Option<PromptResponse>, RpcError> {
        // Taken first: a question that is closed meanwhile is in neither.
        let given = self.given.lock().clone();
        let (reader, position, _) = self.caught_up(run).await?;
        let is_new = |asked: &&Asked| !given.contains(&(asked.run, asked.operation));
        let Some(asked) = reader.open().iter().find(is_new).cloned() else {
            let mut events = run.events().recorded().after(position);
            let next = events.next().await.transpose();
            next.map_err(|error| failed(error.into()))?;
            return Ok(None);
        };
        let asker = self.served.system.run(asked.run);
        let answered = asker
            .answer(asked.operation, answer_of(&asked.question, text))
            .await;
        match answered {
            Ok(()) => {}
            Err(SystemError::Answer {
                error: AnswerError::Unfit { reason, .. },
                ..
            }) => {
                self.say(id, &reason).await?;
                return Ok(Some(response(StopReason::EndTurn, run)));
            }
            Err(error) => return Err(failed(error)),
        }
        self.take_over(id, run);
        let mut followed = Followed::after(run, reader, position);
        followed.answered(&asked);
        self.until_it_ends(id, followed, cancel).await.map(Some)
    }

    async fn until_it_ends(
        self: &Arc<Self>,
        id: &str,
        followed: Followed,
        cancel: &CancellationToken,
    ) -> Result<PromptResponse, RpcError> {
        let run = followed.run().clone();
        let cancelling = async {
            cancel.cancelled().await;
            // The end of the run that takes the prompt tells that it was cancelled.
            let cancelled = async { run.taker().await?.cancel(CANCELLED).await };
            if let Err(error) = cancelled.await {
                return failed(error);
            }
            std::future::pending().await
        };
        let shown = async {
            self.earlier_shown(id).await;
            self.follow(id, followed).await
        };
        tokio::select! {
            biased;
            ended = shown => ended,
            error = cancelling => Err(error),
        }
    }

    /// Sends an update.
    pub(super) async fn tell(&self, id: &str, update: Update) -> Result<(), RpcError> {
        let told = SessionNotification {
            session_id: id.to_owned(),
            update,
        };
        let told = self.peer.notify("session/update", &told).await;
        told.map_err(RpcError::internal)
    }

    /// Says something to the user.
    pub(super) async fn say(&self, id: &str, text: &str) -> Result<(), RpcError> {
        let chunk = Chunk {
            content: ContentBlock::text(text),
            message_id: None,
        };
        self.tell(id, Update::AgentMessageChunk(chunk)).await
    }
}

/// The response to a prompt, with its run.
pub(super) fn response(stop_reason: StopReason, run: &Run) -> PromptResponse {
    let meta = [("ghostlight/run".to_owned(), json!(run.id().to_string()))];
    PromptResponse {
        meta: Some(meta.into()),
        ..stopped(stop_reason)
    }
}

/// The response to a prompt that became no run.
fn stopped(stop_reason: StopReason) -> PromptResponse {
    PromptResponse {
        stop_reason,
        usage: None,
        meta: None,
    }
}
