//! The parts that the interfaces share: from messages to a turn, and from a run to its text.

use std::pin::Pin;

use axum::http::HeaderMap;
use futures_util::{Stream, stream::unfold};
use ghostlight_actors::{
    actor::{Run, System, TextStream},
    session::Turn,
    vocabulary::{
        Message, Part, Question, QuestionKind, Role, StopReason, ToolCall, ToolDefinition, Usage,
    },
};
use serde_json::Value;

use super::{
    calls::{call_id, go_on},
    retold::Retold,
    said::Said,
};
use crate::{
    access::fresh_id,
    api::{Asked, Unsaid, turn_id},
    problem::Problem,
    server::Shared,
    waiting::{Answered, Waited, asks, wait_for_end},
};

/// A client's request, whichever interface it uses.
pub(super) struct Spoken {
    pub(super) team: String,
    /// The session in which the team keeps the conversation; without one the messages hold the conversation.
    pub(super) session: Option<String>,
    pub(super) messages: Vec<Said>,
    /// Tools of the client's.
    pub(super) tools: Vec<ToolDefinition>,
    pub(super) streaming: bool,
}

impl Spoken {
    /// Removes and returns the client's messages after the last message of the assistant, with the instructions behind them.
    pub(super) fn last(&mut self) -> Vec<Said> {
        let instructions = self.messages.iter().rev();
        let instructions = instructions.take_while(|said| said.is_instruction());
        let said = &self.messages[..self.messages.len() - instructions.count()];
        let before = said.iter().rposition(|said| !said.is_clients());
        self.messages.split_off(before.map_or(0, |at| at + 1))
    }

    /// The turn of the user's last messages. Without a session it includes the earlier messages.
    fn turn(
        self,
        last: Vec<Said>,
        headers: &HeaderMap,
    ) -> Result<(String, Option<String>, Turn), Problem> {
        let messages = self.messages;
        if !last.iter().any(Said::is_clients) {
            return Err(Problem::invalid("the last message must be the user's"));
        }
        let mut parts = Vec::new();
        if self.session.is_none() && !messages.is_empty() {
            let mut before = String::from("What was said before:\n");
            for said in messages {
                let (line, data) = said.retold()?;
                before.push_str(&format!("\n{line}\n"));
                if !data.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut before)));
                    parts.extend(data);
                }
            }
            before.push_str("\nWhat the user says now:\n");
            parts.push(Part::Text(before));
        }
        for said in last {
            parts.extend(match said.is_instruction() {
                true => vec![Part::Text(said.retold()?.0)],
                false => said.content.into_parts()?,
            });
        }
        let mut message = Message::text(Role::User, "");
        message.parts = parts;
        let mut turn = Turn::from(message);
        if self.streaming {
            turn = turn.streaming(true);
        }
        for tool in self.tools {
            turn = turn.tool(tool);
        }
        if let Some(id) = turn_id(headers, None)? {
            turn = turn.id(id);
        }
        Ok((self.team, self.session, turn))
    }
}

/// A run whose answer a client waits for.
pub(super) struct Dialog {
    pub(super) run: Run,
    pub(super) session: String,
    /// The questions that this request answered, where the run goes on; `None` for a new turn.
    pub(super) answered: Option<Vec<Answered>>,
}

