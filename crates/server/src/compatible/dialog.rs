//! What the interfaces share: from messages to a turn, and from a run to what it says.

use std::pin::Pin;

use axum::http::HeaderMap;
use futures_util::{Stream, stream::unfold};
use ghostlight_actors::{
    actor::{Run, TextStream},
    session::Turn,
    vocabulary::{
        Data, DataSource, Message, Part, Question, QuestionKind, Role, StopReason, Usage,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    access::fresh_id,
    api::{Asked, Unsaid, turn_id},
    problem::Problem,
    server::Shared,
    waiting::{Waited, asks, wait_for_end},
};

/// A message of a client's.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Said {
    /// user, assistant, system or developer.
    pub(super) role: String,
    #[serde(default)]
    pub(super) content: Content,
}

/// What a message says.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Value>),
    Nothing(()),
}

impl Default for Content {
    fn default() -> Self {
        Self::Nothing(())
    }
}

impl Content {
    /// Its parts, whichever interface they are of.
    fn into_parts(self) -> Result<Vec<Part>, Problem> {
        match self {
            Self::Nothing(()) => Ok(Vec::new()),
            Self::Text(text) => Ok(vec![Part::Text(text)]),
            Self::Parts(parts) => parts.iter().map(part).collect(),
        }
    }
}

fn part(part: &Value) -> Result<Part, Problem> {
    let text = |pointer: &str| {
        part.pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let fault = || Problem::invalid("a part of a message says less than its type needs");
    let data = |media_type: String, source| {
        Part::Data(Data {
            media_type,
            name: None,
            source,
        })
    };
    match part["type"].as_str().unwrap_or_default() {
        "text" | "input_text" | "output_text" => text("/text").map(Part::Text).ok_or_else(fault),
        "image_url" | "input_image" => {
            let url = text("/image_url/url")
                .or_else(|| text("/image_url"))
                .ok_or_else(fault)?;
            let inline = url
                .strip_prefix("data:")
                .and_then(|rest| rest.split_once(";base64,"));
            Ok(match inline {
                Some((kind, bytes)) => data(kind.to_owned(), DataSource::Base64(bytes.to_owned())),
                None => data("image/*".to_owned(), DataSource::Url(url)),
            })
        }
        "image" | "document" => {
            let kind = text("/source/media_type").unwrap_or_else(|| "image/*".to_owned());
            match (text("/source/data"), text("/source/url")) {
                (Some(bytes), _) => Ok(data(kind, DataSource::Base64(bytes))),
                (None, Some(url)) => Ok(data(kind, DataSource::Url(url))),
                (None, None) => Err(fault()),
            }
        }
        other => Err(Problem::invalid(format!(
            "a part of type {other:?} is nothing that an agent is told; say text or an image"
        ))),
    }
}

/// What a client says, and where.
pub(super) struct Spoken {
    pub(super) team: String,
    /// The session in which the team keeps the conversation; without one it is in the messages.
    pub(super) session: Option<String>,
    pub(super) messages: Vec<Said>,
    pub(super) streaming: bool,
}

impl Spoken {
    /// The turn: what the user said last. Without a session it comes with what was said before.
    fn turn(self, headers: &HeaderMap) -> Result<(String, Option<String>, Turn), Problem> {
        let is_last = |said: &Said| said.role == "user";
        let kept = self
            .messages
            .iter()
            .rposition(|said| !is_last(said))
            .map_or(0, |at| at + 1);
        let mut messages = self.messages;
        let last = messages.split_off(kept);
        if last.is_empty() {
            return Err(Problem::invalid("the last message is the user's"));
        }
        let mut parts = Vec::new();
        if self.session.is_none() && !messages.is_empty() {
            let mut before = String::from("What was said before:\n");
            for said in messages {
                let role = said.role.clone();
                let texts = said.content.into_parts()?;
                let texts: Vec<&str> = texts.iter().filter_map(Part::as_text).collect();
                before.push_str(&format!("\n{role}: {}\n", texts.join("\n")));
            }
            before.push_str("\nWhat the user says now:\n");
            parts.push(Part::Text(before));
        }
        for said in last {
            parts.extend(said.content.into_parts()?);
        }
        let mut message = Message::text(Role::User, "");
        message.parts = parts;
        let mut turn = Turn::from(message);
        if self.streaming {
            turn = turn.streaming(true);
        }
        if let Some(id) = turn_id(headers, None)? {
            turn = turn.id(id);
        }
        Ok((self.team, self.session, turn))
    }
}

/// A run that speaks to a client.
pub(super) struct Dialog {
    pub(super) run: Run,
    pub(super) session: String,
    /// Whether what it said before has been heard: it went on with an answer.
    goes_on: bool,
}

/// Says a turn. Where the session's run asks something, it is the answer.
pub(super) async fn begin(
    asked: &Asked,
    spoken: Spoken,
    headers: &HeaderMap,
) -> Result<Dialog, Problem> {
    let (team, session, turn) = spoken.turn(headers)?;
    let known = asked.state.teams().iter().any(|known| known.name == team);
    if !known {
        return Err(Problem::not_found(format!(
            "model {team:?}; /v1/models lists those that there are"
        )));
    }
    // A turn that has an id has one session, too, so that sending it again is sending it once.
    let key = session.unwrap_or_else(|| match &turn.id {
        Some(id) => format!("once-{id}"),
        None => format!("once-{}", fresh_id()),
    });
    let id = asked.session(&team, &key)?;
    let text = turn.message.content();
    match asked.say(&id, turn).await {
        Ok(run) => Ok(Dialog {
            run,
            session: key,
            goes_on: false,
        }),
        Err(Unsaid::Asking(run)) => {
            let run = asked.system.run(run);
            answer(&run, &text).await?;
            Ok(Dialog {
                run,
                session: key,
                goes_on: true,
            })
        }
        Err(unsaid) => Err(unsaid.into()),
    }
}

/// Answers the one question that a run asks.
pub(crate) async fn answer(run: &Run, text: &str) -> Result<(), Problem> {
    let open = run.questions().await?;
    let [(_, operation, question)] = open.as_slice() else {
        let id = run.id();
        let detail = format!("run {id} asks several things: answer at /api/v1/runs/{id}/answers");
        return Err(Problem::conflict(detail));
    };
    run.answer(*operation, answer_of(question, text)?).await?;
    Ok(())
}

/// What a text answers to a question.
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

/// Why a run says no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// It has answered.
    Stop,
    /// A bound was reached.
    Length,
    /// The next message of the session is its answer.
    Asks,
}

