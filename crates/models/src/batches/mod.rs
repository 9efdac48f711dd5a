//! Requests that share a batch of their provider: it answers within a day, and asks half the price.
//!
//! An attempt hands its request to the collector and suspends its call. The collector, an actor, gathers requests for a
//! short time, submits them together, asks from time to time how the batch stands, and gives each answer to the ticket
//! of its request. The ticket is the request's id in the batch. A batch stands in the store *before* it is uploaded, with
//! a key that the provider is told too, so that one whose submission was cut short is found there before its requests are
//! submitted again.

mod attending;
mod collector;
mod desk;
mod endpoint;
mod lines;
mod rows;
mod spec;
mod submitting;

use std::{collections::HashSet, sync::Arc, time::Duration};

use bytes::Bytes;
use ghostlight_actors::{
    actor::Companion,
    contract::{BoxFuture, ModelContext, ModelError, ModelHost, Suspension},
    vocabulary::{ErrorKind, ModelRequest, ModelTicket, Timestamp},
};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use self::{
    collector::{Collector, CollectorMessage},
    desk::{Desk, Request},
    rows::Rows,
};
use super::http::{Failure, Report, Scrub};

pub(super) use endpoint::{
    BatchEndpoint, cancelled, described, expired, missing, plain, unanswered,
};
pub(super) use lines::{Line, Lines};
pub use spec::BatchSpec;

/// The batches of a page, and the pages that are searched.
pub(super) const PAGE: usize = 100;
pub(super) const PAGES: usize = 50;
/// By how much the server's clock may differ, in milliseconds.
const SKEW: u64 = 3_600_000;

/// A provider's interface for batches.
pub(super) trait BatchServer: Send + Sync + 'static {
    /// The place where batches of its model are made.
    fn endpoint(&self) -> &BatchEndpoint;

    /// The line of a request in a batch.
    fn line(&self, ticket: &ModelTicket, body: &RawValue) -> Result<Bytes, Failure>;

    /// Uploads lines, and returns the name of the file. Nothing happens with it before a batch names it. The name is empty
    /// where a batch is submitted with its lines.
    fn upload(&self, lines: Vec<Bytes>) -> BoxFuture<'_, Result<String, Failure>>;

    /// Makes a batch of an uploaded file, or of these lines, marked with this key where the server takes marks, and returns
    /// its id.
    fn submit<'a>(
        &'a self,
        file: &'a str,
        key: &'a str,
        lines: Vec<Bytes>,
    ) -> BoxFuture<'a, Result<String, Failure>>;

    /// Looks for a batch of which nobody knows whether it was made.
    fn find<'a>(&'a self, lost: Lost<'a>) -> BoxFuture<'a, Result<Search, Failure>>;

    /// How a batch stands.
    fn look<'a>(&'a self, batch: &'a str) -> BoxFuture<'a, Result<Standing, Failure>>;

    /// The lines of a file of answers to this many requests. Each is read within the bound on an answer.
    fn answers<'a>(
        &'a self,
        file: &'a str,
        requests: usize,
    ) -> BoxFuture<'a, Result<Lines, Failure>>;

    /// Reads a line of answers: the id of its request, and the end of that.
    fn read(&self, line: &[u8]) -> Option<(String, ItemEnd)>;

    /// Ends a batch early.
    fn cancel<'a>(&'a self, batch: &'a str) -> BoxFuture<'a, Result<(), Failure>>;

    /// Deletes files that nobody needs any more.
    fn delete<'a>(&'a self, files: &'a [String]) -> BoxFuture<'a, ()>;

    /// Its name for people, with the model.
    fn description(&self) -> String {
        let of = self.endpoint();
        described(&of.model, &of.server.host, of.path)
    }

    /// A mark of the account by which it is asked, from which nobody can tell the key.
    fn account(&self) -> String {
        self.endpoint().account()
    }

    /// The longest time that requests are on their way to it.
    fn upload_time(&self) -> Duration {
        self.endpoint().timeouts.total
    }

    /// The error for people, and for the rules of retries.
    fn error(&self, failure: Failure) -> ModelError {
        self.endpoint().error(failure)
    }
}

