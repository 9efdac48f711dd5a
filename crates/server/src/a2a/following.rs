//! The recorded events of a task, translated into the protocol's words as they come.

use std::collections::VecDeque;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ghostlight_a2a::{
    protocol::{ErrorCode, Message, Part, ProtocolError, StreamResponse, Task, TaskState},
    translation::{TaskReader, Told},
};
use ghostlight_actors::{
    actor::{EventStream, Session},
    vocabulary::{ArtifactInfo, Event, EventRecord, RunResult, Scope},
};

use crate::{problem::Problem, sse::Place};

/// The most bytes of a saved artifact that a task shows; a larger artifact is given by its address.
const MAX_CONTENT: u64 = 1 << 20;

/// An update that is told to the client, or a message of the client's own.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub(crate) enum News {
    Told(StreamResponse),
    Heard(Message),
}

impl News {
    /// Applies this to the task.
    pub(super) fn add_to(&self, task: &mut Task) {
        match self {
            Self::Told(update) => task.apply(update),
            Self::Heard(message) => task.history.push(message.clone()),
        }
    }

    /// The new state of the task, where this is a change of its state.
    pub(super) fn state(&self) -> Option<TaskState> {
        match self {
            Self::Told(StreamResponse::StatusUpdate(update)) => Some(update.status.state),
            _ => None,
        }
    }
}

/// Translates recorded events, and loads the content of saved artifacts.
#[derive(Debug)]
pub(crate) struct TaskEvents {
    pub(crate) reader: TaskReader,
    pub(crate) session: Session,
    /// The address of the session's artifacts, for those that are too large to show.
    pub(crate) artifacts: String,
}

impl TaskEvents {
    /// The news of an event. The answer is whole, since it is for who asked.
    pub(crate) async fn read(&mut self, record: &EventRecord) -> Vec<News> {
        let redacted;
        let record = match &record.event {
            Event::Preview(_)
            | Event::RunEnded {
                end: RunResult::Answered(_),
                ..
            } => record,
            _ => {
                redacted = record.clone().redacted();
                &redacted
            }
        };
        let mut news = Vec::new();
        for told in self.reader.read(record) {
            news.push(match told {
                Told::Update(update) => News::Told(update),
                Told::Heard(message) => News::Heard(message),
                Told::Saved(info) => {
                    let content = self.content(&info).await;
                    News::Told(self.reader.saved(&info, content))
                }
            });
        }
        news
    }

    async fn content(&self, info: &ArtifactInfo) -> Part {
        let mut part = Part {
            filename: Some(info.name.clone()),
            media_type: Some(info.media_type.clone()),
            ..Part::default()
        };
        let read = async {
            if info.bytes > MAX_CONTENT {
                return None;
            }
            let found = self
                .session
                .artifact(Scope::Session, &info.name, Some(info.version));
            found.await.ok().flatten()
        };
        match read.await {
            Some(artifact) => match artifact
                .text()
                .filter(|_| info.media_type.starts_with("text/"))
            {
                Some(text) => part.text = Some(text.to_owned()),
                None => part.raw = Some(STANDARD.encode(&artifact.content)),
            },
            None => {
                part.url = Some(format!(
                    "{}/{}?version={}",
                    self.artifacts, info.name, info.version
                ))
            }
        }
        part
    }
}

/// A reader of one task's events.
pub(super) struct Following {
    pub(super) events: EventStream,
    pub(super) task: TaskEvents,
    /// Whether to end where the task needs input. The sender of a message wants to know when it is its turn again.
    pub(super) ends_at_question: bool,
    ready: VecDeque<(News, Option<Place>)>,
    is_over: bool,
}

impl Following {
    pub(super) fn new(events: EventStream, task: TaskEvents, ends_at_question: bool) -> Self {
        Self {
            events,
            task,
            ends_at_question,
            ready: VecDeque::new(),
            is_over: false,
        }
    }

    /// Ends here if the task has ended.
    pub(super) fn ends_now(&mut self, is_over: bool) {
        self.is_over |= is_over;
    }

    /// Applies what is recorded up to the first change of state, without waiting for the task to go on.
    pub(super) async fn first(&mut self, task: &mut Task) {
        // The beginning of a turn is recorded before the turn is acknowledged.
        while let Some(Ok((news, _))) = self.next().await {
            news.add_to(task);
            if news.state().is_some() {
                return;
            }
        }
    }

    /// The next piece of news; `None` at the end. It carries the event's place if it is the last update of that event.
    pub(super) async fn next(&mut self) -> Option<Result<(News, Option<Place>), ProtocolError>> {
        loop {
            if let Some((news, place)) = self.ready.pop_front() {
                self.is_over |= news.state().is_some_and(|state| {
                    state.is_terminal() || (self.ends_at_question && state.is_interrupted())
                });
                return Some(Ok((news, place)));
            }
            if self.is_over {
                return None;
            }
            match self.events.next_as_one().await? {
                Ok(record) => {
                    let news = self.task.read(&record).await;
                    // One event can become several updates; the last of them completes the event.
                    let last = news.iter().rposition(|news| matches!(news, News::Told(_)));
                    let place = |number| Place::of(&record).filter(|_| last == Some(number));
                    let news = news.into_iter().enumerate();
                    self.ready
                        .extend(news.map(|(number, news)| (news, place(number))));
                }
                Err(error) => {
                    self.is_over = true;
                    let problem = Problem::from(error);
                    return Some(Err(ProtocolError::new(
                        ErrorCode::Internal,
                        problem.detail(),
                    )));
                }
            }
        }
    }
}
