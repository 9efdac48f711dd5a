//! Artifacts: named, versioned files that outlive runs, whose contents journals only refer to.

use ghostlight_actors::{
    actor::{Fork, RecordedText, System, SystemError, recording},
    contract::{DynStore, StoreHandle, artifact_scopes},
    run::{Agent, Recording, RunContext, replay},
    session::Turn,
    testing::{CrashOptions, Scenario, crash_everywhere},
    vocabulary::{AgentError, Artifact, Digest, ErrorKind, Outcome, RunId, Scope},
};

use crate::stage::{Stage, outcome, text};

/// Text that is long enough to be recognised wherever it stands.
const DRAFT: &str = "A first draft, which nobody but the store has any business to keep.";

fn in_words(artifact: Option<Artifact>) -> String {
    let Some(artifact) = artifact else {
        return "nothing".to_owned();
    };
    let text = artifact.text().unwrap_or("no text");
    format!("{}: {text}", artifact.info)
}

/// Does what the turn says, word by word: `save=TEXT`, `load`, `load=VERSION`, `list`.
fn clerk(scope: impl Fn(&RunContext) -> Scope + Send + Sync + Clone + 'static) -> Agent {
    Agent::from_fn("clerk", move |cx: RunContext| {
        let scope = scope.clone();
        async move {
            let artifacts = cx.artifacts(scope(&cx));
            let mut said = Vec::new();
            for word in cx.input().content().split_whitespace() {
                said.push(match word.split_once('=') {
                    Some(("save", text)) => {
                        let saving = artifacts.save("note.md", "text/markdown", text.as_bytes());
                        saving.await?.to_string()
                    }
                    Some((_, version)) => {
                        let version = version.parse().map_err(AgentError::failed)?;
                        in_words(artifacts.load_version("note.md", version).await?)
                    }
                    None if word == "load" => in_words(artifacts.load("note.md").await?),
                    None => format!("{} listed", artifacts.list().await?.len()),
                });
            }
            Ok(Outcome::answer(said.join("; ")))
        }
    })
}

async fn say(system: &System, session: &str, owner: &str, what: &str) -> String {
    let turn = Turn::text(what).owner(owner);
    let run = system.session("clerk", session).send(turn).await.unwrap();
    text(&run).await
}

