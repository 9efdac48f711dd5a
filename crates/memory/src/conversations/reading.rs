//! Reading the recorded turns of a user, or of one session, from a store.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc, time::Duration};

use ghostlight_actors::{
    contract::{SessionFilter, SessionRow, StoreError, StoreHandle, StoredLine},
    vocabulary::{Entry, JournalId, OperationId, Scope, SessionId, Timestamp},
};

use super::turns::{SessionTurns, Turn, answered, number_of, said};
use crate::{
    MemoryHit, MemoryItem, MemoryKind, MemoryQuery, Provenance,
    scoring::{self, Likeness},
};

/// How many turns of a user are searched: the latest ones.
const MOST_TURNS: usize = 50_000;
/// How many sessions are listed at once.
const LISTED: usize = 1_000;
/// How many entries of a journal, or first entries of journals, are read at once.
const PAGE: usize = 64;
/// How many entries of a session are read to learn its owner, where the first ones belong to nobody.
const OWNER_WITHIN: u64 = 256;
/// Sessions that changed so long before the last list are listed again: the clocks of several machines differ.
const OVERLAP: Duration = Duration::from_secs(300);
/// The importance of a turn.
const IMPORTANCE: f64 = 0.2;

/// Whose conversations are searched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Whose {
    /// All conversations of a user with a team.
    User { team: String, owner: Arc<str> },
    /// One conversation.
    Session(SessionId),
}

impl Whose {
    /// The conversations of a scope of a team. There are none but for a session and a user: nobody reads what others said.
    pub(crate) fn of(team: &str, session: Option<&SessionId>, scope: &Scope) -> Option<Self> {
        match scope {
            Scope::Session => session.cloned().map(Self::Session),
            // A name that ends with `/` is that of a tenant.
            Scope::User(owner) if !owner.is_empty() && !owner.ends_with('/') => Some(Self::User {
                team: team.to_owned(),
                owner: owner.as_str().into(),
            }),
            _ => None,
        }
    }
}

/// The turns of a user or of a session, as far as they were read. They are derived from the journals and can be read again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversations {
    /// The time of the last entry of all listed sessions.
    listed: Option<Timestamp>,
    sessions: BTreeMap<SessionId, Arc<SessionTurns>>,
}

/// A turn that answers a question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'c> {
    pub(super) score: f64,
    pub(super) session: &'c SessionId,
    pub(super) turn: &'c Turn,
}

impl Conversations {
    /// How many turns there are.
    pub(super) fn len(&self) -> usize {
        self.sessions.values().map(|session| session.len()).sum()
    }

    fn turns(&self) -> impl Iterator<Item = (&SessionId, &Turn)> {
        let sessions = self.sessions.iter();
        sessions.flat_map(|(id, session)| session.ended().map(move |turn| (id, turn)))
    }

