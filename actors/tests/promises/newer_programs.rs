//! What a later program wrote is told from damage, and left alone.

use ghostlight_actors::{
    actor::{SessionDocument, SessionDocumentError, System, SystemError},
    contract::{
        Append, Batch, Claim, DynStore, EntryError, Line, RunFilter, RunStatus, SessionFilter,
        StoreError, StoreHandle, StoredLine,
    },
    run::{Agent, Recording, RecordingError, RunContext},
    session::Turn,
    testing::{EffectLog, InMemoryStore},
    vocabulary::{Effect, Entry, FORMAT, JournalId, Outcome, Question, RunId, ToolDefinition},
};

use crate::stage::{Stage, call, pause, silent};

/// Asks, and then files.
fn clerk(log: &EffectLog) -> Agent {
    let file = ToolDefinition::new("file", "files").effect(Effect::Once);
    let agent = Agent::from_fn("clerk", |cx: RunContext| async move {
        cx.ask(Question::new("well?")).await?;
        cx.tool_unasked(call("1", "file")).await?;
        Ok(Outcome::answer("filed"))
    });
    agent.tool(log.tool(file, std::time::Duration::ZERO))
}

/// A process that died while its run was under way.
async fn left_behind(stage: &mut Stage) -> RunId {
    let system = stage.start(clerk(&stage.log)).await;
    let run = system.session("clerk", "s").send("go").await.unwrap().id();
    pause(1000).await;
    stage.crash(&system).await;
    run
}

/// The same store as a later program would have written it.
async fn rewritten(
    store: &InMemoryStore,
    change: impl Fn(&JournalId, &StoredLine) -> String,
    more: Option<&str>,
) -> InMemoryStore {
    copied(store, change, more, true).await
}

async fn copied(
    store: &InMemoryStore,
    change: impl Fn(&JournalId, &StoredLine) -> String,
    more: Option<&str>,
    definitions: bool,
) -> InMemoryStore {
    let copy = InMemoryStore::new();
    let mut batch = Batch::default();
    let later = |line: Line, text: String| Line {
        text: text.into(),
        ..line
    };
    for session in store.sessions(SessionFilter::default()).await.unwrap() {
        let journal = JournalId::Session(session.session);
        let lines = store.read(journal.clone(), 0, 1000).await.unwrap();
        let lines = lines.into_iter().map(|stored| {
            let text = change(&journal, &stored);
            later(stored.line, text)
        });
        let lines = lines.collect();
        batch
            .appends
            .push(Append::new(journal.clone(), 0, 1, lines));
    }
    for mut row in store.runs(RunFilter::default()).await.unwrap() {
        let journal = JournalId::Run(row.run);
        let lines = store.read(journal.clone(), 0, 1000).await.unwrap();
        let mut lines: Vec<Line> = lines
            .into_iter()
            .map(|stored| {
                let text = change(&journal, &stored);
                later(stored.line, text)
            })
            .collect();
        if let Some(text) = more {
            let last = lines.last().unwrap().clone();
            lines.push(later(last, text.to_owned()));
        }
        if let Ok(Entry::RunStarted(start)) = store.read(journal.clone(), 0, 1).await.unwrap()[0]
            .line
            .decode()
        {
            let definition = store.blob(start.definition).await.unwrap().unwrap();
            if definitions {
                batch.blobs.push((start.definition, definition));
            }
        }
        // It was under way, so that a process which starts takes it up at once.
        (row.status, row.wake_at) = (RunStatus::Running, None);
        batch
            .appends
            .push(Append::new(journal, 0, 1, lines).row(row));
    }
    for committed in copy.commit(vec![batch]).await.unwrap() {
        committed.unwrap();
    }
    // That process is gone.
    copy.crash();
    copy.another_process()
}

fn unchanged(_: &JournalId, stored: &StoredLine) -> String {
    stored.line.text.to_string()
}

/// Puts a field into what an entry of this name holds.
fn with(name: &'static str, field: &'static str) -> impl Fn(&JournalId, &StoredLine) -> String {
    let begin = format!("{{\"{name}\":{{");
    move |_, stored| {
        let text = &stored.line.text;
        if !text.contains(&begin) {
            return text.to_string();
        }
        let text = text.replace(&format!("\"format\":{FORMAT},"), "");
        text.replacen(&begin, &format!("{begin}{field},"), 1)
    }
}

async fn start(store: &InMemoryStore, log: &EffectLog) -> System {
    System::builder(store.clone())
        .model("default", silent())
        .team(clerk(log).into_team().unwrap())
        .start()
        .await
        .unwrap()
}

/// All that is stored, and the epoch that the next claim of the run gets.
async fn image(store: &InMemoryStore, run: RunId) -> (Vec<StoredLine>, Vec<StoredLine>, String) {
    let store = store.another_process();
    let rows = store.runs(RunFilter::default()).await.unwrap();
    let session = rows[0].session.clone().unwrap();
    let of_session = store.read(session.into(), 0, 1000).await.unwrap();
    let of_run = store.read(run.into(), 0, 1000).await.unwrap();
    (of_run, of_session, format!("{rows:?}"))
}

