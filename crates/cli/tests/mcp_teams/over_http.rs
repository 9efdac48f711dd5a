//! Teams as a server of the protocol beside the other endpoints of `serve --listen`.

use std::{
    io::{BufRead as _, BufReader, Lines},
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
    time::Duration,
};

use ghostlight::{
    contract::{RunFilter, RunStatus, StoreHandle, ToolContext, Toolset},
    mcp::{self, McpServer, McpToolset, ServerSpec},
    prelude::*,
    run::RunContext,
    server::{QuotaFor, Scope, Server},
    vocabulary::Arguments,
};
use serde_json::json;
use tokio::sync::oneshot;

use crate::{peer::Peer, serving::TEAM};

/// The command with the address of its teams, until the end of the test.
pub(crate) struct Serving {
    child: Child,
    pub(crate) url: String,
    /// Its standard error stays open.
    _notes: Lines<BufReader<ChildStderr>>,
}

impl Serving {
    /// Serves a team with its files in a folder.
    pub(crate) fn start(folder: &Path) -> Self {
        std::fs::write(folder.join("team.yaml"), TEAM).unwrap();
        let mut serve = ghostlight(folder, &["serve", "team.yaml", "--listen", "127.0.0.1:0"]);
        let mut child = serve.stderr(Stdio::piped()).spawn().unwrap();
        let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = notes.find_map(|note| {
            let note = note.unwrap();
            let (_, rest) = note.split_once("listens at ")?;
            Some(rest.split(' ').next()?.to_owned())
        });
        Self {
            child,
            url: format!("{}/mcp", address.unwrap()),
            _notes: notes,
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A new key of this subject.
pub(crate) fn key(folder: &Path, subject: &str) -> String {
    let made = ghostlight(folder, &["key", "add", subject])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

fn ghostlight(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ghostlight"));
    command
        .args(arguments)
        .arg("--store")
        .arg(folder.join("store.db"))
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

fn settings(url: &str, key: Option<&str>) -> ServerSpec {
    let settings = ServerSpec::url(url).connect_timeout(Duration::from_secs(20));
    match key {
        Some(key) => settings.header("authorization", format!("Bearer {key}")),
        None => settings,
    }
}

#[tokio::test]
async fn the_keys_of_the_listening_server_guard_its_teams() {
    let folder = Peer::new("listening", &[]).folder;
    let (ada, bob) = (key(&folder, "ada"), key(&folder, "bob"));
    let serving = Serving::start(&folder);
    let url = &serving.url;

    for key in [None, Some("gl_wrong")] {
        let stranger = McpToolset::new("clerk", settings(url, key)).unwrap();
        assert!(stranger.connect().await.is_err(), "{key:?}");
        stranger.disconnect().await;
    }
    for key in [&ada, &bob] {
        let clerk = McpToolset::new("clerk", settings(url, Some(key))).unwrap();
        clerk.connect().await.unwrap();
        assert_eq!(
            clerk.protocol_version().await.as_deref(),
            Some("2026-07-28")
        );
        let call = json!({ "message": "What is 17% of 2340?", "session": "s", "turn_id": "t" });
        let tool = clerk.tools().unwrap().remove(0);
        let answered = tool
            .call(Arguments::from(call), ToolContext::detached())
            .await
            .unwrap();
        assert!(answered.text.contains("397.8"), "{answered:?}");
        clerk.disconnect().await;
    }
    let store = StoreHandle::new(SqliteStore::open(folder.join("store.db")).unwrap());
    let runs = store.runs(RunFilter::default()).await.unwrap();
    let sessions = runs.into_iter().filter_map(|run| run.session);
    let mut keys: Vec<String> = sessions.map(|session| session.key.to_string()).collect();
    keys.sort();
    assert_eq!(keys, ["ada/s", "bob/s"]);
}

#[tokio::test]
async fn quotas_hold_for_calls_and_a_server_that_stops_cancels_none() {
    let (begin, began) = oneshot::channel();
    let begin = std::sync::Mutex::new(Some(begin));
    let begin = std::sync::Arc::new(begin);
    let desk = Agent::from_fn("desk", move |cx: RunContext| {
        let begin = begin.lock().unwrap().take();
        async move {
            let _ = begin.map(|begin| begin.send(()));
            cx.sleep(Duration::from_secs(3600)).await?;
            Ok(Outcome::answer("woken"))
        }
    });
    let builder = System::builder(InMemoryStore::new()).team(desk.into_team().unwrap());
    let system = builder.start().await.unwrap();
    let desk = McpServer::new(system.clone()).team("desk", "Waits.");
    let server = Server::new(system.clone())
        .quota(QuotaFor::Team, "1/1h".parse().unwrap())
        .service("/mcp", Scope::Run, mcp::endpoint(&desk));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(listener, stopped));

    let toolset = McpToolset::new("desk", settings(&url, None)).unwrap();
    toolset.connect().await.unwrap();
    let tool = toolset.tools().unwrap().remove(0);
    let (second, call) = (tool.clone(), json!({ "message": "wait" }));
    let call = Arguments::from(call);
    let again = call.clone();
    let calling = tokio::spawn(async move { tool.call(call, ToolContext::detached()).await });
    began.await.unwrap();
    // The quotas of the server hold here too.
    let refused = second
        .call(again, ToolContext::detached())
        .await
        .unwrap_err();
    assert!(refused.message.contains("are allowed"), "{refused}");
    stop.send(()).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), serving).await;
    ended.expect("the server stops").unwrap().unwrap();
    let rows = system.runs(RunFilter::default()).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_ne!(rows[0].status, RunStatus::Cancelled);
    assert!(!rows[0].status.is_ended(), "{rows:?}");
    calling.abort();
    toolset.disconnect().await;
}
