//! Opening, listing and closing sessions.
//!
//! A session's key is a random number and the client's directory, as in `1f6c0d2a9b3e@/home/ada/shop`: a store knows a
//! session from its first turn on, and the key is all that it knows before.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ghostlight_actors::{
    actor::{Session, SessionQuery},
    contract::{Entropy as _, SessionRow, SystemEntropy},
    vocabulary::{SessionId, Timestamp},
};
use ghostlight_safety::redact_text;
use serde_json::{Value, json};

use super::{CANCELLED, Client, MAX_SESSIONS, Open, failed, is_absolute, not_open, result};
use crate::{
    protocol::{
        ListRequest, ListResponse, Mode, Modes, SessionInfo, SetModeRequest, SetupRequest,
        SetupResponse, Update,
    },
    wire::RpcError,
};

/// The longest directory of a client, and the longest id of a session, in bytes.
const MAX_DIRECTORY: usize = 1_024;
const MAX_ID: usize = 2_048;
/// How long the response to `session/close` waits for the end of what is under way.
const CLOSING: Duration = Duration::from_secs(5);
/// How many sessions are in a page of a list.
const PAGE: usize = 50;

/// The modes of a session.
const MODES: [(&str, &str, &str); 2] = [
    ("run", "Run", "Agents do what they are asked to do."),
    (
        "dry_run",
        "Dry run",
        "Tools with an effect are not called: agents say what they would do.",
    ),
];

fn modes(dry_run: bool) -> Modes {
    let mode = |(id, name, description): (&str, &str, &str)| Mode {
        id: id.to_owned(),
        name: name.to_owned(),
        description: description.to_owned(),
    };
    Modes {
        current_mode_id: MODES[usize::from(dry_run)].0.to_owned(),
        available_modes: MODES.map(mode).into(),
    }
}

/// The key of a new session that is begun in this directory.
fn fresh_key(directory: &str) -> String {
    format!("{:012x}@{directory}", SystemEntropy.bits() >> 80)
}

/// The directory in a session's key.
fn directory_of(key: &str) -> Option<&str> {
    let (number, directory) = key.split_once('@')?;
    let is_number = number.len() == 12 && number.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_number && is_absolute(directory)).then_some(directory)
}

fn checked(setup: &SetupRequest) -> Result<&str, RpcError> {
    let directory = &setup.cwd;
    let fits = directory.len() <= MAX_DIRECTORY && !directory.chars().any(char::is_control);
    if !fits || !is_absolute(directory) {
        let reason = format!("`cwd` is an absolute path of at most {MAX_DIRECTORY} bytes");
        return Err(RpcError::invalid_params(reason));
    }
    if !setup.mcp_servers.is_empty() {
        tracing::warn!(
            servers = setup.mcp_servers.len(),
            "the client's MCP servers are not used: name them in the team file, under `mcp`"
        );
    }
    Ok(directory)
}

fn named(setup: &SetupRequest) -> Result<&str, RpcError> {
    let named = setup.session_id.as_deref();
    let named = named.filter(|id| (1..=MAX_ID).contains(&id.len()));
    named.ok_or_else(|| {
        RpcError::invalid_params(format!("`sessionId` is a text of 1 to {MAX_ID} bytes"))
    })
}

impl Client {
    pub(super) fn session(&self, id: &str) -> Session {
        let served = &self.served;
        served.system.session(&served.team, id)
    }

    fn session_id(&self, id: &str) -> SessionId {
        self.session(id).id().clone()
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.sessions.lock().contains_key(id)
    }

    /// Opens a session, or finds it open.
    fn open(&self, id: &str) -> Result<Modes, RpcError> {
        let mut sessions = self.sessions.lock();
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(id) {
            let reason = format!("{MAX_SESSIONS} sessions are open: close some");
            return Err(RpcError::new(RpcError::INVALID_REQUEST, reason));
        }
        let open = sessions.entry(id.to_owned()).or_default();
        Ok(modes(open.dry_run))
    }

    pub(super) fn new_session(&self, setup: &SetupRequest) -> Result<SetupResponse, RpcError> {
        let id = fresh_key(checked(setup)?);
        let modes = self.open(&id)?;
        Ok(SetupResponse {
            session_id: Some(id),
            modes: Some(modes),
        })
    }

    /// Opens a session of the store. With `replay` what was said is shown first. A run that is under way goes on to be
    /// shown afterwards.
    pub(super) async fn load(
        self: &Arc<Self>,
        setup: &SetupRequest,
        replay: bool,
    ) -> Result<SetupResponse, RpcError> {
        checked(setup)?;
        let id = named(setup)?;
        let log = self.session(id).log().await.map_err(failed)?;
        // A session that was begun here and has no turn yet is known by the form of its key.
        if log.turns.is_empty() && !self.is_open(id) && directory_of(id).is_none() {
            let reason = format!("there is no session {:?}", self.session_id(id).to_string());
            return Err(RpcError::new(RpcError::NOT_FOUND, reason));
        }
        let modes = self.open(id)?;
        self.show_turns(id, &log, replay).await?;
        Ok(SetupResponse {
            session_id: None,
            modes: Some(modes),
        })
    }

