//! Following a run until it rests: its events are shown, its questions are put to the person at the
//! terminal, and Ctrl-C leaves it.

use std::{
    collections::HashSet,
    future::Future,
    io::{self, IsTerminal as _, Write as _},
    pin::Pin,
    time::Duration,
};

use ghostlight_actors::{
    actor::{EventStream, Run, System, SystemError},
    contract::{Clock as _, ItemBody, RunRow, RunStatus, SystemClock},
    vocabulary::{Event, EventRecord, OperationId, Outcome, QuestionKind, RunId, SessionId},
};
use ghostlight_safety::redact_json;

use super::{
    asking,
    echo::Echo,
    exit::{Exit, Failure},
    interrupt::Interrupt,
    keeping::Keeping,
    plain_text,
    questions::{self, Look, Open, Person},
    screen::Screen,
    style,
    timeline::{Detail, Timeline, Tone},
};

/// How often the progress line is drawn.
const FRAME: Duration = Duration::from_millis(100);

/// How a run is followed.
#[derive(Debug)]
pub(super) struct Follow {
    view: View,
    /// Whether approvals are given without a prompt.
    yes: bool,
    person: Option<Person>,
    echo: Echo,
    /// The questions that were answered here or elsewhere.
    answered: HashSet<(RunId, OperationId)>,
    /// The questions whose events have come.
    asked: HashSet<(RunId, OperationId)>,
    /// The runs of the tree that were parked and have not been recovered since.
    parked: HashSet<RunId>,
    /// The position in the order of commits up to which the run's events are from before this
    /// process took it up.
    history: u64,
    /// The event stream of a run that is about to begin.
    expected: Option<(RunId, EventStream)>,
    /// Whether the first interrupt cancels the turn.
    stops_turn: bool,
    stopping: bool,
    /// ` --store FILE`, for commands that are recommended.
    store: String,
    lasting: bool,
}

/// How events are shown.
#[derive(Debug)]
enum View {
    /// Each as JSON on stdout.
    Json,
    /// Lines on stderr, and the answer on stdout.
    Screen(Box<Screen>, Timeline),
}

type Settling = Pin<Box<dyn Future<Output = Result<RunRow, SystemError>> + Send>>;

impl Follow {
    /// Follows on stderr, with the agents' names in a column of this width.
    pub(super) fn new(width: usize, keeping: &Keeping) -> Self {
        let terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
        let detail = match style::chosen().verbose {
            0 => Detail::Progress,
            _ => Detail::Everything,
        };
        let screen = Box::new(Screen::new(width));
        Self {
            view: View::Screen(screen, Timeline::new(detail)),
            yes: false,
            person: terminal.then(Person::default),
            echo: Echo::default(),
            answered: HashSet::new(),
            asked: HashSet::new(),
            parked: HashSet::new(),
            history: 0,
            expected: None,
            stops_turn: false,
            stopping: false,
            store: keeping.option.clone(),
            lasting: keeping.lasting,
        }
    }

    /// Shows each event as JSON on stdout instead, and asks no questions.
    pub(super) fn json(mut self, json: bool) -> Self {
        if json {
            (self.view, self.person) = (View::Json, None);
        }
        self
    }

    /// Subscribes to a turn before it begins: the first previews of its model are not recorded, and
    /// would be missed otherwise.
    pub(super) fn expecting(mut self, system: &System, session: &SessionId, turn: &str) -> Self {
        let run = RunId::of_turn(session, turn);
        self.expected = Some((run, system.run(run).events()));
        self
    }

    /// Makes an interrupt cancel the run; only the next one leaves it.
    pub(super) fn stops_turn(mut self) -> Self {
        self.stops_turn = true;
        self
    }

    /// Gives approvals without a prompt.
    pub(super) fn yes(mut self, yes: bool) -> Self {
        self.yes = yes;
        self
    }

    /// Takes events up to this position as history, which says nothing about the run's present
    /// state.
    pub(super) fn after(mut self, position: u64) -> Self {
        self.history = position;
        self
    }

    /// Whether a person reads the model's text while it is made.
    pub(super) fn reads_along(&self) -> bool {
        matches!(&self.view, View::Screen(screen, _) if screen.is_live())
    }

    /// Tells which models a run works with, also when JSON goes to stdout.
    pub(super) fn announce(&mut self, text: &str) {
        match &mut self.view {
            View::Screen(screen, _) => screen.remark(text),
            View::Json if style::chosen().quiet => {}
            View::Json => self.tell(text),
        }
    }