/// All that a run said by its end or its question.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) text: String,
    pub(super) finish: Finish,
    pub(super) usage: Usage,
}

/// Waits for a run's end or its question.
pub(super) async fn finished(state: &Shared, run: &Run) -> Result<Finished, Problem> {
    let (text, finish) = match wait_for_end(state, run).await? {
        Waited::Ended(outcome) => match outcome.stop_reason() {
            None => (outcome.text().to_owned(), Finish::Stop),
            Some(reason @ (StopReason::Cancelled(_) | StopReason::ContentFilter)) => {
                return Err(Problem::conflict(format!(
                    "run {} stopped: {reason}",
                    run.id()
                )));
            }
            Some(_) => (outcome.text().to_owned(), Finish::Length),
        },
        Waited::Asks(open) => {
            let prompts: Vec<String> = open.iter().map(|(.., asked)| prompt(asked)).collect();
            (prompts.join("\n"), Finish::Asks)
        }
        // `wait_for_end` tells that as a problem.
        Waited::GoesOn => (String::new(), Finish::Length),
    };
    let usage = run.budget().await?.spent.usage;
    Ok(Finished {
        text,
        finish,
        usage,
    })
}

/// A question as a person reads it.
fn prompt(question: &Question) -> String {
    let mut text = question.prompt.clone();
    if let Some(call) = &question.call {
        text.push_str(&format!("\n{} {}", call.name, call.arguments.text()));
    }
    if !question.options.is_empty() {
        text.push_str(&format!(" ({})", question.options.join(", ")));
    }
    text
}

/// What a stream has next.
pub(super) enum Piece {
    /// More text.
    Text(String),
    /// Nothing more.
    Done(Result<Finished, Problem>),
}

type Asking = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Speaking {
    state: Shared,
    run: Run,
    text: Option<TextStream>,
    asking: Asking,
    said: bool,
    /// What is left when the text is over.
    end: Option<Result<Finished, Problem>>,
}

/// What a run says, piece by piece, and then how it ended.
pub(super) fn pieces(state: &Shared, dialog: Dialog) -> impl Stream<Item = Piece> + Send + 'static {
    let run = dialog.run;
    let asker = run.clone();
    let speaking = Speaking {
        state: state.clone(),
        text: (!dialog.goes_on).then(|| run.text_stream()),
        asking: Box::pin(async move { drop(asks(&asker).await) }),
        run,
        said: false,
        end: None,
    };
    unfold(Some(speaking), |speaking| async move {
        let mut speaking = speaking?;
        if let Some(end) = speaking.end.take() {
            return Some((Piece::Done(end), None));
        }
        if let Some(text) = &mut speaking.text {
            tokio::select! {
                biased;
                piece = text.next() => match piece {
                    Some(Ok(piece)) => {
                        speaking.said = true;
                        return Some((Piece::Text(piece.text), Some(speaking)));
                    }
                    Some(Err(error)) => return Some((Piece::Done(Err(error.into())), None)),
                    None => {}
                },
                () = &mut speaking.asking => {}
            }
        }
        let end = finished(&speaking.state, &speaking.run).await;
        // Text that was not said piece by piece: the answer of a run that went on, or a question.
        let unsaid = match &end {
            Ok(end) if end.finish == Finish::Asks || !speaking.said => end.text.clone(),
            _ => String::new(),
        };
        if unsaid.is_empty() {
            return Some((Piece::Done(end), None));
        }
        let gap = if speaking.said { "\n\n" } else { "" };
        (speaking.end, speaking.text) = (Some(end), None);
        Some((Piece::Text(format!("{gap}{unsaid}")), Some(speaking)))
    })
}
