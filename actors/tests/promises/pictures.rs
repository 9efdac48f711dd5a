//! Pictures and other files: a store has the bytes of each once, however many entries hold it, and every reader gets them.

use std::sync::Arc;

use ghostlight_actors::{
    actor::{Fork, Retention, SessionDocument, System, recording},
    contract::{
        Append, Batch, DynStore, InMemoryStore, Line, StoreHandle, Tool, ToolContext, ToolError,
        ToolOutput, copy_store,
    },
    run::{Agent, Recording, RunContext, replay},
    session::{Turn, decode_checkpoint},
    testing::{CrashOptions, Scenario, ScriptedModel, crash_everywhere},
    vocabulary::{
        Answer, Arguments, Data, Digest, JournalId, Message, ModelResponse, Outcome, Part,
        SessionId, ToolDefinition,
    },
};

use crate::stage::{call, pause, text};

/// Bytes that are a picture for whoever does not look closely.
fn picture(number: u8) -> Vec<u8> {
    let mut bytes = vec![number; 300_000];
    bytes[..8].copy_from_slice(b"\x89PNG\r\n\x1a\n");
    bytes
}

fn file(number: u8) -> Data {
    Data::from_bytes(format!("{number}.png"), picture(number)).unwrap()
}

/// A tool whose result has a picture with it.
struct Camera;

impl Tool for Camera {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("camera", "takes a picture")
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("taken").attach(file(2)))
    }
}

/// Asks the model, which takes a picture, and shows all to a helper, which draws another.
fn clerk() -> Agent {
    let helper = Agent::from_fn("helper", |cx: RunContext| async move {
        let said = cx.model(cx.model_request(cx.conversation())).await?;
        Ok(Outcome::answer(said.message.content()))
    });
    Agent::from_fn("clerk", |cx: RunContext| async move {
        let mut conversation = cx.conversation();
        let before = conversation.len();
        let said = cx.model(cx.model_request(conversation.clone())).await?;
        conversation.push(said.message.clone());
        let results = cx.tools(said.calls()).await?;
        conversation.push(Message::results(results));
        cx.delegate("helper", Message::user("draw").attach(file(1)))
            .await?;
        let said = cx.model(cx.model_request(conversation.clone())).await?;
        conversation.push(said.message.clone());
        let answer = Answer::text(said.message.content());
        let said = conversation.since(before);
        Ok(Outcome::Answer(answer.with_messages(said)))
    })
    .tool(Camera)
    .agent(helper)
}

/// Takes a picture where there is no result yet, and draws one otherwise.
fn painter() -> ScriptedModel {
    ScriptedModel::from_fn(|request, _| {
        let last = request.conversation.messages().pop().unwrap();
        let is_taken = last.tool_results().next().is_some();
        let draws = last.content() == "draw";
        Ok(match (is_taken, draws) {
            (false, false) => ModelResponse::tool_calls([call("1", "camera")]),
            (_, true) => ModelResponse::new(Message::assistant("drawn").attach(file(3))),
            (true, false) => ModelResponse::new(Message::assistant("see").attach(file(4))),
        })
    })
}

async fn start(store: &InMemoryStore) -> System {
    System::builder(store.another_process())
        .model("default", painter())
        .team(clerk().into_team().unwrap())
        .start()
        .await
        .unwrap()
}

fn id(key: &str) -> SessionId {
    SessionId {
        team: "clerk".into(),
        key: key.into(),
    }
}

fn shown() -> Turn {
    Turn::text("what is this?").attach(file(1)).owner("ada")
}

/// The pictures of a conversation, in order.
fn pictures(messages: &[Arc<Message>]) -> Vec<u8> {
    let mut seen = Vec::new();
    let mut see = |data: &Data| {
        let bytes = data.bytes().unwrap().unwrap();
        assert_eq!(bytes, picture(bytes[9]));
        seen.push(bytes[9]);
    };
    for part in messages.iter().flat_map(|message| &message.parts) {
        match part {
            Part::Data(data) => see(data),
            Part::ToolResult(result) => result.attachments.iter().for_each(&mut see),
            _ => {}
        }
    }
    seen
}

