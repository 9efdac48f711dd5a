//! What is in the file, by the durability of a team.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    actor::System,
    contract::DynStore,
    definition::Durability,
    run::{Agent, RunContext},
    session::Turn,
    testing::ScriptedModel,
    vocabulary::{Effect, Entry, JournalId, ModelResponse, Outcome, RunId, SessionId},
};

use crate::{
    folder::Folder,
    sqlite_processes::{Process, STORE},
};

/// How many effects the run has.
const STEPS: usize = 1_000;

fn effects(store: &Path) -> PathBuf {
    store.with_extension("effects")
}

/// Writes a line for each effect, beside the store.
fn writer(effects: PathBuf) -> Agent {
    Agent::from_fn("writer", move |cx: RunContext| {
        let effects = effects.clone();
        async move {
            for step in 0..STEPS {
                let file = effects.clone();
                let write = async move {
                    let mut file = fs::OpenOptions::new()
                        .create(true)
                        .append(true)
                        .open(file)?;
                    file.write_all(format!("{step}\n").as_bytes())?;
                    Ok::<_, std::io::Error>(step)
                };
                cx.step("write", Effect::Idempotent, write).await?;
            }
            Ok(Outcome::answer("written"))
        }
    })
}

async fn system(path: &Path, durability: Durability) -> System {
    let team = writer(effects(path)).into_team().unwrap();
    System::builder(SqliteStore::open(path).unwrap())
        .model(
            "default",
            ScriptedModel::replies(Vec::<ModelResponse>::new()),
        )
        .team(team.durability(durability))
        .start()
        .await
        .unwrap()
}

fn written(path: &Path) -> Vec<usize> {
    let text = fs::read_to_string(effects(path)).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// The process that is killed. It is a test only to the harness.
#[tokio::test]
async fn work() {
    let Some(path) = std::env::var_os(STORE) else {
        return;
    };
    let system = system(Path::new(&path), Durability::Async).await;
    let session = system.session("writer", "s");
    let run = session.send(Turn::text("go").id("1")).await.unwrap();
    println!("> ready");
    run.outcome().await.unwrap();
    println!("> done");
}

#[tokio::test]
async fn a_killed_process_loses_at_most_the_window_and_leaves_a_prefix() {
    let run = RunId::of_turn(
        &SessionId {
            team: "writer".into(),
            key: "s".into(),
        },
        "1",
    );
    let mut kept = Vec::new();
    for kill_after in [0, 40, 150, 400] {
        let folder = Folder::new();
        let path = folder.store();
        let command = Command::new(std::env::current_exe().unwrap());
        let process = Process::start_test(command, "sqlite_durability::work", &path);
        while written(&path).len() < kill_after {
            std::thread::yield_now();
        }
        process.kill();

        let before = written(&path);
        let store = SqliteStore::open(&path).unwrap();
        let lines = store
            .read(JournalId::Run(run), 0, usize::MAX)
            .await
            .unwrap();
        store.verify().await.unwrap();
        let entries = lines.iter().map(|stored| stored.line.decode().unwrap());
        let recorded = entries
            .filter(|entry| matches!(entry, Entry::Completed { .. }))
            .count();
        let window = Durability::WINDOW as usize;
        assert!(
            before.len() <= recorded + window + 1,
            "{} of {recorded}",
            before.len()
        );
        kept.push(recorded);
        store.close().await.unwrap();
        drop(store);

        // What is left is a prefix: the next process goes on behind it.
        let system = system(&path, Durability::Async).await;
        assert_eq!(system.run(run).outcome().await.unwrap().text(), "written");
        system.stop().await.unwrap();
        let again: Vec<usize> = written(&path).split_off(before.len());
        let goes_on: Vec<usize> = (recorded..STEPS).collect();
        assert_eq!(
            again, goes_on,
            "after a kill with {recorded} results recorded"
        );
    }
    assert!(kept.iter().any(|recorded| *recorded > 0), "{kept:?}");
}

#[tokio::test]
async fn a_team_in_memory_leaves_the_file_as_it_was() {
    let folder = Folder::new();
    let path = folder.store();
    let system = system(&path, Durability::Memory).await;
    let session = system.session("writer", "s");
    let run = session.send(Turn::text("go")).await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "written");
    system.stop().await.unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let verified = store.verify().await.unwrap();
    assert_eq!((verified.commits, verified.entries), (0, 0));
    assert_eq!(written(&path).len(), STEPS);
}