#[tokio::test(start_paused = true)]
async fn a_newer_programs_run_is_left_alone_and_listed() {
    let mut stage = Stage::new();
    let run = left_behind(&mut stage).await;
    let later = format!(
        "{{\"activated\":{{\"epoch\":9,\"format\":{}}}}}",
        FORMAT + 1
    );
    type Change = Box<dyn Fn(&JournalId, &StoredLine) -> String>;
    let cases: [(&str, Change, Option<&str>, Option<u32>); 7] = [
        (
            "a later format",
            Box::new(with("run_started", "\"format\":99")),
            None,
            Some(99),
        ),
        (
            "a later format with what is unknown",
            Box::new(with("run_started", "\"rehearsal\":true,\"format\":99")),
            None,
            Some(99),
        ),
        (
            "an unknown field",
            Box::new(with("run_started", "\"rehearsal\":true")),
            None,
            None,
        ),
        (
            "an unknown entry",
            Box::new(unchanged),
            Some("{\"dreamt\":{\"of\":\"sheep\"}}"),
            None,
        ),
        (
            "an unknown field of another entry",
            Box::new(unchanged),
            Some("{\"cancel_requested\":{\"reason\":\"x\",\"softly\":true}}"),
            None,
        ),
        (
            "an unknown field of a question",
            Box::new(with("question", "\"only_by\":\"ada\"")),
            None,
            None,
        ),
        (
            "a later program took it up",
            Box::new(unchanged),
            Some(&later),
            Some(FORMAT + 1),
        ),
    ];
    for (case, change, more, said) in cases {
        let store = rewritten(&stage.store, change, more).await;
        let before = image(&store, run).await;
        let system = start(&store, &stage.log).await;
        pause(10_000).await;
        system.recover().await.unwrap();
        pause(10_000).await;
        let newer = system.newer_runs().await.unwrap();
        let [(row, StoreError::Newer { format, known, .. })] = &newer[..] else {
            panic!("{case}: {newer:?}");
        };
        assert_eq!((row.run, *format, *known), (run, said, FORMAT), "{case}");
        let refused = system.resume(run, true).await.unwrap_err();
        let is_newer = matches!(refused, SystemError::Store(StoreError::Newer { .. }));
        assert!(is_newer, "{case}: {refused}");
        // It waits neither for ever nor for nothing.
        let told = system.run(run).outcome().await.unwrap_err();
        assert!(told.to_string().contains("newer program"), "{case}: {told}");
        let asked = system.run(run).questions().await;
        assert!(asked.is_err(), "{case}");
        system.stop().await.unwrap();
        assert_eq!(image(&store, run).await, before, "{case}");
        let next = store.another_process();
        let Claim { epoch, .. } = next.claim(run.into(), true).await.unwrap();
        assert_eq!(epoch, 2, "{case}: it was claimed");
    }
    assert!(stage.log.effects().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_run_from_before_the_first_format_that_is_read_is_left_alone_and_listed() {
    let mut stage = Stage::new();
    let run = left_behind(&mut stage).await;
    let store = rewritten(&stage.store, with("run_started", "\"format\":9"), None).await;
    let before = image(&store, run).await;
    let system = start(&store, &stage.log).await;
    pause(10_000).await;
    let listed = system.newer_runs().await.unwrap();
    let [
        (
            row,
            StoreError::NoLongerRead {
                found: 9, oldest, ..
            },
        ),
    ] = &listed[..]
    else {
        panic!("{listed:?}");
    };
    assert_eq!((row.run, *oldest), (run, 10));
    let refused = system.resume(run, true).await.unwrap_err();
    let is_told = matches!(refused, SystemError::Store(StoreError::NoLongerRead { .. }));
    assert!(is_told, "{refused}");
    system.stop().await.unwrap();
    assert_eq!(image(&store, run).await, before);
    assert!(stage.log.effects().is_empty());
    let text = format!("{{\"recording\":{{\"format\":9,\"root\":\"{run}\",\"session\":null}}}}\n");
    let refused = Recording::from_json_lines(&text).unwrap_err();
    assert!(matches!(
        refused,
        RecordingError::TooOld {
            found: 9,
            oldest: 10
        }
    ));
}

#[tokio::test(start_paused = true)]
async fn a_session_from_before_the_first_format_that_is_read_is_left_alone() {
    let mut stage = Stage::new();
    left_behind(&mut stage).await;
    let store = rewritten(&stage.store, with("turn_started", "\"format\":9"), None).await;
    let system = start(&store, &stage.log).await;
    let session = system.session("clerk", "s");
    let refused = session.send(Turn::text("and now?")).await.unwrap_err();
    let is_told = matches!(refused, SystemError::Store(StoreError::NoLongerRead { .. }));
    assert!(is_told, "{refused}");
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_newer_programs_session_is_left_alone() {
    let mut stage = Stage::new();
    let run = left_behind(&mut stage).await;
    let store = rewritten(&stage.store, with("turn_started", "\"format\":99"), None).await;
    let before = image(&store, run).await;
    let system = start(&store, &stage.log).await;
    pause(10_000).await;
    let session = system.session("clerk", "s");
    let id = session.id().clone();
    let refused = session.send(Turn::text("and now?")).await.unwrap_err();
    let is_newer = matches!(refused, SystemError::Store(StoreError::Newer { .. }));
    assert!(is_newer, "{refused}");
    // Others are served.
    let other = system.session("clerk", "t").send("go").await.unwrap().id();
    system.stop().await.unwrap();
    let store = store.another_process();
    let rows = store.runs(RunFilter::default()).await.unwrap();
    assert!(rows.iter().any(|row| row.run == other));
    let lines = store.read(run.into(), 0, 1000).await.unwrap();
    assert_eq!(lines, before.0);
    let next = store.another_process();
    let Claim { epoch, .. } = next.claim(id.into(), true).await.unwrap();
    assert_eq!(epoch, 2, "the session was claimed");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_json_is_damage_and_not_newer() {
    let mut stage = Stage::new();
    let run = left_behind(&mut stage).await;
    let store = rewritten(&stage.store, unchanged, Some("{\"dropped\":{\"op\"")).await;
    let system = start(&store, &stage.log).await;
    let refused = system.resume(run, false).await.unwrap_err();
    let is_damage = matches!(refused, SystemError::Store(StoreError::Damaged { .. }));
    assert!(is_damage, "{refused}");
    assert!(system.newer_runs().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_exported_text_of_a_later_program_is_refused_as_newer() {
    let mut stage = Stage::new();
    let run = left_behind(&mut stage).await;
    let store = StoreHandle::new(stage.store.clone());
    let recorded = ghostlight_actors::actor::recording(&store, run)
        .await
        .unwrap();
    let text = recorded.to_json_lines();
    assert_eq!(Recording::from_json_lines(&text).unwrap(), recorded);
    let format = format!("\"format\":{FORMAT}");
    for later in ["\"format\":99", "\"format\":99,\"zipped\":true"] {
        let text = text.replacen(&format, later, 1);
        let refused = Recording::from_json_lines(&text).unwrap_err();
        let is_newer = matches!(refused, RecordingError::TooNew { found: 99, .. });
        assert!(is_newer, "{refused}");
    }
    // Within a known format nothing unknown is passed over.
    let odd = text.replacen(&format, &format!("{format},\"zipped\":true"), 1);
    assert!(matches!(
        Recording::from_json_lines(&odd).unwrap_err(),
        RecordingError::Line { line: 1, .. }
    ));

    let system = stage.start(clerk(&stage.log)).await;
    let session = system.session("clerk", "s").id().clone();
    let mut document = system.sessions().export(&session).await.unwrap();
    document.entries = vec![Line {
        at: Default::default(),
        text: "{\"session_locked\":{\"by\":\"ada\"}}".into(),
    }];
    let document = SessionDocument::from_json(&document.to_json()).unwrap();
    let refused = system.sessions().import(&document, session).await;
    let refused = refused.unwrap_err();
    let is_newer = matches!(
        refused,
        SystemError::Document(SessionDocumentError::Newer { .. })
    );
    assert!(is_newer, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_definition_is_gone_is_damaged_and_nobody_waits_for_it_for_ever() {
    let mut stage = Stage::new();
    let run = left_behind(&mut stage).await;
    let store = copied(&stage.store, unchanged, None, false).await;
    // Another team than the one to which the run is pinned, so that its own definition is read.
    let builder = System::builder(store).model("default", silent());
    let team = clerk(&stage.log)
        .description("changed")
        .into_team()
        .unwrap();
    let system = builder.team(team).start().await.unwrap();
    let told = system.run(run).outcome().await.unwrap_err();
    let is_damage = matches!(told, SystemError::Store(StoreError::Damaged { .. }));
    assert!(is_damage, "{told}");
}

#[test]
fn a_digest_that_names_another_algorithm_is_a_later_programs() {
    let dropped = |digest: &str| Line {
        at: Default::default(),
        text: format!(
            "{{\"completed\":{{\"op\":\"0.0.0\",\"kind\":\"now\",\"name\":\"\",\
             \"digest\":\"{digest}\",\"result\":{{\"Ok\":1}}}}}}"
        )
        .into(),
    };
    assert!(dropped("0123456789abcdef").decode().is_ok());
    let later = dropped("2:0123456789abcdef").decode().unwrap_err();
    assert!(matches!(later, EntryError::Newer { .. }), "{later}");
}
