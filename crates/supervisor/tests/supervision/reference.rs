//! A plain model of OTP's supervisor: one thing at a time, everything done when it returns. It knows
//! nothing of generations, timers' names or unfinished starts; it shares no code with the machine.
//!
//! It follows the functions of OTP's `supervisor` (`do_restart`, `restart`, `restart_multiple_children`,
//! `terminate_children`, `add_restart`, `do_auto_shutdown`). Back-off is added where OTP would call
//! itself at once: a child or a group that waits is `Waiting` until its time comes.

use std::collections::VecDeque;
use std::time::Duration;

use ghostlight_supervisor::{
    AutoShutdown, ChildSpec, Exit, Restart, Shutdown, Strategy, SupervisorSpec,
};

use crate::world::{Fate, Tree};

#[derive(Debug)]
enum Process {
    None,
    /// Will be started again; alone when this is its time, or with the group.
    Waiting(Option<Due>),
    Alive(Option<Box<Model>>),
    /// Has died, and its exit signal is in the supervisor's mailbox.
    Dead,
}

/// When, and which of two at the same time comes first.
type Due = (Duration, u64);

#[derive(Debug)]
struct Row {
    number: u64,
    spec: ChildSpec,
    below: Option<Tree>,
    process: Process,
    failures: u32,
    started_at: Duration,
    /// Never started, and this many callers wait for that.
    callers: u32,
    new: bool,
}

#[derive(Debug)]
enum Mail {
    Exit(String, Exit),
    TryAgain(String),
}

#[derive(Debug)]
pub(crate) struct Model {
    spec: SupervisorSpec,
    rows: Vec<Row>,
    mail: VecDeque<Mail>,
    restarts: Vec<Duration>,
    group_due: Option<Due>,
    /// The first row's number that the waiting group has.
    group_from: u64,
    rows_made: u64,
    sequence: u64,
    pub(crate) now: Duration,
    pub(crate) end: Option<String>,
}

impl Model {
    pub(crate) fn boot(tree: &Tree, now: Duration, fate: &mut Fate) -> Self {
        let rows = (0..).zip(&tree.children);
        let rows =
            rows.map(|(number, (spec, below))| Row::new(number, spec.clone(), below.clone()));
        let mut model = Self {
            spec: tree.spec,
            rows: rows.collect(),
            mail: VecDeque::new(),
            restarts: Vec::new(),
            group_due: None,
            group_from: 0,
            rows_made: tree.children.len() as u64,
            sequence: 0,
            now,
            end: None,
        };
        for at in 0..model.rows.len() {
            if !model.start(at, fate) {
                let id = model.rows[at].spec.id.clone();
                model.finish(format!("{id} did not start"), fate);
                break;
            }
        }
        model
    }

    /// Ends children at one moment, then lets the supervisor work.
    pub(crate) fn die(&mut self, deaths: &[(String, Exit)], fate: &mut Fate) {
        for (id, exit) in deaths {
            if let Some(row) = self.rows.iter_mut().find(|row| row.spec.id == *id)
                && matches!(row.process, Process::Alive(_))
            {
                row.process = Process::Dead;
                self.mail.push_back(Mail::Exit(id.clone(), exit.clone()));
            }
        }
        self.work(fate);
    }

    fn work(&mut self, fate: &mut Fate) {
        while let Some(mail) = self.mail.pop_front() {
            if self.end.is_some() {
                return;
            }
            match mail {
                Mail::Exit(id, exit) => {
                    if let Some(at) = self.find(&id)
                        && matches!(self.rows[at].process, Process::Dead)
                    {
                        self.do_restart(at, &exit, fate);
                    }
                }
                Mail::TryAgain(id) => {
                    if let Some(at) = self.find(&id) {
                        self.restart(at, fate);
                    }
                }
            }
        }
    }

