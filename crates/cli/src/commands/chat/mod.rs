//! `ghostlight chat`.

mod reading;
mod slash;

use ghostlight::File;
use ghostlight_actors::{
    actor::{Run, Session, SessionQuery, System, SystemError},
    definition::TeamSpec,
    run::Registry,
    session::Turn,
};

use self::{
    reading::{Reading, Typed},
    slash::Asked,
};
use crate::{
    assistant::Chosen,
    attaching, default_model,
    exit::{Exit, Failure},
    follow::Follow,
    interrupt::Interrupt,
    keeping::{self, Keeping, quoted},
    more_arguments::Chat as Arguments,
    plain_text, questions, style,
    telemetry::Exporter,
};

/// Talks with a person until the person leaves.
pub(super) async fn chat(arguments: Arguments, registry: Registry) -> Result<Exit, Failure> {
    let chosen = Chosen::new(
        arguments.team_file.as_deref(),
        &registry,
        &arguments.model,
        &arguments.approval,
    )?;
    let team = chosen.team().clone();
    let resolved = chosen.resolve(registry.clone())?;
    let keeping = match arguments.memory {
        true => Keeping::memory(),
        false => Keeping::open(&arguments.store).await?,
    };
    let model = default_model::describe(&team, &registry);
    let system = super::start(&keeping, team.clone(), registry).await?;
    let exporter = Exporter::begin(&system).await?;
    let mut interrupt = Interrupt::new()?;
    let key = match (arguments.session, arguments.r#continue) {
        (Some(key), _) => Some(key),
        (None, true) => last(&system, &team.name).await?,
        (None, false) => None,
    };
    let session = system.session(&team.name, key.unwrap_or_else(super::fresh_key));
    let mut chat = Chat {
        reading: Reading::new(keeping::history())?,
        keeping: &keeping,
        resolved: &resolved,
        yes: arguments.yes,
        team,
        session,
        files: Vec::new(),
        exit: Exit::Done,
    };
    let talked = chat.talk(&system, &model, &mut interrupt).await;
    chat.reading.let_go();
    exporter.end().await;
    super::stop(&system, &mut interrupt, talked).await
}

/// The key of the team's latest conversation.
async fn last(system: &System, team: &str) -> Result<Option<String>, Failure> {
    let mut query = SessionQuery::default();
    (query.team, query.limit) = (Some(team.to_owned()), 1);
    let mut page = system.sessions().list(query).await?;
    Ok(page
        .sessions
        .pop()
        .map(|found| found.session.key.to_string()))
}

struct Chat<'c> {
    reading: Reading,
    keeping: &'c Keeping,
    resolved: &'c Registry,
    yes: bool,
    team: TeamSpec,
    session: Session,
    /// The files that go with the next text.
    files: Vec<File>,
    /// The exit of the last turn.
    exit: Exit,
}

