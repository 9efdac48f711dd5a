//! A server whose one agent does what it is told.

use std::{path::PathBuf, time::Duration};

use ghostlight_actors::{
    actor::{System, SystemOptions},
    contract::Store,
    run::{Agent, RunContext, operations::Subscription},
    testing::InMemoryStore,
    vocabulary::{AgentError, Outcome, Question, Scope as State, ToolCall},
};
use ghostlight_server::{KeyFile, Scope, Server, ServerOptions};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use crate::{
    client::{Answer, Client},
    webhooks,
};

/// Does what its input says, and answers with it.
pub(crate) async fn obey(cx: RunContext) -> Result<Outcome, AgentError> {
    let told = cx.input().content();
    let (word, rest) = told.split_once(' ').unwrap_or((&told, ""));
    match word {
        "ask" => {
            let answer = cx.ask(rest).await?;
            return Ok(Outcome::answer(format!("answered {answer}")));
        }
        "choose" => {
            let options = rest.split(' ').map(str::to_owned).collect::<Vec<_>>();
            let answer = cx.ask(Question::choice("Which?", options)).await?;
            return Ok(Outcome::answer(format!("chose {answer}")));
        }
        "count" => {
            for number in 0..rest.parse().map_err(AgentError::failed)? {
                cx.emit("tick", &number);
                cx.sleep(Duration::from_millis(2)).await?;
            }
        }
        "say" => {
            let long = "x".repeat(rest.parse().map_err(AgentError::failed)?);
            cx.emit("long", &long);
        }
        "repeat" => {
            let (times, bytes) = rest.split_once(' ').unwrap_or((rest, "1"));
            let long = "x".repeat(bytes.parse().map_err(AgentError::failed)?);
            for _ in 0..times.parse().map_err(AgentError::failed)? {
                cx.emit("long", &long);
            }
        }
        "keep" => {
            cx.artifacts(State::Session)
                .save("note.txt", "text/html", rest.as_bytes())
                .await?;
        }
        "call" => {
            // Calls tools of these names at once, each with its place.
            let calls = rest.split(' ').enumerate().map(|(place, name)| {
                ToolCall::new(place.to_string(), name, json!({ "place": place }))
            });
            let results = cx.tools(calls).await?;
            let heard = results
                .iter()
                .map(|result| format!("{:?} {}", result.status, result.text));
            return Ok(Outcome::answer(heard.collect::<Vec<_>>().join("; ")));
        }
        "delegate" => {
            let done = cx.delegate("helper", rest).await?;
            return Ok(Outcome::answer(format!("the helper says {}", done.text)));
        }
        "both" => {
            let one = cx.ask("first?").await?;
            let done = cx.delegate("helper", rest).await?;
            return Ok(Outcome::answer(format!("{one} and {}", done.text)));
        }
        "publish" => {
            let topic = cx.topic::<String>("news");
            topic.subscribe(Subscription::new("readers")).await?;
            topic.publish(&rest.to_owned()).await?;
            cx.ask("read it?").await?;
        }
        "twice" => {
            let (one, two) = (cx.ask("first?").await?, cx.ask("second?").await?);
            return Ok(Outcome::answer(format!("{one} and {two}")));
        }
        "refuse" => return Ok(Outcome::escalated(rest)),
        "hang" => cx.sleep(Duration::from_secs(36_000)).await?,
        "fail" => return Err(AgentError::failed(rest)),
        _ => {}
    }
    Ok(Outcome::answer(format!("did {told}")))
}

pub(crate) struct Desk {
    pub(crate) system: System,
    pub(crate) keys: KeyFile,
    /// Without a key.
    pub(crate) client: Client,
    stop: Option<oneshot::Sender<()>>,
    served: Option<JoinHandle<std::io::Result<()>>>,
    folder: PathBuf,
}

/// A System with the desk and its helper, and a team that nobody outside may know of.
pub(crate) async fn system(store: impl Store, limits: SystemOptions) -> System {
    let helper = Agent::from_fn("helper", obey).description("helps");
    let desk = Agent::from_fn("desk", obey)
        .description("does what it is told")
        .agent(helper);
    let secret = Agent::from_fn("secret", obey);
    let system = System::builder(store).options(limits);
    let system = system
        .team(webhooks::of(desk.into_team().unwrap()))
        .team(webhooks::of(secret.into_team().unwrap()));
    system.start().await.unwrap()
}

impl Desk {
    /// A server without keys.
    pub(crate) async fn open() -> Self {
        Self::start(SystemOptions::default(), |server, _| server).await
    }

    /// A server that asks for keys.
    pub(crate) async fn locked() -> Self {
        Self::start(SystemOptions::default(), |server, keys| {
            server.keys(keys.clone())
        })
        .await
    }

    pub(crate) async fn limited(limits: ServerOptions) -> Self {
        Self::start(SystemOptions::default(), |server, _| server.options(limits)).await
    }

    pub(crate) async fn start(
        limits: SystemOptions,
        set_up: impl FnOnce(Server, &KeyFile) -> Server,
    ) -> Self {
        Self::over(InMemoryStore::new(), limits, set_up).await
    }

    pub(crate) async fn over(
        store: impl Store,
        limits: SystemOptions,
        set_up: impl FnOnce(Server, &KeyFile) -> Server,
    ) -> Self {
        Self::of(system(store, limits).await, set_up).await
    }

    /// A server of this System.
    pub(crate) async fn of(
        system: System,
        set_up: impl FnOnce(Server, &KeyFile) -> Server,
    ) -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ghostlight-server-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let keys = KeyFile::open(folder.join("keys.json"));
        let server = Server::new(system.clone());
        let server = server.visibility("secret", ghostlight_server::Visibility::Private);
        let server = set_up(server, &keys);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(server.serve(listener, stopped));
        let client = Client { to, key: None };
        Self {
            system,
            keys,
            client,
            stop: Some(stop),
            served: Some(served),
            folder,
        }
    }

    /// A client with a key of this subject.
    pub(crate) fn client_of(&self, subject: &str, scopes: &[Scope]) -> Client {
        let key = self.keys.add(subject, scopes, None).unwrap();
        Client {
            key: Some(key.secret),
            ..self.client.clone()
        }
    }

    /// Says a turn, and waits for its end or its question.
    pub(crate) async fn say(&self, client: &Client, session: &str, text: &str) -> Answer {
        let path = format!("/api/v1/sessions/desk/{session}/turns?wait=50");
        client.post(&path, json!({ "text": text })).await
    }

    /// Says a turn that does not end by itself, and gives its run.
    pub(crate) async fn begin(&self, client: &Client, session: &str, text: &str) -> String {
        let path = format!("/api/v1/sessions/desk/{session}/turns");
        let said = client
            .post(&path, json!({ "text": text }))
            .await
            .is(202)
            .json();
        said["run"]["id"].as_str().unwrap().to_owned()
    }

    /// Tells the server to stop, and waits until it has.
    pub(crate) async fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.served.take().unwrap().await.unwrap().unwrap();
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if let Some(served) = &self.served {
            served.abort();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A value of an answer's JSON, as text.
#[track_caller]
pub(crate) fn text_at(value: &Value, pointer: &str) -> String {
    let found = value
        .pointer(pointer)
        .unwrap_or_else(|| panic!("no {pointer} in {value}"));
    found
        .as_str()
        .map_or_else(|| found.to_string(), str::to_owned)
}