    /// The turns that answer a question best, the best first; of equals the later one.
    pub(super) fn best(
        &self,
        query: &MemoryQuery,
        vector: Option<&[f32]>,
        now: Timestamp,
    ) -> Vec<Candidate<'_>> {
        let asked = query.parsed();
        let terms: Vec<u32> = asked.terms.iter().map(|term| number_of(term)).collect();
        let rated = self.turns().filter_map(|(session, turn)| {
            let own = turn.vector.get();
            let like = Likeness {
                cosine: vector.zip(own).map(|(a, b)| scoring::cosine(a, b)),
                keyword: turn.keyword(&terms),
                tags: 0.0,
            };
            let age = now.since(turn.at()).as_secs_f64() / 3600.0;
            let score = scoring::episodic_score(like, age, IMPORTANCE);
            let candidate = Candidate {
                score,
                session,
                turn,
            };
            (like.relevance() > query.min_relevance.max(0.0)).then_some(candidate)
        });
        let mut found: Vec<Candidate<'_>> = rated.collect();
        found.sort_by(|a, b| {
            let later = b.turn.position.cmp(&a.turn.position);
            b.score.total_cmp(&a.score).then(later)
        });
        found
    }

    /// The latest turns that have no vector.
    pub(super) fn without_vector(&self) -> Vec<Candidate<'_>> {
        let bare = self.turns().filter(|(_, turn)| turn.vector.get().is_none());
        let mut bare: Vec<Candidate<'_>> = bare
            .map(|(session, turn)| Candidate {
                score: 0.0,
                session,
                turn,
            })
            .collect();
        bare.sort_by_key(|candidate| Reverse(candidate.turn.at()));
        bare
    }

    /// Reads what was recorded since.
    pub(super) async fn read_on(
        &mut self,
        store: &StoreHandle,
        whose: &Whose,
    ) -> Result<(), StoreError> {
        match whose {
            Whose::Session(id) => self.read_session(store, id, None).await?,
            Whose::User { team, owner } => {
                self.read_sessions(store, (team, owner)).await?;
            }
        }
        // The sessions in which nothing was said for longest go first.
        while self.sessions.len() > 1 && self.len() > MOST_TURNS {
            let oldest = self.sessions.iter().min_by_key(|(_, session)| session.at());
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else {
                break;
            };
            self.sessions.remove(&oldest);
        }
        Ok(())
    }

    async fn read_sessions(
        &mut self,
        store: &StoreHandle,
        (team, owner): (&String, &Arc<str>),
    ) -> Result<(), StoreError> {
        let mut filter = SessionFilter::default();
        filter.team = Some(team.clone());
        let overlap = |at: Timestamp| Timestamp(at.0.saturating_sub(OVERLAP.as_millis() as u64));
        filter.since = self.listed.map(overlap);
        filter.limit = LISTED;
        let mut read = 0;
        loop {
            let rows = store.sessions(filter.clone()).await?;
            (filter.after, self.listed) = match (rows.first(), rows.last()) {
                (Some(first), last) => (last.cloned(), self.listed.max(Some(first.updated_at))),
                _ => return Ok(()),
            };
            let is_last = rows.len() < LISTED;
            let known = |row: &SessionRow| self.sessions.get(&row.session).map(|read| read.entries);
            let changed = rows
                .into_iter()
                .filter(|row| known(row) != Some(row.entries));
            for id in owned(store, changed.collect(), owner).await? {
                self.read_session(store, &id, Some(owner)).await?;
                read += self.sessions.get(&id).map_or(0, |session| session.len());
            }
            // The list begins with the latest session, so what is left out is older.
            if is_last || read >= MOST_TURNS {
                return Ok(());
            }
        }
    }

    /// Reads what was recorded of a session since; one that has another owner is left out.
    async fn read_session(
        &mut self,
        store: &StoreHandle,
        id: &SessionId,
        owner: Option<&Arc<str>>,
    ) -> Result<(), StoreError> {
        let journal = JournalId::Session(id.clone());
        let mut session = self
            .sessions
            .remove(id)
            .map_or_else(SessionTurns::default, Arc::unwrap_or_clone);
        if let Some(last) = session.entries.checked_sub(1) {
            let last = store.read(journal.clone(), last, 1).await?;
            if last.first().map(|line| line.position) != Some(session.position) {
                // The session was deleted, and perhaps there is another one of this name.
                session = SessionTurns::default();
            }
        }
        loop {
            let lines = store.read(journal.clone(), session.entries, PAGE).await?;
            for line in &lines {
                match line.decode(&journal) {
                    Ok(entry) => session.add(line, entry),
                    Err(error) => {
                        tracing::warn!(session = %id, %error, "its turns are not searched");
                        return Ok(());
                    }
                }
            }
            session.keep_last(MOST_TURNS);
            if lines.len() < PAGE {
                break;
            }
        }
        if session.entries > 0 && owner.is_none_or(|owner| session.owner.as_ref() == Some(owner)) {
            self.sessions.insert(id.clone(), Arc::new(session));
        }
        Ok(())
    }
}