#[tokio::test(start_paused = true)]
async fn versions_rise_by_one_and_each_keeps_its_content_and_type_for_ever() {
    let mut stage = Stage::new();
    let clerk = || clerk(|_| Scope::Session);
    let system = stage.start(clerk()).await;
    let said = say(&system, "s", "ada", "load list save=one save=two load").await;
    let two = "note.md, version 2 (text/markdown, 3 bytes)";
    assert_eq!(
        said,
        format!(
            "nothing; 0 listed; note.md, version 1 (text/markdown, 3 bytes); {two}; {two}: two"
        )
    );
    stage.crash(&system).await;
    let system = stage.start(clerk()).await;
    let said = say(&system, "s", "ada", "save=three load=1 load=3 load=4 list").await;
    assert_eq!(
        said,
        "note.md, version 3 (text/markdown, 5 bytes); \
         note.md, version 1 (text/markdown, 3 bytes): one; \
         note.md, version 3 (text/markdown, 5 bytes): three; nothing; 1 listed"
    );
    let session = system.session("clerk", "s");
    let kept = session.artifacts(Scope::Session).await.unwrap();
    assert_eq!(kept.len(), 1);
    let first = session.artifact(Scope::Session, "note.md", Some(1)).await;
    assert_eq!(first.unwrap().unwrap().text(), Some("one"));
    let latest = session.artifact(Scope::Session, "note.md", None).await;
    assert_eq!(latest.unwrap().unwrap().info.version, 3);
    let none = session.artifact(Scope::Session, "other", None).await;
    assert_eq!(none.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_session_s_artifacts_are_its_own_and_a_user_s_are_in_all_of_the_user_s_sessions() {
    let stage = Stage::new();
    let system = stage.start(clerk(|_| Scope::Session)).await;
    say(&system, "a", "ada", "save=secret").await;
    assert_eq!(say(&system, "b", "ada", "load").await, "nothing");

    let stage = Stage::new();
    let own = |cx: &RunContext| Scope::User(cx.start().owner.clone().unwrap_or_default());
    let system = stage.start(clerk(own)).await;
    say(&system, "a", "ada", "save=mine").await;
    assert!(say(&system, "b", "ada", "load").await.ends_with("mine"));
    assert_eq!(
        say(&system, "c", "eve", "load list").await,
        "nothing; 0 listed"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_or_cannot_be_a_name_is_a_typed_error_and_saves_nothing() {
    let stage = Stage::new();
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        let artifacts = cx.artifacts(Scope::Session);
        let mut kinds = Vec::new();
        for (name, bytes) in [("n", 10), ("n", 11), (" ", 1), ("a\nb", 1)] {
            let saved = artifacts.save(name, "text/plain", vec![b'x'; bytes]).await;
            kinds.push(saved.map_err(|error| error.kind().cloned()));
        }
        let long = artifacts.save("n".repeat(256), "text/plain", *b"x").await;
        assert_eq!(long.unwrap_err().kind(), Some(&ErrorKind::InvalidInput));
        assert!(kinds[0].is_ok());
        let refused: Vec<_> = kinds.drain(1..).map(|kind| kind.unwrap_err()).collect();
        assert_eq!(
            refused,
            [
                Some(ErrorKind::TooLarge),
                Some(ErrorKind::InvalidInput),
                Some(ErrorKind::InvalidInput)
            ]
        );
        let left = artifacts.list().await?;
        Ok(Outcome::answer(format!(
            "{} {}",
            left.len(),
            left[0].version
        )))
    });
    let mut team = agent.into_team().unwrap();
    team.spec.max_artifact_bytes = Some(10);
    let system = System::builder(stage.store.clone())
        .team(team)
        .start()
        .await
        .unwrap();
    let run = system.session("a", "s").send("go").await.unwrap();
    assert_eq!(text(&run).await, "1 1");
}

#[tokio::test(start_paused = true)]
async fn twenty_savers_at_once_make_twenty_versions() {
    let stage = Stage::new();
    let worker = Agent::from_fn("worker", |cx: RunContext| async move {
        let text = cx.input().content();
        let saved = cx
            .artifacts(Scope::App)
            .save("n", "text/plain", text.into_bytes())
            .await?;
        Ok(Outcome::answer(saved.version.to_string()))
    });
    let boss = Agent::from_fn("boss", |cx: RunContext| async move {
        let workers = (0..20).map(|n| cx.delegate("worker", n.to_string()));
        let mut versions = Vec::new();
        for done in futures_util::future::join_all(workers).await {
            versions.push(done?.text.parse::<u64>().map_err(AgentError::failed)?);
        }
        versions.sort_unstable();
        let mut contents = Vec::new();
        for version in &versions {
            let found = cx.artifacts(Scope::App).load_version("n", *version).await?;
            contents.push(found.unwrap().text().unwrap().parse::<u64>().unwrap());
        }
        contents.sort_unstable();
        Ok(Outcome::answer(format!("{versions:?} {contents:?}")))
    });
    let system = stage.start(boss.agent(worker)).await;
    let run = system.session("boss", "s").send("go").await.unwrap();
    let versions: Vec<u64> = (1..=20).collect();
    let contents: Vec<u64> = (0..20).collect();
    assert_eq!(text(&run).await, format!("{versions:?} {contents:?}"));
}

/// Saves in two scopes, loads, delegates to one who reads it, and saves again.
fn author() -> Agent {
    let reader = Agent::from_fn("reader", |cx: RunContext| async move {
        let found = cx.artifacts(Scope::App).load("draft").await?;
        Ok(Outcome::answer(in_words(found)))
    });
    Agent::from_fn("author", |cx: RunContext| async move {
        let (own, shared) = (cx.artifacts(Scope::Session), cx.artifacts(Scope::App));
        own.save("draft", "text/plain", DRAFT.as_bytes()).await?;
        let draft = own.load("draft").await?.ok_or(AgentError::Ended)?;
        shared
            .save("draft", "text/plain", draft.content.clone())
            .await?;
        let read = cx.delegate("reader", "read it").await?.text;
        own.save("draft", "text/plain", *b"\xff\x00no text").await?;
        let last = in_words(own.load("draft").await?);
        let count = cx.start().history;
        Ok(Outcome::answer(format!("{read}; {last}; {count}")))
    })
    .agent(reader)
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_makes_no_version_twice_and_loses_none() {
    let scenario = Scenario::new("author", |builder, _| {
        builder.team(author().into_team().unwrap())
    })
    .turn("write")
    .turn("write on");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.outcomes[1].contains("draft, version 4"), "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_content_is_stored_once_and_no_entry_holds_it() {
    let stage = Stage::new();
    let system = stage.start(author()).await;
    let run = system.session("author", "s").send("write").await.unwrap();
    outcome(&run).await;
    // The reader's answer quotes the draft; before that it is nowhere but in its blob.
    let entries = stage.entries(run.id()).await;
    let entries: Vec<String> = entries
        .iter()
        .map(|e| serde_json::to_string(e).unwrap())
        .collect();
    let before = entries
        .iter()
        .take_while(|entry| !entry.contains("delegate"));
    let before: Vec<&String> = before.collect();
    assert!(before.len() >= 4, "{before:?}");
    let digest = Digest::of(DRAFT.as_bytes());
    for entry in &before[1..4] {
        assert!(entry.contains(&digest.to_string()), "{entry}");
        assert!(!entry.contains("nobody but the store"), "{entry}");
    }
    let content = stage.store.blob(digest).await.unwrap().unwrap();
    assert_eq!(&*content, DRAFT.as_bytes());
    let scope = artifact_scopes::versions("session:author/s");
    assert_eq!(stage.store.scope(scope).await.unwrap().len(), 2);
}

/// The text of a recording, as it is read page by page.
async fn in_lines(store: &StoreHandle, run: RunId) -> String {
    let recorded = RecordedText::of(store, run).await.unwrap();
    let mut text = String::new();
    let take = |line: String| -> Result<(), SystemError> {
        text.push_str(&line);
        text.push('\n');
        Ok(())
    };
    recorded.each_line(take).await.unwrap();
    text
}

#[tokio::test(start_paused = true)]
async fn a_run_that_loaded_artifacts_is_replayed_from_its_recording_alone() {
    let stage = Stage::new();
    let system = stage.start(author()).await;
    let run = system.session("author", "s").send("write").await.unwrap();
    outcome(&run).await;
    let store = StoreHandle::new(stage.store.clone());
    let recording = recording(&store, run.id()).await.unwrap();
    let text = recording.to_json_lines();
    assert_eq!(in_lines(&store, run.id()).await, text);
    // With a conversation before it.
    let next = system.session("author", "s").send("write").await.unwrap();
    outcome(&next).await;
    let whole = self::recording(&store, next.id()).await.unwrap();
    assert!(!whole.history.is_empty());
    assert_eq!(in_lines(&store, next.id()).await, whole.to_json_lines());
    let recording = Recording::from_json_lines(&text).unwrap();
    let registry = author().into_team().unwrap().registry;
    assert!(replay(&recording, &registry, None).unwrap().is_faithful());

    let mut lacking = recording.clone();
    lacking.contents.clear();
    let error = replay(&lacking, &registry, None).unwrap_err();
    assert!(error.to_string().contains("lacks the content"), "{error}");
    let damaged = text.replace("\"base64\":\"QS", "\"base64\":\"QT");
    assert_ne!(damaged, text);
    let error = Recording::from_json_lines(&damaged).unwrap_err();
    assert!(error.to_string().contains("not that of"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_fork_has_the_versions_that_were_there_at_its_place_and_goes_on_counting() {
    let stage = Stage::new();
    let system = stage.start(clerk(|_| Scope::Session)).await.as_operator();
    say(&system, "s", "ada", "save=one").await;
    let turn = Turn::text("save=two save=three list").owner("ada");
    let run = system.session("clerk", "s").send(turn).await.unwrap();
    outcome(&run).await;
    say(&system, "s", "ada", "save=four").await;
    // Entry 0 begins the run, entry 1 saves the second version.
    let fork = run.fork(Fork::at(2).session("other")).await.unwrap();
    assert!(
        text(&fork).await.contains("version 3"),
        "{}",
        text(&fork).await
    );
    let said = say(&system, "other", "ada", "save=other load=2 load=3 load=5").await;
    assert_eq!(
        said,
        "note.md, version 4 (text/markdown, 5 bytes); \
         note.md, version 2 (text/markdown, 3 bytes): two; \
         note.md, version 3 (text/markdown, 5 bytes): three; nothing"
    );
    let said = say(&system, "s", "ada", "load").await;
    assert!(
        said.ends_with("version 4 (text/markdown, 4 bytes): four"),
        "{said}"
    );
}
