//! Notifications to clients about changed sessions and artifacts.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Weak,
    time::Duration,
};

use ghostlight_actors::{
    actor::{SessionQuery, System, SystemError},
    vocabulary::{RunId, Scope, SessionId, Timestamp},
};
use parking_lot::Mutex;
use rmcp::{RoleServer, model::ResourceUpdatedNotificationParam, service::Peer};

use super::{addresses::Address, space::Space};

/// The pause between two checks for changes. They are necessary since other processes may change sessions of the store.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// How many addresses a connection may watch.
pub(super) const MAX_WATCHED: usize = 200;
/// How many of the latest sessions are checked.
const LOOKED_AT: usize = 500;

/// The addresses that a client of an older revision watches.
pub(super) type Watched = Mutex<BTreeSet<String>>;

/// Notifies a client of an older revision of changes, until its connection is gone.
pub(super) async fn tell(mut changes: Changes, watched: Weak<Watched>, peer: Peer<RoleServer>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(watched) = watched.upgrade().filter(|_| !peer.is_transport_closed()) else {
            return;
        };
        let watched = watched.lock().clone();
        for uri in changes.among(&watched).await {
            let told = ResourceUpdatedNotificationParam::new(uri);
            if peer.notify_resource_updated(told).await.is_err() {
                return;
            }
        }
    }
}

/// The state of a session at a check.
type Standing = (Timestamp, u64, Option<RunId>);

/// The changes from one check to the next.
pub(super) struct Changes {
    system: System,
    space: Space,
    /// The sessions that changed last, with their states.
    sessions: HashMap<SessionId, Standing>,
    since: Timestamp,
    /// The versions of the watched artifacts.
    versions: BTreeMap<String, Option<u64>>,
}

impl Changes {
    /// All changes from now on.
    ///
    /// # Errors
    /// The error of the store.
    pub(super) async fn of(system: System, space: Space) -> Result<Self, SystemError> {
        let mut changes = Self {
            system,
            space,
            sessions: HashMap::new(),
            since: Timestamp::default(),
            versions: BTreeMap::new(),
        };
        changes.look(1).await?;
        Ok(changes)
    }

    /// The watched addresses that have changed since the last check. If the store fails, the next check tries again.
    pub(super) async fn among(&mut self, watched: &BTreeSet<String>) -> Vec<String> {
        self.versions.retain(|uri, _| watched.contains(uri));
        let changed = match self.look(LOOKED_AT).await {
            Ok(changed) => changed,
            Err(error) => {
                tracing::warn!(%error, "changes of sessions are not told");
                return Vec::new();
            }
        };
        let mut told = Vec::new();
        for uri in watched {
            let Some(address) = Address::read(uri) else {
                continue;
            };
            let (Address::Session { team, key } | Address::Artifact { team, key, .. }) = &address;
            let key = self.space.key(key);
            let session = SessionId {
                team: team.as_str().into(),
                key: key.into(),
            };
            let has_changed = changed.contains(&session);
            let is_told = match &address {
                Address::Session { .. } => has_changed,
                Address::Artifact { name, .. } => {
                    self.is_new(uri, &session, name, has_changed).await
                }
            };
            if is_told {
                told.push(uri.clone());
            }
        }
        told
    }

    /// The sessions that have changed since the last check.
    async fn look(&mut self, limit: usize) -> Result<BTreeSet<SessionId>, SystemError> {
        let mut query = SessionQuery::default();
        (query.since, query.limit) = (Some(self.since), limit);
        let page = self.system.sessions().list(query).await?;
        let (mut changed, mut sessions) = (BTreeSet::new(), HashMap::new());
        for found in page.sessions {
            self.since = self.since.max(found.updated_at);
            let standing = (found.updated_at, found.turns, found.open);
            if self.sessions.get(&found.session) != Some(&standing) {
                changed.insert(found.session.clone());
            }
            sessions.insert(found.session, standing);
        }
        // Later checks see only changes from the last moment of this one on.
        sessions.retain(|_, (updated_at, ..)| *updated_at >= self.since);
        self.sessions = sessions;
        Ok(changed)
    }

    /// Whether an artifact has another version than at the last check.
    async fn is_new(&mut self, uri: &str, session: &SessionId, name: &str, changed: bool) -> bool {
        if !changed && self.versions.contains_key(uri) {
            return false;
        }
        let version = self.version(session, name).await;
        let before = self.versions.insert(uri.to_owned(), version);
        before.map_or(changed, |before| before != version)
    }

    async fn version(&self, session: &SessionId, name: &str) -> Option<u64> {
        let session = self.system.session(&session.team, &session.key);
        let kept = session.artifacts(Scope::Session).await.ok()?;
        let found = kept.into_iter().find(|artifact| artifact.name == name)?;
        Some(found.version)
    }
}
