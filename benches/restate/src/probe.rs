//! A server, a service and what was found.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use tokio::time::sleep;

use crate::{
    engine::{Engine, Failure, free_port},
    log::Lines,
};

pub struct Probe {
    pub engine: Engine,
    pub lines: Lines,
    pub port: u16,
    service: Option<Child>,
    log: PathBuf,
}

/// Prints one finding.
pub fn found(question: &str, holds: bool, text: &str) {
    let verdict = if holds { "holds " } else { "FAILS " };
    println!("{verdict} {question}: {text}");
}

/// Prints one measurement.
pub fn measured(question: &str, text: &str) {
    println!("       {question}: {text}");
}

impl Probe {
    pub async fn new(
        program: &Path,
        folder: &Path,
        settings: &[(&str, &str)],
    ) -> Result<Self, Failure> {
        let mut engine = Engine::new(program, folder, settings)?;
        let took = engine.start().await?;
        measured(
            "start",
            &format!("{} ms, {} MB", took.as_millis(), engine.memory() >> 20),
        );
        let log = folder.join("effects.log");
        let mut probe = Self {
            engine,
            lines: Lines(log.clone()),
            port: free_port()?,
            service: None,
            log,
        };
        probe.serve(1).await?;
        probe.engine.register(probe.port, true).await?;
        Ok(probe)
    }

    /// Starts the service with the code of this version, at the probe's port.
    pub async fn serve(&mut self, version: u32) -> Result<(), Failure> {
        self.service = Some(spawn(self.port, version, &self.log)?);
        reachable(self.port).await
    }

    /// Ends the service as `kill -9` does.
    pub fn kill_service(&mut self) -> Result<(), Failure> {
        if let Some(mut service) = self.service.take() {
            service.kill()?;
            service.wait()?;
        }
        Ok(())
    }

    pub fn service_id(&self) -> u32 {
        self.service.as_ref().map_or(0, Child::id)
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The status of an invocation, once it is one of these.
    pub async fn until(&self, invocation: &str, statuses: &[&str]) -> Result<Value, Failure> {
        let query = format!(
            "SELECT status, completion_result, completion_failure, last_failure, retry_count FROM sys_invocation WHERE id = '{invocation}'"
        );
        let mut last = Value::Null;
        for _ in 0..900 {
            last = self.engine.rows(&query).await?.pop().unwrap_or_default();
            if statuses.iter().any(|status| last["status"] == *status) {
                return Ok(last);
            }
            sleep(Duration::from_millis(50)).await;
        }
        Err(format!("{invocation} is {last}, not {statuses:?}").into())
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = self.kill_service();
    }
}

pub fn spawn(port: u16, version: u32, log: &Path) -> Result<Child, Failure> {
    let child = Command::new(std::env::current_exe()?)
        .args(["serve", &port.to_string(), &version.to_string()])
        .arg(log)
        .stdin(Stdio::null())
        .spawn()?;
    Ok(child)
}

pub async fn reachable(port: u16) -> Result<(), Failure> {
    for _ in 0..500 {
        if tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .is_ok()
        {
            return Ok(());
        }
        sleep(Duration::from_millis(10)).await;
    }
    Err("the service does not listen".into())
}