/// A batch of which nobody knows whether it was made.
#[derive(Clone, Copy)]
pub(super) struct Lost<'a> {
    /// The mark that it was given.
    pub(super) key: &'a str,
    made_at: Timestamp,
    /// The time by which its submission was over.
    sent_by: Timestamp,
    /// The ids of its requests.
    pub(super) requests: &'a HashSet<String>,
    /// The batches of other requests.
    pub(super) others: &'a HashSet<String>,
}

impl Lost<'_> {
    /// The earliest time that the server may give as that of its creation.
    pub(super) fn since(&self) -> Timestamp {
        Timestamp(self.made_at.0.saturating_sub(SKEW))
    }

    /// The latest time that the server may give as that of its creation.
    pub(super) fn until(&self) -> Timestamp {
        Timestamp(self.sent_by.0.saturating_add(SKEW))
    }
}

/// The end of a search for a batch.
pub(super) enum Search {
    /// The server has it, under this id.
    Found(String),
    /// The server does not have it.
    Absent,
    /// The server has some of which it may be one. Once they have ended, their answers tell.
    Undecided,
}

pub(super) fn too_many_pages() -> Failure {
    Failure::Malformed(format!("its list of batches has more than {PAGES} pages"))
}

/// How a batch stands.
#[derive(Debug)]
pub(super) enum Standing {
    /// It is under way, and may be cancelled or not.
    UnderWay { cancellable: bool },
    /// It has ended, in this word, and its answers are in these files. A request without an answer has this end.
    Ended {
        status: String,
        files: Vec<String>,
        unanswered: ItemEnd,
    },
}

/// The end of one request of a batch, as it goes to the run that waits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum ItemEnd {
    /// The server's answer, with its status.
    Answered { status: u16, body: Box<RawValue> },
    /// It was not answered, for this reason and with these words of the server.
    Unanswered {
        kind: ErrorKind,
        message: String,
        said: String,
        retryable: bool,
    },
}

/// The end of a request, with the description of the server and model in whose batch it was.
#[derive(Serialize, Deserialize)]
struct Given {
    of: String,
    end: ItemEnd,
}

impl ItemEnd {
    /// The answer of the server, or its refusal.
    fn into_answer(self, scrub: &Scrub<'_>) -> Result<Box<RawValue>, BatchFailure> {
        match self {
            Self::Answered { status, body } if (200..300).contains(&status) => Ok(body),
            Self::Answered { status, body } => Err(BatchFailure::Server(Failure::Rejected {
                status,
                retry_after: None,
                report: Box::new(Report::read(body.get().as_bytes())),
            })),
            Self::Unanswered {
                kind,
                mut message,
                said,
                retryable,
            } => {
                if let Some(words) = scrub.excerpt(&said) {
                    message = format!("{message}: {words}");
                }
                let error = ModelError::new(kind, message);
                Err(BatchFailure::Own(match retryable {
                    true => error.retryable(),
                    false => error,
                }))
            }
        }
    }
}

/// Why a request of a batch failed.
pub(super) enum BatchFailure {
    /// The server refused it as it would have refused it alone.
    Server(Failure),
    /// It joined no batch, or its batch did not come to it.
    Own(ModelError),
}

impl From<ModelError> for BatchFailure {
    fn from(error: ModelError) -> Self {
        Self::Own(error)
    }
}

impl From<Failure> for BatchFailure {
    fn from(failure: Failure) -> Self {
        Self::Server(failure)
    }
}

/// How the call of a run goes in a batch.
pub(super) enum Batched {
    /// Its answer has come.
    Answered(String),
    /// It waits for its answer.
    Waits(BatchSpec, Suspension),
}

impl Batched {
    /// `None` for a call that is made at once: outside of a run that can sleep, and where the setting is missing. An answer
    /// that has come to a request in a batch of this description counts without the setting, too. That of another model,
    /// which is asked where this one fails, stays for it; this one gathers no batch then.
    pub(super) fn of(
        spec: Option<BatchSpec>,
        description: impl FnOnce() -> String,
        cx: &ModelContext,
    ) -> Option<Self> {
        let suspension = cx.suspension()?;
        let mut is_anothers = false;
        let answer = suspension.take_answer_if(|text| {
            let given: Result<Given, _> = serde_json::from_str(text);
            let description = description();
            is_anothers = given.is_ok_and(|given| given.of != description);
            !is_anothers
        });
        match answer {
            Some(answer) => Some(Self::Answered(answer)),
            None => spec
                .filter(|_| !is_anothers)
                .map(|spec| Self::Waits(spec, suspension)),
        }
    }
}

