//! The sessions of clients over HTTP, as revisions before the newest have them: whose they are, and how many.

use std::{collections::HashMap, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::{
    SessionId, SessionManager as _, local::LocalSessionManager,
};

/// The most sessions of one owner, and of all. Each holds some 100 kB until it is silent for five minutes.
const OF_ONE_OWNER: usize = 256;
const OF_ALL: usize = 4_096;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// Knows whose each session is. The id of a session alone opens nothing.
#[derive(Default)]
pub(super) struct HttpSessions {
    pub(super) manager: Arc<LocalSessionManager>,
    begun: Mutex<Begun>,
}

#[derive(Default)]
struct Begun {
    sessions: HashMap<SessionId, Session>,
    /// How many were ever begun.
    count: u64,
}

struct Session {
    owner: Option<String>,
    number: u64,
}

impl Begun {
    /// The oldest session of these owners, if there are more than this many.
    fn oldest_beyond(
        &self,
        most: usize,
        is_counted: impl Fn(&Session) -> bool,
    ) -> Option<SessionId> {
        let counted = self.sessions.iter().filter(|(_, one)| is_counted(one));
        if counted.clone().count() <= most {
            return None;
        }
        let oldest = counted.min_by_key(|(_, session)| session.number);
        oldest.map(|(id, _)| id.clone())
    }
}

impl HttpSessions {
    /// Takes the session that a request names out of it, if it is another owner's: to this owner it is as one that there
    /// is not.
    pub(super) fn hide_from(&self, owner: Option<&str>, headers: &mut HeaderMap) {
        let named = headers.get(&SESSION_ID).and_then(|id| id.to_str().ok());
        let Some(named) = named else { return };
        let begun = self.begun.lock();
        let session = begun.sessions.get(named);
        if session.is_some_and(|session| session.owner.as_deref() != owner) {
            headers.insert(SESSION_ID, HeaderValue::from_static("unknown"));
        }
    }

    /// Notes whose the session is that a response begins, if it begins one. Ends the oldest beyond the bounds.
    pub(super) async fn begin(&self, owner: Option<String>, headers: &HeaderMap) {
        let named = headers.get(&SESSION_ID).and_then(|id| id.to_str().ok());
        let Some(id) = named.map(SessionId::from) else {
            return;
        };
        let over = {
            let live = self.manager.sessions.read().await;
            let mut begun = self.begun.lock();
            if begun.sessions.contains_key(&id) || !live.contains_key(&id) {
                return;
            }
            begun.sessions.retain(|id, _| live.contains_key(id));
            begun.count += 1;
            let number = begun.count;
            let of_owner = owner.clone();
            begun.sessions.insert(id, Session { owner, number });
            let of_one = begun.oldest_beyond(OF_ONE_OWNER, |one| one.owner == of_owner);
            of_one.or_else(|| begun.oldest_beyond(OF_ALL, |_| true))
        };
        if let Some(id) = over
            && let Err(error) = self.manager.close_session(&id).await
        {
            tracing::warn!(%error, "a session beyond the bound does not end");
        }
    }
}