    fn do_restart(&mut self, at: usize, exit: &Exit, fate: &mut Fate) {
        let row = &self.rows[at];
        let again = match row.spec.restart {
            Restart::Permanent => true,
            Restart::Transient => !exit.is_normal(),
            Restart::Temporary => false,
        };
        if again {
            let ran = self.now - row.started_at;
            if ran >= self.spec.backoff.reset_after {
                self.rows[at].failures = 0;
            }
            return self.restart(at, fate);
        }
        let (id, significant) = (row.spec.id.clone(), row.spec.significant);
        self.put_to_rest(at);
        if !significant {
            return;
        }
        let active = |row: &Row| row.spec.significant && !matches!(row.process, Process::None);
        let ends = match self.spec.auto_shutdown {
            AutoShutdown::Never => false,
            AutoShutdown::AnySignificant => true,
            AutoShutdown::AllSignificant => !self.rows.iter().any(active),
        };
        if ends {
            self.finish(format!("auto by {id}"), fate);
        }
    }

    fn restart(&mut self, at: usize, fate: &mut Fate) {
        self.rows[at].failures += 1;
        let period = self.spec.intensity.period;
        let now = self.now;
        self.restarts.retain(|then| *then + period >= now);
        self.restarts.push(now);
        if self.restarts.len() > self.spec.intensity.restarts as usize {
            let id = self.rows[at].spec.id.clone();
            self.rows[at].process = Process::None;
            fate.note("^");
            return self.finish(format!("used up by {id}"), fate);
        }
        let delay = self.delay(self.rows[at].failures);
        self.rows[at].process = Process::Waiting(None);
        if self.spec.strategy.is_group() {
            let from = if self.spec.strategy == Strategy::OneForAll {
                0
            } else {
                at
            };
            self.group_from = if from == 0 { 0 } else { self.rows[from].number };
            self.terminate_from(from, fate);
            if delay.is_zero() {
                self.group_due = None;
                self.start_waiting(fate);
            } else {
                self.group_due = Some(self.due(delay));
            }
        } else if delay.is_zero() {
            self.attempt(at, fate);
        } else {
            self.rows[at].process = Process::Waiting(Some(self.due(delay)));
        }
    }

    /// base × factorⁿ⁻¹, at most max; by repeated multiplication, on purpose.
    fn delay(&self, failures: u32) -> Duration {
        let mut delay = self.spec.backoff.base;
        for _ in 1..failures {
            delay = delay
                .mul_f64(self.spec.backoff.factor)
                .min(self.spec.backoff.max);
        }
        delay.min(self.spec.backoff.max)
    }

    fn due(&mut self, delay: Duration) -> Due {
        self.sequence += 1;
        (self.now + delay, self.sequence)
    }

    fn terminate_from(&mut self, from: usize, fate: &mut Fate) {
        for at in (from..self.rows.len()).rev() {
            self.stop(at, fate);
            if self.rows[at].spec.restart == Restart::Temporary && !self.rows[at].new {
                self.rows.remove(at);
            } else {
                self.rows[at].process = Process::Waiting(None);
            }
        }
    }

    fn start_waiting(&mut self, fate: &mut Fate) {
        while let Some(at) = self
            .rows
            .iter()
            .position(|row| matches!(row.process, Process::Waiting(None)))
        {
            if !self.start_answering(at, fate) {
                if self.rows[at].new {
                    self.rows.remove(at);
                    continue;
                }
                return self
                    .mail
                    .push_back(Mail::TryAgain(self.rows[at].spec.id.clone()));
            }
        }
    }

    fn attempt(&mut self, at: usize, fate: &mut Fate) {
        if !self.start_answering(at, fate) {
            self.mail
                .push_back(Mail::TryAgain(self.rows[at].spec.id.clone()));
        }
    }

    fn start_answering(&mut self, at: usize, fate: &mut Fate) -> bool {
        let started = self.start(at, fate);
        for _ in 0..std::mem::take(&mut self.rows[at].callers) {
            fate.note(if started { "=started" } else { "=start failed" });
        }
        self.rows[at].new &= !started;
        started
    }

