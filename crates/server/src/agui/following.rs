//! The events of a run as they come, translated for one client.

use std::{collections::VecDeque, pin::Pin};

use ghostlight_actors::{
    actor::{EventStream, Run, SystemError},
    contract::RunStatus,
    vocabulary::{Event, EventRecord, OperationId, Question, QuestionKind, RunId},
};

use super::{event::Told, input::Asking, reader::Reader};
use crate::{api::Asked, problem::Problem, sse::Place, waiting::asks};

type Questions = Vec<(RunId, OperationId, Question)>;
type Asks = Pin<Box<dyn Future<Output = Result<Questions, SystemError>> + Send>>;

/// A reader of one run's events.
pub(super) struct Following {
    asked: Asked,
    run: Run,
    events: EventStream,
    reader: Reader,
    /// The questions whose answers begin the client's run; empty where it begins with the run.
    begins: Vec<Asking>,
    /// Whether the run was cancelled instead of answered: the client's run begins with its end.
    is_given_up: bool,
    /// The event behind which the client resumes.
    after: Option<Place>,
    /// Waits until the run as a whole waits for answers. Only then the client's run ends at its questions.
    asks: Option<Asks>,
    /// The questions for which the run waits, of which the reader has not seen all yet.
    waits: Option<Vec<Asking>>,
    ready: VecDeque<(Told, Option<Place>)>,
}

impl Following {
    pub(super) fn new(asked: Asked, run: Run, reader: Reader) -> Self {
        Self {
            events: run.events(),
            asked,
            run,
            reader,
            begins: Vec::new(),
            is_given_up: false,
            after: None,
            asks: None,
            waits: None,
            ready: VecDeque::new(),
        }
    }

    /// Begins with the first answer to one of these questions.
    pub(super) fn beginning_with(mut self, questions: Vec<Asking>) -> Self {
        self.begins = questions;
        self
    }

    /// Leaves out what the client has.
    pub(super) fn after(mut self, after: Option<Place>) -> Self {
        self.after = after;
        self
    }

    /// Tells only how the run ended.
    pub(super) fn at_the_end(mut self) -> Self {
        self.is_given_up = true;
        self
    }

    /// Shows the messages of the thread first, and nothing else if that is all.
    pub(super) fn showing(mut self, is_all: bool) -> Self {
        let told = self.reader.show(is_all);
        self.push(told, None);
        self
    }

    fn push(&mut self, told: Vec<Told>, place: Option<Place>) {
        // A client that resumes behind a message which is half told would hear its beginning again.
        let place = place.filter(|_| !self.reader.is_speaking());
        // The last event of several completes the recorded one.
        let last = told.len().saturating_sub(1);
        let told = told.into_iter().enumerate();
        self.ready
            .extend(told.map(|(number, told)| (told, place.filter(|_| number == last))));
    }

    fn fail(&mut self, problem: &Problem) {
        let told = self
            .reader
            .fail(problem.detail().to_owned(), problem.word());
        self.push(told, None);
    }

    /// The next event; `None` at the end. It carries a place if it is the last of what was recorded there.
    pub(super) async fn next(&mut self) -> Option<(Told, Option<Place>)> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Some(next);
            }
            if self.reader.is_over() {
                return None;
            }
            let waits = async {
                match &mut self.asks {
                    Some(asks) => asks.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                record = self.events.next_as_one() => match record {
                    Some(Ok(record)) => self.read(record).await,
                    Some(Err(error)) => self.fail(&Problem::from(error)),
                    // The run ended before the client's run began.
                    None => self.fail(&Problem::not_found("answer that began this run")),
                },
                questions = waits => {
                    self.asks = None;
                    match questions {
                        Ok(open) => {
                            let open = open.into_iter();
                            self.waits = Some(open.map(|(run, operation, _)| (run, operation)).collect());
                            self.settle();
                        }
                        Err(error) => self.fail(&Problem::from(error)),
                    }
                }
            }
        }
    }

    /// Ends the client's run where the reader has seen all questions for which the run waits.
    fn settle(&mut self) {
        let open: Vec<Asking> = self.reader.open().collect();
        let Some(waits) = &self.waits else { return };
        if waits.iter().all(|asking| open.contains(asking)) {
            self.waits = None;
            let told = self.reader.interrupt();
            self.push(told, None);
        }
    }

    async fn read(&mut self, record: EventRecord) {
        let mut record = record.redacted();
        let place = Place::of(&record);
        if let Event::QuestionAsked {
            operation,
            question,
        } = &mut record.event
            && question.kind == QuestionKind::ToolResult
        {
            // The client makes the call with its exact arguments.
            let run = self.asked.system.as_operator().run(record.run);
            match run.unredacted(*operation).await {
                Ok(Some(call)) => question.call = Some(call),
                Ok(None) => {}
                Err(error) => return self.fail(&error.into()),
            }
        }
        if let Event::QuestionAnswered { operation, .. } = &record.event {
            let answered = (record.run, *operation);
            if self.begins.contains(&answered) && !self.reader.has_begun() {
                let told = self.reader.begin(Some(record.at));
                self.tell(told, place);
            }
            // The run goes on, so it does not wait for the others either.
            self.waits = self.waits.take().filter(|waits| !waits.contains(&answered));
        }
        let is_end =
            matches!(record.event, Event::RunEnded { .. }) && record.run == self.reader.root();
        if self.is_given_up && is_end {
            let told = self.reader.begin(Some(record.at));
            self.tell(told, None);
        }
        let is_silent = !self.begins.is_empty() || self.is_given_up;
        if is_silent && !self.reader.has_begun() {
            self.reader.learn(&record);
            return;
        }
        let parked = match &record.event {
            Event::Parked { reason } if record.run == self.reader.root() => {
                Some(reason.to_string())
            }
            _ => None,
        };
        let told = self.reader.read(&record);
        self.tell(told, place);
        if let Some(reason) = parked {
            self.parked(reason).await;
        }
        self.settle();
        let is_asking = self.reader.has_begun() && self.reader.open().next().is_some();
        if is_asking && self.asks.is_none() && self.waits.is_none() {
            let run = self.run.clone();
            self.asks = Some(Box::pin(async move { asks(&run, &[]).await }));
        }
    }

    /// Passes on what the client does not have yet.
    fn tell(&mut self, told: Vec<Told>, place: Option<Place>) {
        let Some(after) = self.after else {
            return self.push(told, place);
        };
        // Previews before that event were told, too.
        if place.is_some_and(|place| place >= after) {
            self.after = None;
            let again = self.reader.again();
            self.push(again, None);
            if place != Some(after) {
                self.push(told, place);
            }
        }
    }

    /// Ends the client's run if the run is parked still: somebody may have retried it.
    async fn parked(&mut self, reason: String) {
        let run = self.asked.system.run(self.reader.root());
        match run.status().await {
            Ok(row) if row.status == RunStatus::Parked => {
                let told = self.reader.fail(reason, "parked");
                self.push(told, None);
            }
            Ok(_) => {}
            Err(error) => self.fail(&error.into()),
        }
    }
}