    /// Writes a note of the command's own on stderr, unless only JSON is wanted.
    pub(super) fn note(&mut self, text: &str) {
        if let View::Screen(screen, _) = &mut self.view {
            screen.note(text);
        }
    }

    /// Follows a run until it rests, and reports its state then.
    pub(super) async fn run(
        &mut self,
        system: &System,
        run: &Run,
        interrupt: &mut Interrupt,
    ) -> Result<Exit, Failure> {
        let end = self.watch(system, run, interrupt).await;
        // What follows may end the process without cleaning up.
        self.echo.show();
        end
    }

    async fn watch(
        &mut self,
        system: &System,
        run: &Run,
        interrupt: &mut Interrupt,
    ) -> Result<Exit, Failure> {
        let mut run = run.clone();
        self.listen_to(&run);
        let expected = self.expected.take().filter(|(id, _)| *id == run.id());
        let mut events = expected.map_or_else(|| run.events(), |(_, events)| events);
        let mut settling: Option<Settling> = Some(settle(&run));
        let mut frame = tokio::time::interval(FRAME);
        frame.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            let live = self.is_live();
            let event = tokio::select! {
                biased;
                () = interrupt.fired() => match self.interrupted(system, &run).await? {
                    Some(exit) => return Ok(exit),
                    None => continue,
                },
                event = events.next() => event,
                row = async { match &mut settling {
                    Some(settling) => settling.await,
                    None => std::future::pending().await,
                }} => {
                    settling = None;
                    match self.settled(system, &run, &row?).await? {
                        Some(exit) => return self.rest(&run, events, exit).await,
                        None => continue,
                    }
                }
                typed = type_line(&mut self.person) => {
                    self.typed(system, typed).await?;
                    if self.person.as_ref().is_some_and(Person::is_gone) {
                        self.person = None;
                        settling = Some(settle(&run));
                    }
                    continue;
                }
                _ = frame.tick(), if live => {
                    self.draw();
                    continue;
                }
            };
            let Some(record) = event.transpose()? else {
                return self.ended(&run).await;
            };
            if matches!(record.event, Event::RunStarted { parent: None, .. }) {
                // The turn may have been said to a run that ended without it, and this one took it.
                run = run.taker().await?;
                self.listen_to(&run);
                settling = Some(settle(&run));
            }
            self.show(&record)?;
            self.consider(system, &record).await?;
            if record.sequence.is_some() && settling.is_none() {
                settling = Some(settle(&run));
            }
        }
    }

    fn listen_to(&mut self, run: &Run) {
        if let View::Screen(screen, _) = &mut self.view {
            screen.listen_to(run.id());
        }
    }

    fn is_live(&self) -> bool {
        matches!(&self.view, View::Screen(screen, _) if screen.is_live())
    }

    fn draw(&mut self) {
        if let View::Screen(screen, _) = &mut self.view {
            screen.draw();
        }
    }

    fn show(&mut self, record: &EventRecord) -> Result<(), Failure> {
        match &mut self.view {
            View::Json => print_json(record)?,
            View::Screen(screen, timeline) => {
                screen.follow(record);
                // The prompt shows a question whole when it is answered here.
                let is_put = matches!(record.event, Event::QuestionAsked { .. });
                if is_put && self.person.is_some() && !self.yes {
                    return Ok(());
                }
                let spoken = screen.has_spoken(record);
                for line in timeline.lines(record) {
                    if !(spoken && line.tone == Tone::Plain) {
                        screen.line(&line);
                    }
                }
            }
        }
        Ok(())
    }

    /// Answers, asks or drops the question that an event is about.
    async fn consider(&mut self, system: &System, record: &EventRecord) -> Result<(), Failure> {
        let run = record.run;
        match &record.event {
            Event::QuestionAsked {
                operation,
                question,
            } => {
                self.asked.insert((run, *operation));
                if self.yes
                    && let Some(value) = questions::yes(question)
                {
                    let value = questions::bound(question, value);
                    self.answer(system, run, *operation, value).await?;
                } else if let Some(person) = &mut self.person {
                    let first = person.current().is_none();
                    person.ask(record.author(), (run, *operation, question.clone()));
                    if first {
                        self.put();
                    }
                }
            }
            Event::QuestionAnswered { operation, .. }
            | Event::OperationFailed { operation, .. }
            | Event::OperationDropped { operation }
            | Event::ToolCalled { operation, .. } => {
                let operation = *operation;
                self.answered.insert((run, operation));
                let withdrawn = self
                    .person
                    .as_mut()
                    .is_some_and(|p| p.take_back(run, operation));
                if withdrawn {
                    self.put_next();
                }
            }
            Event::Parked { .. } if record.position > Some(self.history) => {
                self.parked.insert(run);
            }
            Event::Resumed { .. } | Event::RunEnded { .. } => {
                self.parked.remove(&run);
            }
            _ => {}
        }
        Ok(())
    }

    /// Puts the current question to the person.
    fn put(&mut self) {
        let current = self.person.as_ref().and_then(Person::current);
        let (View::Screen(screen, _), Some((agent, open))) = (&mut self.view, current) else {
            return self.echo.show();
        };
        let hidden = open.2.kind == QuestionKind::Authentication && self.echo.hide();
        if !hidden {
            self.echo.show();
        }
        let prompt = questions::prompt(agent, &open.2, hidden);
        if let Some(person) = &mut self.person {
            person.listen();
        }
        screen.ask(&prompt);
    }

    fn put_next(&mut self) {
        if let View::Screen(screen, _) = &mut self.view {
            screen.asked();
        }
        self.put();
    }

    /// Takes the typed line as the answer to the current question, or as a request to see it again.
    async fn typed(&mut self, system: &System, line: Option<String>) -> Result<(), Failure> {
        let current = self.person.as_ref().and_then(Person::current).cloned();
        let (Some(line), Some((_, (run, operation, question)))) = (line, current) else {
            return Ok(());
        };
        if let Some(look) = Look::asked(&question, &line) {
            let mut seen = question;
            if look.reveal
                && let Some(call) = system.run(run).unredacted(operation).await?
            {
                seen = asking::revealed(&seen, &call);
            }
            self.note(&look.at(&seen));
            self.put();
            return Ok(());
        }
        match questions::answer_of(&question, &line) {
            Ok(value) => {
                let value = questions::bound(&question, value);
                if let Some(person) = &mut self.person {
                    person.take_back(run, operation);
                }
                self.answer(system, run, operation, value).await?;
                self.put_next();
            }
            Err(help) => {
                self.note(&help);
                self.put();
            }
        }
        Ok(())
    }

    async fn answer(
        &mut self,
        system: &System,
        run: RunId,
        operation: OperationId,
        value: serde_json::Value,
    ) -> Result<(), Failure> {
        self.answered.insert((run, operation));
        match system.run(run).answer(operation, value).await {
            // Another answer was faster, and it counts.
            Ok(()) | Err(SystemError::Answer { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Decides whether to leave the run here, now that it rests.
    async fn settled(
        &mut self,
        system: &System,
        run: &Run,
        row: &RunRow,
    ) -> Result<Option<Exit>, Failure> {
        let parked = !self.parked.is_empty();
        match row.status {
            // The row of a run that is just being recovered may still show its state from before.
            RunStatus::Parked => Ok(parked.then_some(Exit::Failed)),
            RunStatus::Waiting => {
                let open = self.unanswered(system, run).await?;
                let has_come = |open: &Open| self.asked.contains(&(open.0, open.1));
                if !open.iter().all(has_come) {
                    // It may be in the store before its event comes, which is shown, and perhaps answered, first.
                    return Ok(None);
                }
                if !open.is_empty() {
                    return Ok(self.person.is_none().then_some(Exit::Waits));
                }
                // A run that waits for a timer, a message or a ticket is waited for; a run that
                // waits for a parked child is not.
                Ok(parked.then_some(Exit::Failed))
            }
            // The stream of events reports the end.
            _ => Ok(None),
        }
    }

    /// The questions that have no answer yet, not even in a mailbox.
    async fn unanswered(&self, system: &System, run: &Run) -> Result<Vec<Open>, Failure> {
        let now = SystemClock::new().now();
        let mut candidates = Vec::new();
        for (asking, operation, question) in run.questions().await? {
            let expired = question.expires.is_some_and(|expires| expires <= now);
            if expired || self.answered.contains(&(asking, operation)) {
                continue;
            }
            let mailbox = system.store().mailbox(asking.into()).await?;
            let answers = |body: &ItemBody| matches!(body, ItemBody::Answer { operation: to, .. } if *to == operation);
            if !mailbox.iter().any(|item| answers(&item.body)) {
                candidates.push((asking, operation));
            }
        }
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        // An answer may have moved from the mailbox to the journal between the two reads.
        let mut open = run.questions().await?;
        open.retain(|open| candidates.contains(&(open.0, open.1)));
        Ok(open)
    }

    /// Shows the remaining events of a run that rests, and says what it waits for.
    async fn rest(&mut self, run: &Run, events: EventStream, exit: Exit) -> Result<Exit, Failure> {
        for record in events.so_far().await? {
            self.show(&record)?;
        }
        let id = run.id().short();
        let store = self.store.clone();
        if !self.lasting {
            let how = if exit == Exit::Waits {
                "waits for an answer"
            } else {
                "is parked"
            };
            self.tell(&format!(
                "run {id} {how}, but was kept in memory only, and is gone; leave --memory out to \
                 continue with such a run"
            ));
        } else if exit == Exit::Waits {
            let open = run.questions().await?;
            let several = open.len() > 1;
            let commands = open.iter().map(|open| {
                format!(
                    "\n  {}",
                    questions::how_to_answer(run.id(), open, several, &store)
                )
            });
            let commands: String = commands.collect();
            self.tell(&format!("run {id} waits for an answer:{commands}"));
        } else {
            self.tell(&format!(
                "run {id} is parked; try it again with\n  ghostlight resume {id}{store}\nor cancel \
                 it with\n  ghostlight cancel {id}{store}"
            ));
        }
        Ok(exit)
    }

    /// Handles the wish to leave. `None` if the run is cancelled instead, and its end is awaited.
    async fn interrupted(&mut self, system: &System, run: &Run) -> Result<Option<Exit>, Failure> {
        if let View::Screen(screen, _) = &mut self.view {
            screen.begin_line();
        }
        let id = run.id().short();
        if self.stops_turn && !std::mem::replace(&mut self.stopping, true) {
            self.note("stopping; once more leaves");
            match run.cancel("stopped by the person at the terminal").await {
                // The run ended meanwhile.
                Ok(_) | Err(SystemError::UnknownRun(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        let held = system.store().held_elsewhere(vec![run.id().into()]).await;
        let store = &self.store;
        let text = if held.is_ok_and(|held| held == [true]) {
            format!(
                "run {id} continues in the process that carries it; look at it with\n  ghostlight show {id} \
                 --follow{store}"
            )
        } else if self.lasting {
            format!("run {id} is suspended; continue with\n  ghostlight resume {id}{store}")
        } else {
            format!("run {id} was kept in memory only, and is gone")
        };
        self.tell(&text);
        Ok(Some(Exit::Interrupted))
    }

    /// Writes what a person must know, also when JSON goes to stdout.
    fn tell(&mut self, text: &str) {
        match &mut self.view {
            View::Screen(screen, _) => screen.note(text),
            View::Json => {
                let _ = writeln!(io::stderr(), "{}", plain_text::plain(text));
            }
        }
    }

    /// Prints the answer of a run that has ended.
    async fn ended(&mut self, run: &Run) -> Result<Exit, Failure> {
        let json = matches!(self.view, View::Json);
        if let View::Screen(screen, _) = &mut self.view {
            screen.clear();
        }
        match run.outcome().await {
            Ok(outcome) => {
                if !json {
                    self.print(&outcome)?;
                }
                Ok(match outcome {
                    Outcome::Stopped { .. } => Exit::Stopped,
                    _ => Exit::Done,
                })
            }
            // The last event has reported the failure.
            Err(SystemError::Failed { .. }) => Ok(Exit::Failed),
            Err(error) => Err(error.into()),
        }
    }

    fn print(&mut self, outcome: &Outcome) -> Result<(), Failure> {
        if let Some(flagged) = outcome
            .as_answer()
            .and_then(|answer| answer.flagged.as_deref())
        {
            self.note(&format!("the answer is flagged: {flagged}"));
        }
        let text = outcome.text();
        let read = matches!(&self.view, View::Screen(screen, _) if screen.has_answered(text));
        if read || (matches!(outcome, Outcome::Stopped { .. }) && text.is_empty()) {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        writeln!(out, "{}", plain_text::plain(text))?;
        out.flush()?;
        Ok(())
    }
}

fn settle(run: &Run) -> Settling {
    let run = run.clone();
    Box::pin(async move { run.wait().await })
}

async fn type_line(person: &mut Option<Person>) -> Option<String> {
    match person {
        Some(person) => person.line().await,
        None => std::future::pending().await,
    }
}

/// Prints something as one line of JSON on stdout, without secrets.
pub(super) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let value = serde_json::to_value(value).map_err(io::Error::other)?;
    let text = redact_json(&value).to_string();
    let mut out = io::stdout().lock();
    writeln!(out, "{}", plain_text::json(text))?;
    out.flush()?;
    Ok(())
}
