//! A Restate server of the probe's own, and the requests to its ingress and its admin interface.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::sleep};

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A Restate server with its data below `folder`.
pub struct Engine {
    program: PathBuf,
    folder: PathBuf,
    settings: Vec<(String, String)>,
    pub ingress: u16,
    pub admin: u16,
    fabric: u16,
    process: Option<Child>,
}

/// A port that is free now.
pub fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Engine {
    pub fn new(program: &Path, folder: &Path, settings: &[(&str, &str)]) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder)?;
        Ok(Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            settings: settings
                .iter()
                .map(|(name, value)| (format!("RESTATE_{name}"), (*value).to_owned()))
                .collect(),
            ingress: free_port()?,
            admin: free_port()?,
            fabric: free_port()?,
            process: None,
        })
    }

    /// Starts the server on its data, and waits until it answers. Gives the time that this took.
    pub async fn start(&mut self) -> Result<Duration, Failure> {
        let began = Instant::now();
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join("server.log"))?;
        let process = Command::new(&self.program)
            .args(["--no-logo", "--node-name", "probe", "--listen-mode", "tcp"])
            .args([
                "--bind-ip",
                "127.0.0.1",
                "--bind-port",
                &self.fabric.to_string(),
            ])
            .current_dir(&self.folder)
            .env("RESTATE_INGRESS__BIND_PORT", self.ingress.to_string())
            .env("RESTATE_ADMIN__BIND_PORT", self.admin.to_string())
            .env("RESTATE_DEFAULT_NUM_PARTITIONS", "4")
            .env("RESTATE_DISABLE_TELEMETRY", "true")
            .env("RESTATE_LOG_DISABLE_ANSI_CODES", "true")
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.process = Some(process);
        for _ in 0..600 {
            let ready = request(self.admin, "GET", "/health", &[], Bytes::new()).await;
            let serves = request(self.ingress, "GET", "/restate/health", &[], Bytes::new()).await;
            if matches!((ready, serves), (Ok((200, _)), Ok((200, _)))) {
                return Ok(began.elapsed());
            }
            sleep(Duration::from_millis(50)).await;
        }
        Err("the Restate server does not answer; see server.log".into())
    }

    /// Ends the server as `kill -9` does.
    pub fn kill(&mut self) -> Result<(), Failure> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// The memory of the server's process, in bytes.
    pub fn memory(&self) -> u64 {
        let id = self.process.as_ref().map_or(0, Child::id);
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let kilobytes = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kilobytes.unwrap_or(0) * 1024
    }

    /// Tells the server of a service at this port. Gives the deployment's id.
    pub async fn register(&self, port: u16, force: bool) -> Result<String, Failure> {
        let body = json!({ "uri": format!("http://127.0.0.1:{port}"), "force": force });
        let (status, answer) = self.admin("POST", "/deployments", &body).await?;
        match answer["id"].as_str() {
            Some(id) if status < 300 => Ok(id.to_owned()),
            _ => Err(format!("registering failed: {status} {answer}").into()),
        }
    }

    pub async fn admin(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<(u16, Value), Failure> {
        let headers = [
            ("content-type", "application/json"),
            ("accept", "application/json"),
        ];
        let body = if body.is_null() {
            Bytes::new()
        } else {
            body.to_string().into()
        };
        let (status, answer) = request(self.admin, method, path, &headers, body).await?;
        let text = String::from_utf8_lossy(&answer).into_owned();
        Ok((
            status,
            serde_json::from_slice(&answer).unwrap_or(Value::String(text)),
        ))
    }

    /// The rows of a query over the server's tables.
    pub async fn rows(&self, query: &str) -> Result<Vec<Value>, Failure> {
        let (status, answer) = self
            .admin("POST", "/query", &json!({ "query": query }))
            .await?;
        match answer["rows"].as_array() {
            Some(rows) => Ok(rows.clone()),
            None => Err(format!("{query}: {status} {answer}").into()),
        }
    }

    /// Sends a turn and waits for its end.
    pub async fn call(
        &self,
        object: &str,
        key: &str,
        body: &Value,
    ) -> Result<(u16, Value), Failure> {
        self.ingress(&format!("/{object}/{key}/turn"), &[], body)
            .await
    }

    /// Sends a turn and gives its invocation's id.
    pub async fn send(&self, object: &str, key: &str, body: &Value) -> Result<String, Failure> {
        let (status, answer) = self
            .ingress(&format!("/{object}/{key}/turn/send"), &[], body)
            .await?;
        match answer["invocationId"].as_str() {
            Some(id) => Ok(id.to_owned()),
            None => Err(format!("sending failed: {status} {answer}").into()),
        }
    }

    /// Waits for the end of an invocation.
    pub async fn end(&self, invocation: &str) -> Result<(u16, Value), Failure> {
        let path = format!("/restate/invocation/{invocation}/attach");
        let (status, answer) = request(self.ingress, "GET", &path, &[], Bytes::new()).await?;
        Ok((status, read(&answer)))
    }

    pub async fn ingress(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Result<(u16, Value), Failure> {
        let mut all = vec![("content-type", "application/json")];
        all.extend_from_slice(headers);
        let (status, answer) =
            request(self.ingress, "POST", path, &all, body.to_string().into()).await?;
        Ok((status, read(&answer)))
    }

    /// Cancels, kills, pauses or resumes an invocation.
    pub async fn command(&self, invocation: &str, what: &str) -> Result<(u16, Value), Failure> {
        self.admin(
            "PATCH",
            &format!("/invocations/{invocation}/{what}"),
            &Value::Null,
        )
        .await
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn read(answer: &Bytes) -> Value {
    serde_json::from_slice(answer)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(answer).into_owned()))
}

/// One request over HTTP/1.1 to this machine.
pub async fn request(
    port: u16,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> Result<(u16, Bytes), Failure> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = sender.send_request(request.body(Full::new(body))?).await?;
    let status = response.status().as_u16();
    let answer = response.into_body().collect().await?.to_bytes();
    connection.abort();
    Ok((status, answer))
}