/// The bytes of all entries, and those of all blobs, as the store has them.
async fn sizes(store: &InMemoryStore) -> (usize, usize) {
    let inventory = store.inventory().await.unwrap();
    let (mut entries, mut blobs) = (0, 0);
    for (journal, _) in inventory.journals {
        let lines = store.read(journal, 0, usize::MAX).await.unwrap();
        entries += lines.iter().map(|line| line.line.text.len()).sum::<usize>();
    }
    for hash in inventory.blobs {
        blobs += store.blob(hash).await.unwrap().unwrap().len();
    }
    (entries, blobs)
}

#[tokio::test(start_paused = true)]
async fn a_picture_is_stored_once_and_every_reader_gets_it() {
    let store = InMemoryStore::new();
    let system = start(&store).await.as_operator();
    let session = system.session("clerk", "s");
    let run = session.send(shown()).await.unwrap();
    assert_eq!(text(&run).await, "see");
    for turn in ["2", "3"] {
        let next = session.send(shown().id(turn)).await.unwrap();
        assert_eq!(text(&next).await, "see");
    }
    pause(100).await;
    let (entries, blobs) = sizes(&store).await;
    assert!(entries < 100_000, "{entries} bytes of entries");
    assert!(
        (1_200_000..1_250_000).contains(&blobs),
        "{blobs} bytes of blobs"
    );
    let checkpoint = store.checkpoint(id("s")).await.unwrap().unwrap();
    assert!(
        checkpoint.len() < 10_000,
        "{} bytes of a checkpoint",
        checkpoint.len()
    );
    let said = session.transcript().await.unwrap().messages();
    assert_eq!(pictures(&said), [1, 2, 4, 1, 2, 4, 1, 2, 4]);
    let first = session.file(2, 0).await.unwrap();
    assert_eq!(first, Some(file(1)));

    // Replay makes the very same requests, from the text of a recording too.
    let recorded = recording(&StoreHandle::new(store.clone()), run.id())
        .await
        .unwrap();
    let read = Recording::from_json_lines(&recorded.to_json_lines()).unwrap();
    let registry = clerk().into_team().unwrap().registry;
    for recording in [recorded, read] {
        assert!(replay(&recording, &registry, None).unwrap().is_faithful());
    }

    // Another process goes on from the checkpoint.
    system.stop().await.unwrap();
    let model = ScriptedModel::replies(["seen"]);
    let looker = Agent::from_fn("clerk", |cx: RunContext| async move {
        let said = cx.model(cx.model_request(cx.conversation())).await?;
        Ok(Outcome::answer(said.message.content()))
    });
    let system = System::builder(store.another_process())
        .model("default", model.clone())
        .team(looker.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system
        .session("clerk", "s")
        .send(shown().id("4"))
        .await
        .unwrap();
    assert_eq!(text(&run).await, "seen");
    let said = model.requests()[0].conversation.messages();
    assert_eq!(pictures(&said), [1, 2, 4, 1, 2, 4, 1, 2, 4, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_run_with_pictures_survives_a_crash_at_any_commit() {
    let scenario = Scenario::new("clerk", |builder, _| {
        let builder = builder.model("default", painter());
        builder.team(clerk().into_team().unwrap())
    })
    .turn("what is this?")
    .turn("and this?");
    let report = crash_everywhere(&scenario, CrashOptions::default()).await;
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.outcomes[1].contains("see"), "{report}");
}

#[tokio::test(start_paused = true)]
async fn the_bytes_go_with_the_last_session_or_tree_that_has_them() {
    let store = InMemoryStore::new();
    let system = start(&store).await.as_operator();
    let session = system.session("clerk", "s");
    assert_eq!(text(&session.send(shown()).await.unwrap()).await, "see");
    let other = session.fork(1, "other").await.unwrap();
    let blobs = async || store.inventory().await.unwrap().blobs;
    let there = async |numbers: &[u8]| {
        let blobs = blobs().await;
        let kept = (1..5).filter(|number| blobs.contains(&Digest::of(&picture(*number))));
        assert_eq!(kept.collect::<Vec<u8>>(), numbers);
    };
    there(&[1, 2, 3, 4]).await;
    // The helper's picture is in the tree alone, the others in the sessions too.
    let pruned = system.prune(Retention::default().keep(0)).await.unwrap();
    assert_eq!((pruned.trees, pruned.blobs > 0), (1, true));
    there(&[1, 2, 4]).await;
    session.delete().await.unwrap();
    system.prune(Retention::default().keep(0)).await.unwrap();
    there(&[1, 2, 4]).await;
    let said = other.transcript().await.unwrap().messages();
    assert_eq!(pictures(&said), [1, 2, 4]);
    other.delete().await.unwrap();
    system.prune(Retention::default().keep(0)).await.unwrap();
    there(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_a_document_and_a_fork_have_the_pictures_of_their_source() {
    let store = InMemoryStore::new();
    let system = start(&store).await.as_operator();
    let session = system.session("clerk", "s");
    let run = session.send(shown()).await.unwrap();
    assert_eq!(text(&run).await, "see");
    let fork = run.fork(Fork::at(2).session("forked")).await.unwrap();
    assert_eq!(text(&fork).await, "see");
    let document = system.sessions().export(&id("s")).await.unwrap();
    let document = SessionDocument::from_json(&document.to_json()).unwrap();
    let target = InMemoryStore::new();
    let elsewhere = start(&target).await.as_operator();
    let kept = elsewhere.sessions();
    kept.import(&document, id("imported")).await.unwrap();
    let copy = InMemoryStore::new();
    let [from, to] = [&store, &copy].map(|store| StoreHandle::new(store.another_process()));
    system.stop().await.unwrap();
    copy_store(&from, &to, |_| {}).await.unwrap();
    to.close().await.unwrap();
    let (sizes_there, sizes_here) = (sizes(&store).await, sizes(&copy).await);
    assert_eq!(sizes_there, sizes_here);
    let copied = start(&copy).await.as_operator();
    for (system, key) in [
        (&elsewhere, "imported"),
        (&copied, "s"),
        (&copied, "forked"),
    ] {
        let said = system.session("clerk", key).transcript().await.unwrap();
        assert_eq!(pictures(&said.messages()), [1, 2, 4], "{key}");
    }
    // What goes in the copy goes as it would have in the source.
    copied.session("clerk", "s").delete().await.unwrap();
    copied.session("clerk", "forked").delete().await.unwrap();
    copied.prune(Retention::default().keep(0)).await.unwrap();
    assert_eq!(sizes(&copy).await.1, 0);
}

#[tokio::test(start_paused = true)]
async fn journals_with_pictures_in_their_entries_are_read_and_continued() {
    let store = InMemoryStore::new();
    let system = start(&store).await.as_operator();
    let session = system.session("clerk", "s");
    for turn in ["1", "2", "3"] {
        let run = session.send(shown().id(turn)).await.unwrap();
        assert_eq!(text(&run).await, "see");
    }
    // The session as an earlier program wrote it.
    let lines = StoreHandle::new(store.clone());
    let journal = JournalId::from(id("s"));
    let lines = lines.read(journal.clone(), 0, usize::MAX).await.unwrap();
    let lines = lines.into_iter().map(|stored| {
        let text = stored.line.text.to_string().into();
        Line {
            text,
            ..stored.line
        }
    });
    let old = InMemoryStore::new();
    let append = Append::new(journal, 0, 1, lines.collect());
    let earlier = old.another_process();
    let made = earlier.commit(vec![Batch::of(append)]).await.unwrap();
    assert!(made.iter().all(Result::is_ok), "{made:?}");
    earlier.crash();
    assert_eq!(sizes(&old).await.1, 0);
    for turn in ["4", "5"] {
        let system = start(&old).await;
        let session = system.session("clerk", "s");
        for part in ["a", "b"] {
            let turn = shown().id(format!("{turn}{part}"));
            assert_eq!(text(&session.send(turn).await.unwrap()).await, "see");
        }
        pause(100).await;
        let said = session.transcript().await.unwrap().messages();
        assert_eq!(pictures(&said)[..4], [1, 2, 4, 1]);
        system.stop().await.unwrap();
    }
    // Its checkpoint has them once, though some entries do not.
    let checkpoint = old.checkpoint(id("s")).await.unwrap().unwrap();
    assert!(checkpoint.len() < 20_000, "{} bytes", checkpoint.len());
    let checkpoint = decode_checkpoint(&checkpoint).unwrap();
    assert_eq!(checkpoint.files().len(), 3);
    for hash in checkpoint.files() {
        assert!(old.blob(hash).await.unwrap().is_some());
    }
}