/// The answer that came to a request in a batch. Where none came yet, the request joins a batch and its call is
/// suspended: the future does not end then.
pub(super) async fn answer(
    server: &Arc<dyn BatchServer>,
    batched: Batched,
    cx: &ModelContext,
    request: &ModelRequest,
    body: impl FnOnce() -> serde_json::Result<Box<RawValue>>,
) -> Result<Box<RawValue>, BatchFailure> {
    let (spec, suspension) = match batched {
        Batched::Answered(text) => {
            let given: Result<Given, _> = serde_json::from_str(&text);
            let given = given.map_err(|error| Failure::unreadable(&error))?;
            return given.end.into_answer(&Scrub::new(request));
        }
        Batched::Waits(spec, suspension) => (spec, suspension),
    };
    // Thousands of requests may be gathered at once.
    cx.free_slot();
    let ticket = suspension.ticket();
    let line = body().map_err(|_| Failure::Request);
    let line = line.and_then(|body| server.line(&ticket, &body))?;
    let desk = Desk {
        host: suspension.host().clone(),
        server: server.clone(),
        spec,
    };
    Batches::of(desk).await?.join(ticket, line).await?;
    match suspension.suspend().await {}
}

/// Looks after what was submitted to the server of this description by earlier processes, and by the model with other
/// settings.
pub(super) async fn attend(
    host: &ModelHost,
    spec: Option<BatchSpec>,
    description: &str,
    server: impl FnOnce() -> Result<Arc<dyn BatchServer>, ModelError>,
) {
    // There may be batches of the time when it was set.
    if spec.is_none() && !are_open(host, description).await {
        return;
    }
    let (host, spec) = (host.clone(), spec.unwrap_or_default());
    let desk = server().map(|server| Desk { host, server, spec });
    let attended = match desk {
        Ok(desk) => Batches::of(desk.clone()).await.map(|batches| {
            batches.0.tell(CollectorMessage::Settings(desk));
        }),
        Err(error) => Err(error),
    };
    if let Err(error) = attended {
        tracing::warn!(%error, "nobody looks after the batches of {description}");
    }
}

/// Whether batches are under way at the server of this description.
async fn are_open(host: &ModelHost, description: &str) -> bool {
    let rows = Rows::of(host.store().clone(), description);
    match rows.all().await {
        Ok(open) => !open.rows.is_empty(),
        Err(error) => {
            tracing::warn!(%error, "whether there are batches of {description} cannot be read");
            false
        }
    }
}

/// The way to the collector of an account's batches in one System.
struct Batches(Companion<CollectorMessage>);

impl Batches {
    /// The collector of this model and account in this System, started with these settings if it was not. All models with
    /// the same server, name and account share it.
    async fn of(desk: Desk) -> Result<Self, ModelError> {
        let (server, host) = (&desk.server, desk.host.clone());
        let account = server.account();
        let id = format!("batches of {} by {account}", server.description());
        let collector = Collector(Arc::new(RwLock::new(desk)));
        let make = move || (collector.clone(), ());
        let found = host.companion::<Collector, _>(&id, make).await;
        found
            .map(Self)
            .map_err(|error| ModelError::new(error.kind, error.message))
    }

    /// Adds a request to the batch that is being gathered. Returns once it is submitted, durably.
    ///
    /// # Errors
    /// Why it was surely not submitted.
    async fn join(&self, ticket: ModelTicket, line: Bytes) -> Result<(), ModelError> {
        let ask = |reply: oneshot::Sender<Result<(), ModelError>>| {
            let (ticket, line) = (ticket.clone(), line.clone());
            CollectorMessage::Join(Request {
                ticket,
                line,
                reply,
            })
        };
        let joined = self.0.ask(ask).await;
        joined.unwrap_or_else(|error| Err(ModelError::new(error.kind, error.message).retryable()))
    }
}