/// The sessions among these that are the owner's, by their first entries.
async fn owned(
    store: &StoreHandle,
    rows: Vec<SessionRow>,
    owner: &Arc<str>,
) -> Result<Vec<SessionId>, StoreError> {
    let mut owned = Vec::new();
    for page in rows.chunks(PAGE) {
        let ids = page
            .iter()
            .map(|row| JournalId::Session(row.session.clone()));
        let first = store.read_all(ids.collect(), 1).await?;
        for (row, lines) in page.iter().zip(first) {
            let found = owner_of(store, &row.session, lines.unwrap_or_default()).await?;
            if found.as_ref() == Some(owner) {
                owned.push(row.session.clone());
            }
        }
    }
    Ok(owned)
}

/// The owner of a session, from its first entries.
async fn owner_of(
    store: &StoreHandle,
    id: &SessionId,
    mut lines: Vec<StoredLine>,
) -> Result<Option<Arc<str>>, StoreError> {
    let journal = JournalId::Session(id.clone());
    let mut session = SessionTurns::default();
    loop {
        for line in &lines {
            if let Ok(entry) = line.decode(&journal) {
                session.add(line, entry);
            }
        }
        let next = lines.last().map(|line| line.sequence + 1);
        match next.filter(|next| session.owner.is_none() && *next < OWNER_WITHIN) {
            Some(next) => lines = store.read(journal.clone(), next, PAGE).await?,
            None => return Ok(session.owner),
        }
    }
}

/// A turn as an item, with its text; `None` if it is not recorded any more.
pub(super) async fn item(
    store: &StoreHandle,
    found: &Candidate<'_>,
) -> Result<Option<MemoryItem>, StoreError> {
    let Candidate { session, turn, .. } = *found;
    let Some((ended, ended_at)) = turn.ended else {
        return Ok(None);
    };
    let journal = JournalId::Session(session.clone());
    let began = store.read(journal.clone(), turn.began, 1).await?;
    let began = began.first().filter(|line| line.position == turn.position);
    let Some(Entry::TurnStarted(began)) = began.map(|line| line.decode(&journal)).transpose()?
    else {
        return Ok(None);
    };
    let end = store.read(journal.clone(), ended, 1).await?;
    let Some(Entry::TurnEnded(end)) = end.first().map(|line| line.decode(&journal)).transpose()?
    else {
        return Ok(None);
    };
    let (said, answered) = (said(&began.message), answered(&end));
    let operation = OperationId::default();
    Ok(Some(MemoryItem {
        id: format!("turn-{}", turn.run),
        kind: MemoryKind::Conversation,
        content: format!("They said: {said}\nIt was answered: {answered}"),
        tags: Default::default(),
        importance: IMPORTANCE,
        pinned: false,
        created_at: turn.began_at,
        updated_at: ended_at,
        expires_at: None,
        source: Some(Provenance::new(turn.run, operation, end.active_agent)),
        detail: None,
        accessed_at: None,
        accesses: 0,
        disabled: false,
        boost: 1.0,
    }))
}

/// The best turns with their texts, and whether one of the best is not recorded any more.
pub(super) async fn hits(
    store: &StoreHandle,
    best: &[Candidate<'_>],
    k: u32,
) -> Result<(Vec<MemoryHit>, bool), StoreError> {
    let (mut hits, mut gone) = (Vec::new(), false);
    for candidate in best {
        if hits.len() >= k as usize {
            break;
        }
        match item(store, candidate).await? {
            Some(item) => hits.push(MemoryHit {
                score: candidate.score,
                item,
            }),
            None => gone = true,
        }
    }
    Ok((hits, gone))
}

/// The turns that answer a question best by their words, read from the store for this question alone.
pub(crate) async fn search_once(
    store: &StoreHandle,
    whose: &Whose,
    query: &MemoryQuery,
    now: Timestamp,
) -> Result<Vec<MemoryHit>, StoreError> {
    let mut turns = Conversations::default();
    turns.read_on(store, whose).await?;
    let best = turns.best(query, None, now);
    Ok(hits(store, &best, query.k.min(MemoryQuery::MOST)).await?.0)
}