    /// Begins a session that goes on from another one, without the turn that is under way there.
    pub(super) async fn fork(&self, setup: &SetupRequest) -> Result<SetupResponse, RpcError> {
        let (directory, from) = (checked(setup)?, named(setup)?);
        let session = self.session(from);
        let log = session.log().await.map_err(failed)?;
        if log.turns.is_empty() && !self.is_open(from) {
            return Err(not_open(from));
        }
        let ended = log.turns.iter().take_while(|turn| !turn.is_open()).count() as u64;
        let id = fresh_key(directory);
        let modes = self.open(&id)?;
        if ended > 0
            && let Err(error) = session.fork(ended, &id).await
        {
            self.sessions.lock().remove(&id);
            return Err(failed(error));
        }
        Ok(SetupResponse {
            session_id: Some(id),
            modes: Some(modes),
        })
    }

    pub(super) async fn list(&self, which: &ListRequest) -> Result<ListResponse, RpcError> {
        let mut query = SessionQuery::default();
        query.team = Some(self.served.team.clone());
        query.limit = PAGE;
        if let Some(cursor) = &which.cursor {
            let after = read_cursor(cursor).ok_or_else(|| {
                RpcError::invalid_params("`cursor` is the `nextCursor` of the page before")
            })?;
            query.after = Some(after);
        }
        let mut listed = ListResponse::default();
        loop {
            let page = self.served.system.sessions().list(query.clone()).await;
            let page = page.map_err(failed)?;
            for one in page.sessions {
                let cwd = match directory_of(&one.session.key) {
                    Some(directory) => directory.to_owned(),
                    None => self.served.directory.display().to_string(),
                };
                if which.cwd.as_ref().is_none_or(|wanted| *wanted == cwd) {
                    listed.sessions.push(SessionInfo {
                        session_id: one.session.key.to_string(),
                        cwd,
                        title: Some(redact_text(&one.title).into_owned())
                            .filter(|title| !title.is_empty()),
                        updated_at: time_of(one.updated_at),
                    });
                }
            }
            match page.next {
                // Where few sessions are of the directory, several pages of the store are one of the list.
                Some(next) if listed.sessions.len() < PAGE => query.after = Some(next),
                next => {
                    let next = next.and_then(|row| serde_json::to_vec(&row).ok());
                    listed.next_cursor = next.map(|row| URL_SAFE_NO_PAD.encode(row));
                    return Ok(listed);
                }
            }
        }
    }

    pub(super) async fn set_mode(&self, wanted: SetModeRequest) -> Result<Value, RpcError> {
        let place = MODES.iter().position(|(id, ..)| *id == wanted.mode_id);
        let Some(place) = place else {
            let known = MODES.map(|(id, ..)| id).join(", ");
            return Err(RpcError::invalid_params(format!("the modes are: {known}")));
        };
        match self.sessions.lock().get_mut(&wanted.session_id) {
            Some(open) => open.dry_run = place == 1,
            None => return Err(not_open(&wanted.session_id)),
        }
        let update = Update::CurrentModeUpdate {
            current_mode_id: wanted.mode_id,
        };
        self.tell(&wanted.session_id, update).await?;
        result(json!({}))
    }

    /// Cancels what is under way in a session, and forgets the session here.
    pub(super) async fn close(&self, id: &str) -> Result<Value, RpcError> {
        let closed = self.sessions.lock().remove(id);
        let Some(Open { prompt, .. }) = closed else {
            return Err(not_open(id));
        };
        if let Some(prompt) = prompt {
            prompt.cancel();
        }
        // Also a run that nothing follows, since it asks something that is answered in words.
        let log = self.session(id).log().await.map_err(failed)?;
        for turn in log.turns.iter().filter(|turn| turn.is_open()) {
            let run = self.served.system.run(turn.carried_by);
            run.cancel(CANCELLED).await.map_err(failed)?;
            // A client may end this process when it has the response. A run that takes longer is cancelled by the next one.
            let _ = tokio::time::timeout(CLOSING, run.quiet()).await;
        }
        result(json!({}))
    }

    /// Deletes a session for good. While a run of it is open it is refused.
    pub(super) async fn delete(&self, id: &str) -> Result<Value, RpcError> {
        let session = self.session(id);
        if !session.log().await.map_err(failed)?.turns.is_empty() {
            session.delete().await.map_err(failed)?;
        }
        self.sessions.lock().remove(id);
        result(json!({}))
    }
}

fn read_cursor(cursor: &str) -> Option<SessionRow> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()
}

/// A time in the protocol's form (RFC 3339).
fn time_of(at: Timestamp) -> Option<String> {
    let millis = i64::try_from(at.0).ok()?;
    let time = jiff::Timestamp::from_millisecond(millis).ok()?;
    Some(time.to_string())
}
