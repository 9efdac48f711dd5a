//! A way to the server that can be cut, frozen and delayed.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Open,
    /// Nothing passes, and nobody is told.
    Frozen,
    /// The server hears nothing, and nobody is told.
    Mute,
    /// The server's answers are not heard, and nobody is told.
    Deaf,
    /// The bytes that pass wait up to so many milliseconds each time, on each connection by itself, so that what is sent later on
    /// one of them may arrive earlier than what was sent before on another.
    Late(u64),
    /// Each connection ends, and none begins.
    Cut,
    /// Each connection ends after so many more answers of the server.
    CutAfter(u32),
    /// Answers are held back on a connection whose server was last told one of these.
    HoldAnswersTo(&'static [&'static str]),
    /// Each connection ends when the server has been told one of these, before its answer.
    CutAnswersTo(&'static [&'static str]),
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    /// The server's port.
    to: Arc<AtomicU16>,
    way: Arc<watch::Sender<Way>>,
    /// What the server was told before a connection was ended.
    cut: Arc<Mutex<Vec<&'static str>>>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let way = Arc::new(watch::channel(Way::Open).0);
        let cut = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::new(AtomicU16::new(port));
        let (ways, cuts, ports) = (way.clone(), cut.clone(), to.clone());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *ways.borrow() == Way::Cut {
                    continue;
                }
                let port = ports.load(Ordering::SeqCst);
                tokio::spawn(carry(client, port, ways.clone(), cuts.clone()));
            }
        });
        Self {
            port: own,
            to,
            way,
            cut,
            task,
        }
    }

    /// Leads new connections to another server.
    pub(crate) fn lead_to(&self, port: u16) {
        self.to.store(port, Ordering::SeqCst);
    }

    /// Returns when one more connection was ended after the server had been told this.
    pub(crate) async fn wait_until_cut(&self, told: &str) {
        let seen = self.cuts(told);
        while self.cuts(told) == seen {
            tokio::task::yield_now().await;
        }
    }

    fn cuts(&self, told: &str) -> usize {
        let cut = self.cut.lock().unwrap();
        cut.iter().filter(|text| **text == told).count()
    }

    pub(crate) fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

/// Waits as the way says.
async fn delay(way: &watch::Receiver<Way>) {
    let way = *way.borrow();
    if let Way::Late(most) = way {
        let delay = rand::random::<u64>() % (most + 1);
        tokio::time::sleep(std::time::Duration::from_millis(delay)).await;
    }
}

async fn carry(
    client: TcpStream,
    port: u16,
    ways: Arc<watch::Sender<Way>>,
    cuts: Arc<Mutex<Vec<&'static str>>>,
) {
    let server: SocketAddr = ([127, 0, 0, 1], port).into();
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut requests = ways.subscribe();
    let mut answers = ways.subscribe();
    let last_told = Arc::new(Mutex::new(Vec::new()));
    let told = last_told.clone();
    let up = async move {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            let frozen = requests
                .wait_for(|way| !matches!(way, Way::Frozen | Way::Mute))
                .await
                .is_err();
            delay(&requests).await;
            *told.lock().unwrap() = buffer[..read].to_vec();
            if frozen || to_server.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    let down = async move {
        let mut buffer = vec![0; 64 << 10];
        let mut left = None;
        while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
            let last = String::from_utf8_lossy(&last_told.lock().unwrap()).into_owned();
            let is_held = |way: &Way| match way {
                Way::Frozen | Way::Deaf => true,
                Way::HoldAnswersTo(texts) => texts.iter().any(|text| last.contains(text)),
                _ => false,
            };
            let way = answers.wait_for(|way| !is_held(way)).await.map(|way| *way);
            match way {
                Ok(Way::CutAfter(count)) => {
                    let left = left.get_or_insert(count);
                    if *left == 0 {
                        return;
                    }
                    *left -= 1;
                }
                Ok(Way::CutAnswersTo(texts)) => {
                    if let Some(text) = texts.iter().find(|text| last.contains(**text)) {
                        cuts.lock().unwrap().push(text);
                        return;
                    }
                }
                Ok(_) => delay(&answers).await,
                Err(_) => return,
            }
            if to_client.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    let mut cut = ways.subscribe();
    tokio::select! {
        () = up => {}
        () = down => {}
        _ = cut.wait_for(|way| *way == Way::Cut) => {}
    }
}