impl Chat<'_> {
    async fn talk(
        &mut self,
        system: &System,
        model: &str,
        interrupt: &mut Interrupt,
    ) -> Result<Exit, Failure> {
        self.greet(model).await?;
        if let Some(run) = self.open_turn(system).await? {
            system.resume(run.id(), false).await?;
            let follow = self.follow_with();
            if self.follow(follow, system, &run, interrupt).await? == Exit::Interrupted {
                return Ok(Exit::Done);
            }
        }
        let mut leaves = false;
        loop {
            let typed = tokio::select! {
                biased;
                () = interrupt.fired() => Typed::Interrupted,
                typed = self.reading.line() => typed,
            };
            let line = match typed {
                Typed::Text(line) => line,
                Typed::Interrupted if !leaves && self.reading.terminal => {
                    super::note("Ctrl-C once more leaves");
                    leaves = true;
                    continue;
                }
                Typed::Interrupted => return Ok(Exit::Done),
                Typed::End => return Ok(self.end()),
                Typed::Failed(error) => return Err(Failure::Usage(error)),
            };
            leaves = false;
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            match self.act(system, line, interrupt).await {
                Ok(Some(exit)) => return Ok(exit),
                Ok(None) => {}
                // The conversation continues, unless the store has failed.
                Err(failure) if failure.exit() != Exit::Store && self.reading.terminal => {
                    super::note(&format!("error: {failure}"));
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// The exit at the end of the input: a person at a terminal has seen how each turn ended.
    fn end(&self) -> Exit {
        match self.reading.terminal {
            true => Exit::Done,
            false => self.exit,
        }
    }

    async fn greet(&self, model: &str) -> Result<(), Failure> {
        if style::chosen().quiet {
            return Ok(());
        }
        let key = &self.session.id().key;
        let kept = match self.keeping.lasting {
            true => format!("session {}", quoted(&plain_text::line(key, 64))),
            false => "in memory only".to_owned(),
        };
        let help = if self.reading.terminal {
            "; /help tells the commands"
        } else {
            ""
        };
        super::note(&format!(
            "team {}, model {model}, {kept}{help}",
            self.team.name
        ));
        let log = self.session.log().await?;
        if let Some(turn) = log.turns.last() {
            let count = super::counted(log.turns.len() as u64, "turn");
            super::note(&format!(
                "{count} so far, the last:\n> {}",
                plain_text::line(&turn.said, 200)
            ));
            if let Some(answer) = &turn.answer {
                super::note(&plain_text::line(answer, 600));
            }
        }
        Ok(())
    }

    /// The session's turn that is in progress and carried by no process, if there is one.
    async fn open_turn(&self, system: &System) -> Result<Option<Run>, Failure> {
        let mut filter = ghostlight_actors::contract::RunFilter::default();
        (filter.session, filter.roots, filter.open) = (Some(self.session.id().clone()), true, true);
        for row in system.runs(filter).await? {
            if !super::is_carried(self.keeping, row.run).await? {
                return Ok(Some(system.run(row.run)));
            }
        }
        Ok(None)
    }

    /// Does what a line asks for. Returns the exit if the person leaves.
    async fn act(
        &mut self,
        system: &System,
        line: &str,
        interrupt: &mut Interrupt,
    ) -> Result<Option<Exit>, Failure> {
        let told = match slash::read(line) {
            Asked::Say(text) => return self.say(system, text, interrupt).await,
            Asked::Quit => return Ok(Some(self.end())),
            Asked::Agents => {
                let active = self.session.log().await?.active_agent;
                slash::agents(&self.team, active.as_deref())
            }
            Asked::Tools => slash::tools(&self.team, self.resolved),
            Asked::Session => self.session.id().to_string(),
            Asked::Help => slash::HELP.to_owned(),
            Asked::Undo => match slash::undo(&self.session).await? {
                Some(said) => format!("taken back: {}", plain_text::line(&said, 200)),
                None => "nothing was said yet".to_owned(),
            },
            Asked::Fork(key) => {
                let turns = self.session.log().await?.turns.len() as u64;
                let key = key.map_or_else(super::fresh_key, str::to_owned);
                let before = self.session.id().key.clone();
                self.session = self.session.fork(turns, key).await?;
                let key = &self.session.id().key;
                format!("session {key}; session {before} stays as it is")
            }
            Asked::Save(file) => slash::save(system, &self.session, file).await?,
            Asked::File(given) => match attaching::file(given) {
                Ok(file) => {
                    let told = attaching::told(file.data());
                    self.files.push(file);
                    format!("{told} goes with what you say next")
                }
                Err(error) => error.to_string(),
            },
            Asked::Wrong(why) => why,
        };
        super::note(&told);
        Ok(None)
    }

    async fn say(
        &mut self,
        system: &System,
        text: &str,
        interrupt: &mut Interrupt,
    ) -> Result<Option<Exit>, Failure> {
        let id = super::fresh_turn();
        let follow = self.follow_with().expecting(system, self.session.id(), &id);
        let turn = Turn::text(text).id(id).streaming(true);
        let turn = self.files.drain(..).fold(turn, Turn::attach);
        let sending = self.session.send(turn);
        let run = tokio::select! {
            biased;
            () = interrupt.fired() => {
                super::note("the turn waits behind another; it is said when that has ended");
                return Ok(None);
            }
            sent = sending => sent?,
        };
        self.exit = self.follow(follow, system, &run, interrupt).await?;
        // The second interrupt.
        Ok((self.exit == Exit::Interrupted).then_some(Exit::Done))
    }

    /// Follows a turn until it rests. Without a terminal, the next lines answer its questions.
    async fn follow(
        &self,
        mut follow: Follow,
        system: &System,
        run: &Run,
        interrupt: &mut Interrupt,
    ) -> Result<Exit, Failure> {
        loop {
            let exit = follow.run(system, run, interrupt).await?;
            if exit != Exit::Waits || self.reading.terminal {
                return Ok(exit);
            }
            let open = run.questions().await?;
            let Some((asking, operation, question)) = open.into_iter().next() else {
                follow = self.follow_with();
                continue;
            };
            let Typed::Text(line) = self.reading.line().await else {
                return Ok(exit);
            };
            match questions::answer_of(&question, &line) {
                Ok(value) => {
                    let value = questions::bound(&question, value);
                    match system.run(asking).answer(operation, value).await {
                        Ok(()) | Err(SystemError::Answer { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(help) => super::note(&help),
            }
            follow = self.follow_with();
        }
    }

    fn follow_with(&self) -> Follow {
        let width = super::column_of(&self.team);
        let follow = Follow::new(width, self.keeping).yes(self.yes);
        follow.stops_turn()
    }
}
