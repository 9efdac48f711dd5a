//! What becomes of a task: its recorded events in the protocol's words.

use std::collections::VecDeque;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ghostlight_a2a::{
    protocol::{ErrorCode, Message, Part, ProtocolError, StreamResponse, Task, TaskState},
    translation::{TaskReader, Told},
};
use ghostlight_actors::{
    actor::{EventStream, Session},
    vocabulary::{ArtifactInfo, EventRecord, Scope},
};

use crate::{problem::Problem, sse::Place};

/// The most bytes of a saved artifact that are shown in a task; of a larger one its address is.
const MAX_CONTENT: u64 = 1 << 20;

/// What is told of a task, or heard in it.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub(super) enum News {
    Told(StreamResponse),
    Heard(Message),
}

impl News {
    /// The task, as it is after this.
    pub(super) fn add_to(&self, task: &mut Task) {
        match self {
            Self::Told(update) => task.apply(update),
            Self::Heard(message) => task.history.push(message.clone()),
        }
    }

    /// How the task stands, where this is about that.
    pub(super) fn state(&self) -> Option<TaskState> {
        match self {
            Self::Told(StreamResponse::StatusUpdate(update)) => Some(update.status.state),
            _ => None,
        }
    }
}

/// Reads what events come to, with the content of what was saved.
#[derive(Debug)]
pub(super) struct TaskEvents {
    pub(super) reader: TaskReader,
    pub(super) session: Session,
    /// Where the session's artifacts are, for those that are not shown.
    pub(super) artifacts: String,
}

impl TaskEvents {
    pub(super) async fn read(&mut self, record: &EventRecord) -> Vec<News> {
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

/// A task that is followed.
pub(super) struct Following {
    pub(super) events: EventStream,
    pub(super) task: TaskEvents,
    /// Whether it ends where the task needs somebody: whoever says something wants to know when it is their turn.
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

    /// Ends it here, where the task has ended.
    pub(super) fn ends_now(&mut self, is_over: bool) {
        self.is_over |= is_over;
    }

    /// Takes in what is recorded of the task by now, without waiting for more.
    pub(super) async fn first(&mut self, task: &mut Task) {
        // The record that the turn began is there when the turn was taken.
        while let Some(Ok((news, _))) = self.next().await {
            news.add_to(task);
            if news.state().is_some() {
                return;
            }
        }
    }

    /// What comes next, with its place where nothing more comes of the same event; `None` at the end.
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
            match self.events.next().await? {
                Ok(record) => {
                    let news = self.task.read(&record).await;
                    // Of several the last that is told completes the event.
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