/// Sends a turn. If the session's run asks a question, the message is the answer; results of calls answer the run that
/// made the calls.
pub(super) async fn begin(
    asked: &Asked,
    spoken: Spoken,
    headers: &HeaderMap,
) -> Result<Dialog, Problem> {
    let mut spoken = spoken;
    let last = spoken.last();
    let mut returned = Vec::new();
    for said in &last {
        returned.extend(said.returned()?);
    }
    if !returned.is_empty() {
        return go_on(asked, &spoken.team, returned, last).await;
    }
    let words = words(&last)?;
    let (team, session, turn) = spoken.turn(last, headers)?;
    let known = asked.state.has_team(&team);
    if !known {
        return Err(Problem::not_found(format!(
            "model {team:?}; /v1/models lists the models"
        )));
    }
    // A turn with an id gets a session of the same id, so that sending the turn again finds the same session.
    let key = match (session, &turn.id) {
        (Some(key), _) => key,
        (None, Some(id)) => format!("once-{id}"),
        (None, None) => format!("once-{}", fresh_id()?),
    };
    let id = asked.session(&team, &key)?;
    match asked.say(&id, turn).await {
        Ok(run) => Ok(Dialog {
            run,
            session: key,
            answered: None,
        }),
        Err(Unsaid::Asking(run)) => {
            let run = asked.system.run(run);
            let answered = answer(&asked.system, &run, &words.join("\n")).await?;
            Ok(Dialog {
                run,
                session: key,
                answered: Some(vec![answered]),
            })
        }
        Err(unsaid) => Err(unsaid.into()),
    }
}

/// The texts that the user says in these messages.
pub(super) fn words(last: &[Said]) -> Result<Vec<String>, Problem> {
    let mut words = Vec::new();
    for said in last.iter().filter(|said| said.role == "user") {
        let parts = said.content.clone().into_parts()?;
        words.extend(parts.into_iter().map(|part| match part {
            Part::Data(data) => format!("(left out: {})", data.media_type),
            part => part.as_text().unwrap_or_default().to_owned(),
        }));
    }
    Ok(words)
}

/// Answers the only question of a run.
async fn answer(system: &System, run: &Run, text: &str) -> Result<Answered, Problem> {
    let open = run.questions().await?;
    let [(asker, operation, question)] = open.as_slice() else {
        let id = run.id();
        return Err(Problem::conflict(match open.is_empty() {
            true => format!("run {id} has its answer already: wait for its end"),
            false => format!("run {id} asks several things: answer at /api/v1/runs/{id}/answers"),
        }));
    };
    if question.kind == QuestionKind::ToolResult {
        let id = run.id();
        let detail =
            format!("run {id} waits for the result of a call: send that, or cancel the run");
        return Err(Problem::conflict(detail));
    }
    let value = answer_of(question, text)?;
    system.run(*asker).answer(*operation, value).await?;
    Ok((*asker, *operation))
}

/// The value that a text gives as the answer to a question.
pub(crate) fn answer_of(question: &Question, text: &str) -> Result<Value, Problem> {
    let text = text.trim();
    match question.kind {
        QuestionKind::Approval | QuestionKind::Confirmation | QuestionKind::InDoubt => {
            match text.to_ascii_lowercase().trim_end_matches(['.', '!']) {
                "yes" | "y" | "true" | "approve" | "approved" | "ok" => Ok(Value::Bool(true)),
                "no" | "n" | "false" | "deny" | "denied" => Ok(Value::Bool(false)),
                _ => Err(Problem::invalid(format!(
                    "answer yes or no: {}",
                    question.prompt
                ))),
            }
        }
        _ => Ok(Value::String(text.to_owned())),
    }
}

/// Why a run's text ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// It has answered.
    Stop,
    /// A bound was reached.
    Length,
    /// It asks a question, which the next message of the session answers.
    Asks,
    /// The client is to make calls, and to send their results.
    Calls,
}

/// A run's text up to its end or its question.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) text: String,
    /// Calls of the client's tools, each with the id by which the client answers it.
    pub(super) calls: Vec<(String, ToolCall)>,
    pub(super) finish: Finish,
    pub(super) usage: Usage,
}

