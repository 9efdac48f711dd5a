//! A picture takes its size once in the file, however often it is said, and a session of many resumes in the memory that a
//! request needs.

use std::path::Path;

use ghostlight::stores::SqliteStore;
use ghostlight_actors::{
    actor::System,
    contract::DynStore as _,
    run::{Agent, RunContext},
    session::Turn,
    testing::ScriptedModel,
    vocabulary::{Answer, Data, Outcome, Part, SessionId},
};

use crate::folder::Folder;

const MB: usize = 1_000_000;

/// A picture whose bytes no compression makes fewer.
fn picture(number: u64) -> Data {
    let mut random = number * 2 + 1;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        random = random.wrapping_mul(6_364_136_223_846_793_005) ^ (random >> 29);
        random.to_le_bytes()[3]
    })
    .take(MB)
    .collect();
    Data::from_bytes(format!("{number}.png"), bytes).unwrap()
}

/// Shows its model all that was said.
fn looker() -> Agent {
    Agent::from_fn("looker", |cx: RunContext| async move {
        let said = cx.model(cx.model_request(cx.conversation())).await?;
        let answer = Answer::text(said.message.content());
        let said = vec![said.message.clone()];
        Ok(Outcome::Answer(answer.with_messages(said)))
    })
}

/// A model that says how many bytes of base64 it was shown.
fn eyes() -> ScriptedModel {
    ScriptedModel::from_reply_fn(|request, _| {
        let said = request.conversation.messages();
        let parts = said.iter().flat_map(|message| &message.parts);
        let shown = parts.filter_map(|part| match part {
            Part::Data(data) => Some(data),
            _ => None,
        });
        let bytes: usize = shown.map(|data| data.bytes().unwrap().unwrap().len()).sum();
        bytes.to_string().into()
    })
}

async fn start(path: &Path) -> System {
    System::builder(SqliteStore::open(path).unwrap())
        .model("default", eyes())
        .team(looker().into_team().unwrap())
        .start()
        .await
        .unwrap()
}

async fn show(system: &System, numbers: std::ops::Range<u64>) -> String {
    let mut said = String::new();
    for number in numbers {
        let turn = Turn::text("and this?").attach(picture(number));
        let run = system.session("looker", "s").send(turn).await.unwrap();
        said = run.outcome().await.unwrap().text().to_owned();
    }
    said
}

fn session() -> SessionId {
    SessionId {
        team: "looker".into(),
        key: "s".into(),
    }
}

/// The size of the file after these pictures were shown, and that of the session's checkpoint.
async fn size(pictures: u64) -> (usize, usize) {
    let folder = Folder::new();
    let path = folder.store();
    let system = start(&path).await;
    let said = show(&system, 0..pictures).await;
    assert_eq!(said, (pictures as usize * MB).to_string());
    system.stop().await.unwrap();
    let store = SqliteStore::open(&path).unwrap();
    store.verify().await.unwrap();
    let checkpoint = store.checkpoint(session()).await.unwrap();
    store.close().await.unwrap();
    let file = std::fs::metadata(&path).unwrap().len();
    let log = std::fs::metadata(folder.beside("-wal")).map_or(0, |log| log.len());
    ((file + log) as usize, checkpoint.map_or(0, |it| it.len()))
}

#[tokio::test]
async fn a_file_grows_by_the_size_of_a_picture_that_is_said_and_kept() {
    for pictures in [1, 2, 20] {
        let (file, checkpoint) = size(pictures).await;
        let bytes = pictures as usize * MB;
        println!(
            "{pictures} pictures: {:.3} times their size in the file, a checkpoint of {checkpoint} bytes",
            file as f64 / bytes as f64
        );
        assert!(file * 10 <= bytes * 13, "{file} bytes for {bytes}");
        // The last one may still have been under way at the end.
        assert!(checkpoint > 0 || pictures < 20);
        assert!(checkpoint < 100_000, "a checkpoint of {checkpoint} bytes");
    }
}

/// A process in which a long session of pictures goes on: it says how much memory that took at most.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn go_on() {
    let Ok(path) = std::env::var(crate::sqlite_processes::STORE) else {
        return;
    };
    println!("> ready");
    let before = most_memory();
    let system = start(Path::new(&path)).await;
    let said = show(&system, 20..21).await;
    println!("> {said} {}", most_memory() - before);
}

/// The most memory that this process has had so far, in bytes.
#[cfg(target_os = "linux")]
fn most_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<usize>().unwrap() << 10
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_session_of_many_pictures_goes_on_in_the_memory_of_few_requests() {
    use std::process::Command;

    use crate::sqlite_processes::Process;

    let folder = Folder::new();
    let system = start(&folder.store()).await;
    show(&system, 0..20).await;
    system.stop().await.unwrap();
    for has_checkpoint in [true, false] {
        let copy = folder.image();
        if !has_checkpoint {
            let store = SqliteStore::open(copy.store()).unwrap();
            store.put_checkpoint(session(), None).await.unwrap();
            store.close().await.unwrap();
        }
        let command = Command::new(std::env::current_exe().unwrap());
        let mut process = Process::start_test(command, "sqlite_pictures::go_on", &copy.store());
        let told = process.hear();
        let (shown, most) = told.split_once(' ').unwrap();
        assert_eq!(shown, (21 * MB).to_string());
        let most: usize = most.parse().unwrap();
        // A request has the base64 of all.
        let request = 21 * MB * 4 / 3;
        let times = most as f64 / request as f64;
        println!("{times:.2} times a request; a checkpoint: {has_checkpoint}");
        assert!(
            most <= 4 * request,
            "{most} bytes for a request of {request}"
        );
    }
}

#[tokio::test]
async fn a_picture_that_is_missing_in_a_file_is_found() {
    let folder = Folder::new();
    let path = folder.store();
    let system = start(&path).await;
    show(&system, 0..1).await;
    system.stop().await.unwrap();
    let file = rusqlite::Connection::open(&path).unwrap();
    let gone = "DELETE FROM blobs WHERE length(bytes) = 1000000";
    assert_eq!(file.execute(gone, []).unwrap(), 1);
    drop(file);
    let store = SqliteStore::open(&path).unwrap();
    let told = store.verify().await.unwrap_err();
    assert!(told.to_string().contains("lacks its file"), "{told}");
    store.close().await.unwrap();
}
