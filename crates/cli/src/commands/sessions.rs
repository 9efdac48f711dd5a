//! `ghostlight session list` and `ghostlight session`.

use std::{
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use ghostlight_actors::{
    actor::{
        SessionDocument, SessionPage, SessionQuery, SessionSummary, Sessions as StoredSessions,
    },
    contract::{Clock as _, SessionRow, SystemClock},
    session::LoggedTurn,
    vocabulary::{JournalId, Scope, SessionId, Timestamp},
};
use serde_json::json;

use crate::{
    exit::{Exit, Failure},
    follow::print_json,
    keeping::{Keeping, quoted},
    plain_text,
    session_arguments::{
        Session, SessionAct, SessionArtifact, SessionDelete, SessionExport, SessionFork,
        SessionImport, SessionRewind, SessionShow, Sessions,
    },
    when,
};

/// Lists sessions.
pub(super) async fn sessions(arguments: Sessions) -> Result<Exit, Failure> {
    let Some(keeping) = Keeping::open_to_read(&arguments.store).await? else {
        super::note("no sessions yet");
        return Ok(Exit::Done);
    };
    let now = SystemClock::new().now();
    let mut query = SessionQuery::default();
    (query.team, query.owner) = (arguments.team, arguments.owner);
    (query.active, query.limit) = (arguments.active, arguments.limit.get());
    query.since = arguments.since.map(|age| before(now, age));
    query.after = arguments.after.as_deref().map(page).transpose()?;
    let SessionPage { sessions, next, .. } = StoredSessions::of(keeping.store).list(query).await?;
    if arguments.show.json {
        sessions.iter().try_for_each(print_json)?;
    } else if sessions.is_empty() {
        super::note("no such sessions");
    } else {
        super::print(&table(&sessions, now).join("\n"))?;
    }
    if let Some(next) = next {
        super::note(&format!(
            "for more, add --after {}",
            quoted(&page_name(&next))
        ));
    }
    Ok(Exit::Done)
}

/// The start of a page, in one word.
fn page_name(row: &SessionRow) -> String {
    format!("{}/{}", row.updated_at.0, row.session)
}

fn page(name: &str) -> Result<SessionRow, Failure> {
    let wrong = || {
        Failure::Usage(format!(
            "`{name}` is not a page: take what the page before said"
        ))
    };
    let mut parts = name.splitn(3, '/');
    let mut next = || parts.next().map(str::to_owned).ok_or_else(wrong);
    let at = next()?.parse().map_err(|_| wrong())?;
    let (team, key) = (next()?.into(), next()?.into());
    Ok(SessionRow {
        session: SessionId { team, key },
        entries: 0,
        updated_at: Timestamp(at),
    })
}

fn table(sessions: &[SessionSummary], now: Timestamp) -> Vec<String> {
    // The whole name, so that it can be copied: a generated key has 32 characters.
    let name = |found: &SessionSummary| plain_text::line(&found.session.to_string(), 120);
    let names = sessions.iter().map(|found| name(found).chars().count());
    let width = names.max().unwrap_or(0).max(7);
    let line = |name: &str, turns: &str, last: &str, stands: &str, title: &str| {
        let line = format!("{name:width$}  {turns:>5}  {last:>10}  {stands:8}  {title}");
        line.trim_end().to_owned()
    };
    let heading = line("session", "turns", "last", "", "said last");
    let of = |found: &SessionSummary| {
        let stands = found.open.map_or_else(String::new, |run| run.short());
        let (last, title) = (
            when::ago(found.updated_at, now),
            plain_text::line(&found.title, 60),
        );
        line(
            &name(found),
            &found.turns.to_string(),
            &last,
            &stands,
            &title,
        )
    };
    std::iter::once(heading)
        .chain(sessions.iter().map(of))
        .collect()
}

pub(super) fn before(now: Timestamp, age: Duration) -> Timestamp {
    let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    Timestamp(now.0.saturating_sub(age))
}

/// Runs the command.
pub(super) async fn session(arguments: Session) -> Result<Exit, Failure> {
    match arguments.act {
        SessionAct::List(arguments) => sessions(arguments).await,
        SessionAct::Show(arguments) => show(arguments).await,
        SessionAct::Fork(arguments) => fork(arguments).await,
        SessionAct::Rewind(arguments) => rewind(arguments).await,
        SessionAct::Delete(arguments) => delete(arguments).await,
        SessionAct::Export(arguments) => export(arguments).await,
        SessionAct::Import(arguments) => import(arguments).await,
        SessionAct::Artifact(arguments) => artifact(arguments).await,
    }
}

async fn show(arguments: SessionShow) -> Result<Exit, Failure> {
    let keeping = Keeping::open_what_is_there(&arguments.store).await?;
    let (kept, id) = (StoredSessions::of(keeping.store.clone()), arguments.session);
    let mut log = kept.log(&id).await?;
    let journal = JournalId::Session(id.clone());
    // A branch may have no turns yet.
    if log.turns.is_empty() && keeping.store.read(journal, 0, 1).await?.is_empty() {
        return Err(Failure::Usage(format!(
            "there is no session {id}; `ghostlight session list` lists the sessions"
        )));
    }
    if let Some(age) = arguments.since {
        log = log.since(before(SystemClock::new().now(), age));
    }
    if let Some(turns) = arguments.last {
        log = log.last(turns);
    }
    let state = kept.state(&id, &Scope::Session).await?;
    let artifacts = kept.artifacts(&id, &Scope::Session).await?;
    if arguments.show.json {
        let state: serde_json::Map<_, _> = state.into_iter().collect();
        print_json(&json!({
            "session": id, "owner": log.owner, "turns": log.turns, "rewound": log.rewound,
            "state": state, "artifacts": artifacts,
        }))?;
        return Ok(Exit::Done);
    }
    let owner = log
        .owner
        .map_or_else(String::new, |owner| format!(", owner {owner}"));
    let mut lines = vec![format!("session {id}{owner}")];
    for turn in &log.turns {
        lines.extend(turn_lines(turn));
    }
    if !state.is_empty() {
        lines.push("state".to_owned());
        let value = |(key, value): &(String, serde_json::Value)| {
            plain_text::line(&format!("  {key}: {value}"), 100)
        };
        lines.extend(state.iter().map(value));
    }
    if !artifacts.is_empty() {
        lines.push("artifacts".to_owned());
        lines.extend(artifacts.iter().map(|info| format!("  {info}")));
    }
    super::print(&lines.join("\n"))?;
    Ok(Exit::Done)
}

fn turn_lines(turn: &LoggedTurn) -> [String; 2] {
    let answer = match &turn.answer {
        Some(answer) => plain_text::line(answer, 100),
        None if turn.quarantined => "(quarantined: its run is parked)".to_owned(),
        None => "(under way)".to_owned(),
    };
    let said = plain_text::line(&turn.said, 100);
    [
        format!("{:>4}  {}  {said}", turn.number, turn.carried_by.short()),
        format!("{:>4}  {:8}  {answer}", "", ""),
    ]
}

async fn fork(arguments: SessionFork) -> Result<Exit, Failure> {
    let keeping = Keeping::open_to_change(&arguments.store).await?;
    let kept = StoredSessions::of(keeping.store.clone());
    let made = async {
        let turns = match arguments.turns {
            Some(turns) => turns,
            None => kept.log(&arguments.session).await?.turns.len() as u64,
        };
        kept.fork(&arguments.session, turns, arguments.to).await
    };
    let made = made.await;
    keeping.store.close().await?;
    let made = made?;
    super::note(&format!(
        "made session {made}; continue with `ghostlight run TEAM_FILE TEXT --session {}`",
        quoted(&made.key)
    ));
    Ok(Exit::Done)
}

async fn rewind(arguments: SessionRewind) -> Result<Exit, Failure> {
    let keeping = Keeping::open_to_change(&arguments.store).await?;
    let kept = StoredSessions::of(keeping.store.clone());
    let rewound = kept.rewind(&arguments.session, arguments.turns).await;
    keeping.store.close().await?;
    rewound?;
    super::note(&format!(
        "session {} continues after {}; the runs of the others stay as they are",
        arguments.session,
        super::counted(arguments.turns, "turn"),
    ));
    Ok(Exit::Done)
}

async fn delete(arguments: SessionDelete) -> Result<Exit, Failure> {
    let keeping = Keeping::open_to_change(&arguments.store).await?;
    let deleted = StoredSessions::of(keeping.store.clone())
        .delete(&arguments.session)
        .await;
    keeping.store.close().await?;
    let deleted = deleted?;
    super::note(&format!(
        "deleted session {} with {} and all below, {} entries in all",
        arguments.session,
        super::counted(deleted.trees, "run"),
        deleted.entries,
    ));
    Ok(Exit::Done)
}

async fn export(arguments: SessionExport) -> Result<Exit, Failure> {
    let keeping = Keeping::open_what_is_there(&arguments.store).await?;
    let document = StoredSessions::of(keeping.store)
        .export(&arguments.session)
        .await?;
    let text = arguments.secrets.leaving(document.to_json());
    let text = text.map_err(Failure::Usage)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", plain_text::json(text))?;
    out.flush()?;
    Ok(Exit::Done)
}

async fn import(arguments: SessionImport) -> Result<Exit, Failure> {
    let file = arguments.file.display().to_string();
    let wrong = |error: &dyn std::fmt::Display| Failure::Usage(format!("{file}: {error}"));
    let text = super::read_record(&arguments.file).map_err(|error| wrong(&error))?;
    let document = SessionDocument::from_json(&text).map_err(|error| wrong(&error))?;
    let to = arguments.to.unwrap_or_else(|| document.session.clone());
    let keeping = Keeping::open(&arguments.store).await?;
    let made = StoredSessions::of(keeping.store.clone())
        .import(&document, to)
        .await;
    keeping.store.close().await?;
    super::note(&format!("made session {}", made?));
    Ok(Exit::Done)
}

async fn artifact(arguments: SessionArtifact) -> Result<Exit, Failure> {
    let keeping = Keeping::open_what_is_there(&arguments.store).await?;
    let scope = arguments.user.map_or(Scope::Session, Scope::User);
    let (kept, id) = (StoredSessions::of(keeping.store), arguments.session);
    let found = kept
        .artifact(&id, &scope, &arguments.name, arguments.version)
        .await?;
    let Some(artifact) = found else {
        let there = kept.artifacts(&id, &scope).await?;
        let names: Vec<&str> = there.iter().map(|info| info.name.as_str()).collect();
        let names = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        return Err(Failure::Usage(format!(
            "session {id} has no such artifact {:?}; it has: {}",
            arguments.name,
            plain_text::line(&names, 400)
        )));
    };
    super::note(&artifact.info.to_string());
    let mut out = std::io::stdout().lock();
    if arguments.raw || !out.is_terminal() {
        // The bytes as they were saved, which may be no text.
        out.write_all(&artifact.content)?;
    } else {
        // A terminal obeys control characters, and a model may have written them.
        let text = std::str::from_utf8(&artifact.content).map_err(|_| {
            Failure::Usage(
                "the artifact is not text: send it to a file or a program, or print it with --raw"
                    .to_owned(),
            )
        })?;
        out.write_all(plain_text::plain(text).as_bytes())?;
    }
    out.flush()?;
    Ok(Exit::Done)
}