    fn start(&mut self, at: usize, fate: &mut Fate) -> bool {
        let now = self.now;
        let row = &mut self.rows[at];
        let mut below = None;
        let mut fails = fate.refuses(&row.spec.id);
        if !fails && let Some(tree) = &row.below {
            let model = Self::boot(tree, now, fate);
            fails = model.end.is_some();
            below = Some(Box::new(model));
        }
        fate.note(format!("{}{}", if fails { "!" } else { "+" }, row.spec.id));
        if !fails {
            row.process = Process::Alive(below);
            row.started_at = now;
        }
        !fails
    }

    fn stop(&mut self, at: usize, fate: &mut Fate) {
        let row = &mut self.rows[at];
        if let Process::Alive(below) = std::mem::replace(&mut row.process, Process::None) {
            let brutal = row.spec.shutdown() == Shutdown::BrutalKill;
            fate.note(format!("{}{}", if brutal { "#" } else { "-" }, row.spec.id));
            if let Some(mut model) = below
                && !brutal
            {
                model.finish("stopped".to_owned(), fate);
            }
        }
    }

    /// Ends the supervisor.
    pub(crate) fn finish(&mut self, reason: String, fate: &mut Fate) {
        for row in &mut self.rows {
            for _ in 0..std::mem::take(&mut row.callers) {
                fate.note("=ended");
            }
        }
        for at in (0..self.rows.len()).rev() {
            self.stop(at, fate);
        }
        self.end = Some(reason);
    }

    fn put_to_rest(&mut self, at: usize) {
        let row = &mut self.rows[at];
        row.failures = 0;
        row.new = false;
        row.process = Process::None;
        if row.spec.restart == Restart::Temporary || self.spec.strategy == Strategy::SimpleOneForOne
        {
            self.rows.remove(at);
        }
    }

    fn find(&self, id: &str) -> Option<usize> {
        self.rows.iter().position(|row| row.spec.id == id)
    }

    /// Whether a child at this place is started with the group that waits.
    fn joins(&self, at: usize) -> bool {
        self.group_due.is_some() && self.rows[at].number >= self.group_from
    }

    pub(crate) fn start_child(&mut self, spec: ChildSpec, below: Option<Tree>, fate: &mut Fate) {
        if spec.validate(self.spec.auto_shutdown).is_err() {
            return fate.note("=invalid");
        }
        match self.find(&spec.id).map(|at| &self.rows[at].process) {
            Some(Process::Alive(_)) => return fate.note("=alreadystarted"),
            Some(_) => return fate.note("=alreadypresent"),
            None => {}
        }
        let row = Row::new(self.rows_made, spec, below);
        self.rows_made += 1;
        self.rows.push(Row {
            callers: 1,
            new: true,
            ..row
        });
        let at = self.rows.len() - 1;
        if self.group_due.is_some() {
            self.rows[at].process = Process::Waiting(None);
        } else if !self.start_answering(at, fate) {
            self.rows.remove(at);
        }
    }

    pub(crate) fn terminate_child(&mut self, id: &str, fate: &mut Fate) {
        let Some(at) = self.find(id) else {
            return fate.note("=notfound");
        };
        self.stop(at, fate);
        for _ in 0..std::mem::take(&mut self.rows[at].callers) {
            fate.note("=terminated");
        }
        self.put_to_rest(at);
        fate.note("=done");
    }

    pub(crate) fn restart_child(&mut self, id: &str, fate: &mut Fate) {
        match self.idle(id) {
            Err(answer) => fate.note(answer),
            Ok(at) => {
                self.rows[at].callers = 1;
                if self.joins(at) {
                    self.rows[at].process = Process::Waiting(None);
                } else {
                    self.start_answering(at, fate);
                }
            }
        }
    }

    pub(crate) fn delete_child(&mut self, id: &str, fate: &mut Fate) {
        match self.idle(id) {
            Err(answer) => fate.note(answer),
            Ok(at) => {
                self.rows.remove(at);
                fate.note("=done");
            }
        }
    }