/// Waits for a run's end or a question, without the questions that this request answered.
pub(super) async fn finished(
    state: &Shared,
    run: &Run,
    answered: &[Answered],
) -> Result<Finished, Problem> {
    let (mut calls, mut used) = (Vec::new(), None);
    let (text, finish) = match wait_for_end(state, run, answered).await? {
        Waited::Ended(outcome, spent) => {
            used = Some(spent);
            match outcome.stop_reason() {
                None => (outcome.text().to_owned(), Finish::Stop),
                Some(reason @ (StopReason::Cancelled(_) | StopReason::ContentFilter)) => {
                    return Err(Problem::conflict(format!(
                        "run {} stopped: {reason}",
                        run.id()
                    )));
                }
                Some(_) => (outcome.text().to_owned(), Finish::Length),
            }
        }
        Waited::Asks(open) => {
            let mut prompts = Vec::new();
            for (asker, operation, question) in open {
                let mut call = None;
                if question.kind == QuestionKind::ToolResult {
                    let asker = state.system.as_operator().run(asker);
                    call = asker.unredacted(operation).await?;
                }
                match call {
                    Some(call) => calls.push((call_id(asker, operation), call)),
                    None => prompts.push(question.in_words()),
                }
            }
            let finish = match calls.is_empty() {
                true => Finish::Asks,
                false => Finish::Calls,
            };
            (prompts.join("\n"), finish)
        }
        // `wait_for_end` reports a run that goes on as a problem.
        Waited::GoesOn => (String::new(), Finish::Length),
    };
    let spent = match used {
        Some(spent) => spent,
        None => run.taker().await?.budget().await?.spent,
    };
    Ok(Finished {
        text,
        calls,
        finish,
        usage: spent.usage,
    })
}

/// The next piece of a stream.
pub(super) enum Piece {
    /// More text.
    Text(String),
    /// The end.
    Done(Result<Finished, Problem>),
}

type Asking = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Speaking {
    state: Shared,
    run: Run,
    text: Option<TextStream>,
    retold: Retold,
    asking: Asking,
    answered: Vec<Answered>,
    said: bool,
    /// The end that is still to be sent after the text.
    end: Option<Result<Finished, Problem>>,
}

/// A run's text, piece by piece, and then its end.
pub(super) fn pieces(state: &Shared, dialog: Dialog) -> impl Stream<Item = Piece> + Send + 'static {
    let run = dialog.run;
    let asker = run.clone();
    let speaking = Speaking {
        state: state.clone(),
        text: dialog.answered.is_none().then(|| run.text_stream()),
        retold: Retold::default(),
        asking: Box::pin(async move { drop(asks(&asker, &[]).await) }),
        answered: dialog.answered.unwrap_or_default(),
        run,
        said: false,
        end: None,
    };
    unfold(Some(speaking), |speaking| async move {
        let mut speaking = speaking?;
        if let Some(end) = speaking.end.take() {
            return Some((Piece::Done(end), None));
        }
        while let Some(text) = &mut speaking.text {
            tokio::select! {
                biased;
                piece = text.next() => match piece {
                    Some(Ok(piece)) => {
                        speaking.said = true;
                        if let Some(text) = speaking.retold.piece(piece) {
                            return Some((Piece::Text(text), Some(speaking)));
                        }
                        continue;
                    }
                    Some(Err(error)) => return Some((Piece::Done(Err(error.into())), None)),
                    None => {}
                },
                () = &mut speaking.asking => {}
            }
            speaking.text = None;
        }
        let end = finished(&speaking.state, &speaking.run, &speaking.answered).await;
        // Text that did not come in pieces: the answer of a run that went on, or a question.
        let unsaid = match &end {
            Ok(end) if !matches!(end.finish, Finish::Stop | Finish::Length) || !speaking.said => {
                end.text.clone()
            }
            _ => String::new(),
        };
        let mut unsaid = match (unsaid.is_empty(), speaking.said) {
            (false, true) => format!("\n\n{unsaid}"),
            _ => unsaid,
        };
        if let Some(rest) = speaking.retold.end() {
            unsaid.insert_str(0, &rest);
        }
        if unsaid.is_empty() {
            return Some((Piece::Done(end), None));
        }
        speaking.end = Some(end);
        Some((Piece::Text(unsaid), Some(speaking)))
    })
}