    fn idle(&self, id: &str) -> Result<usize, &'static str> {
        if self.spec.strategy == Strategy::SimpleOneForOne {
            return Err("=simpleoneforone");
        }
        let at = self.find(id).ok_or("=notfound")?;
        match self.rows[at].process {
            Process::None => Ok(at),
            Process::Waiting(_) => Err("=restarting"),
            Process::Alive(_) | Process::Dead => Err("=running"),
        }
    }

    fn own_due(&self) -> Option<Due> {
        let rows = self.rows.iter().filter_map(|row| match row.process {
            Process::Waiting(due) => due,
            _ => None,
        });
        rows.chain(self.group_due).min()
    }

    pub(crate) fn next_due(&self) -> Option<Duration> {
        let below = self.below().filter_map(Self::next_due);
        self.own_due()
            .map(|due| due.0)
            .into_iter()
            .chain(below)
            .min()
    }

    /// Does what is due now, upper supervisors first. Whether something was.
    pub(crate) fn fire(&mut self, fate: &mut Fate) -> bool {
        if let Some(due) = self.own_due()
            && due.0 <= self.now
        {
            if self.group_due == Some(due) {
                self.group_due = None;
                self.start_waiting(fate);
            } else if let Some(at) = self
                .rows
                .iter()
                .position(|row| matches!(row.process, Process::Waiting(Some(of)) if of == due))
            {
                self.rows[at].process = Process::Waiting(None);
                self.attempt(at, fate);
            }
            self.work(fate);
            return true;
        }
        let fired = self.below_mut().any(|model| model.fire(fate));
        if fired {
            self.collect_ended(fate);
        }
        fired
    }

    pub(crate) fn set_time(&mut self, now: Duration) {
        self.now = now;
        self.below_mut().for_each(|model| model.set_time(now));
    }

    /// Supervisors below that ended by themselves are children that have exited.
    pub(crate) fn collect_ended(&mut self, fate: &mut Fate) {
        let mut ended = Vec::new();
        for row in &mut self.rows {
            if let Process::Alive(Some(model)) = &mut row.process {
                model.collect_ended(fate);
                if model.end.is_some() {
                    ended.push((row.spec.id.clone(), Exit::Stopped { reason: None }));
                }
            }
        }
        self.die(&ended, fate);
    }

    fn below(&self) -> impl Iterator<Item = &Self> {
        self.rows.iter().filter_map(|row| match &row.process {
            Process::Alive(Some(model)) => Some(&**model),
            _ => None,
        })
    }

    fn below_mut(&mut self) -> impl Iterator<Item = &mut Self> {
        self.rows
            .iter_mut()
            .filter_map(|row| match &mut row.process {
                Process::Alive(Some(model)) => Some(&mut **model),
                _ => None,
            })
    }

    pub(crate) fn at(&mut self, path: &[String]) -> Option<&mut Self> {
        let Some((id, rest)) = path.split_first() else {
            return Some(self);
        };
        let row = self.rows.iter_mut().find(|row| row.spec.id == *id)?;
        match &mut row.process {
            Process::Alive(Some(model)) => model.at(rest),
            _ => None,
        }
    }

    pub(crate) fn state(&self) -> String {
        if let Some(end) = &self.end {
            return format!("end: {end}");
        }
        let words = self.rows.iter().map(|row| match &row.process {
            Process::None => format!("{}.", row.spec.id),
            Process::Waiting(_) => format!("{}~", row.spec.id),
            Process::Alive(None) => row.spec.id.clone(),
            Process::Alive(Some(model)) => format!("{}({})", row.spec.id, model.state()),
            Process::Dead => format!("{}?", row.spec.id),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

impl Row {
    fn new(number: u64, spec: ChildSpec, below: Option<Tree>) -> Self {
        Self {
            number,
            spec,
            below,
            process: Process::None,
            failures: 0,
            started_at: Duration::ZERO,
            callers: 0,
            new: false,
        }
    }
}
