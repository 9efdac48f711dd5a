//! The search in what was said. The recorded sessions are the data; the index is derived from them and held by an actor.

mod actor;
mod reading;
mod turns;

use ghostlight_actors::{
    contract::{EmbeddingPurpose, StoreError, StoreHandle},
    run::{Begin, Operation, OperationContext, Performing},
    vocabulary::{Digest, ErrorKind, OperationError, Timestamp},
};

pub(crate) use self::reading::{Whose, search_once};
use self::{
    actor::{ConversationsActor, ConversationsMessage},
    reading::{Conversations, hits, item},
};
use crate::{
    Memory, MemoryHit, MemoryQuery, MemoryScope, ScopedMemory, memory::act, vectors::BACKFILL,
};

/// How often a search begins anew because a session was deleted in the meantime.
const ATTEMPTS: u32 = 3;

/// A search in what was said in conversations.
#[must_use = "an operation starts when it is polled"]
#[derive(Debug)]
pub struct SearchConversations {
    memory: Memory,
    scope: MemoryScope,
    name: String,
    query: MemoryQuery,
}

impl ScopedMemory<'_> {
    /// The turns that answer a question best, the best first: those of all the user's conversations with the team
    /// ([`MemoryScope::User`]), or of this one ([`MemoryScope::Session`]). The recorded turns themselves are searched, also
    /// those of a time when there was no memory; deleted sessions are not found, and neither are turns that a rewind took
    /// back. Of each side 1,500 characters count, and of a user the latest 50,000 turns.
    ///
    /// With an embedder up to 32 turns get a vector in each search: those with the most words of the question, then the
    /// latest. Turns without one are compared by their words.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an empty question and for another scope; [`ErrorKind::Denied`] if the run belongs to
    /// no user.
    pub fn conversations(&self, query: MemoryQuery) -> Performing<SearchConversations> {
        self.cx.perform(SearchConversations {
            memory: self.memory.clone(),
            scope: self.scope,
            name: format!("{}/{}", self.scope.as_str(), self.memory.name()),
            query,
        })
    }
}

impl Operation for SearchConversations {
    type Output = Vec<MemoryHit>;

    fn kind(&self) -> &'static str {
        "memory_conversations"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> Digest {
        let query = serde_json::to_vec(&self.query).unwrap_or_default();
        Digest::of_parts(&[self.name.as_bytes(), &query])
    }

    fn begin(self, cx: OperationContext) -> Begin<Vec<MemoryHit>> {
        act(async move { Ok(Begin::Ready(Ok(self.search(&cx).await?))) })
    }
}

fn invalid(message: impl Into<String>) -> OperationError {
    OperationError::new(ErrorKind::InvalidInput, message)
}

impl SearchConversations {
    async fn search(&self, cx: &OperationContext) -> Result<Vec<MemoryHit>, OperationError> {
        let asked = self.query.parsed();
        if asked.text.is_empty() {
            return Err(invalid("a search needs a question"));
        }
        let (start, scope) = (cx.start(), self.scope.of(cx.start())?);
        let whose = Whose::of(&start.team, start.session.as_ref(), &scope);
        let whose = whose.ok_or_else(|| {
            let scope = self.scope.as_str();
            invalid(format!(
                "conversations are those of a `user` or a `session`, and not of the scope `{scope}`"
            ))
        })?;
        let id = match self.memory.space() {
            // Vectors of two spaces cannot be compared.
            Some(space) => format!("conversations by {}", space.name),
            None => "conversations".to_owned(),
        };
        let companion = cx.companion(&id, || (ConversationsActor, ())).await?;
        let asked = self
            .memory
            .embed(&[asked.text], EmbeddingPurpose::Query)
            .await;
        let vector = asked.into_iter().next().flatten();
        let k = self.query.k.min(MemoryQuery::MOST);
        for attempt in 1.. {
            let turns =
                |reply| ConversationsMessage::Turns(cx.store().clone(), whose.clone(), reply);
            let turns = companion.ask(turns).await??;
            if vector.is_some() {
                self.add_vectors(cx.store(), &turns, cx.now()).await?;
            }
            let best = turns.best(&self.query, vector.as_deref(), cx.now());
            let (found, gone) = hits(cx.store(), &best, k).await?;
            if !gone {
                return Ok(found);
            }
            companion.tell(ConversationsMessage::Gone(whose.clone()));
            if attempt == ATTEMPTS {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }

    /// Makes vectors for some turns: for those that words find, then for the latest.
    async fn add_vectors(
        &self,
        store: &StoreHandle,
        turns: &Conversations,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let by_words = turns.best(&self.query, None, now).into_iter();
        let by_words = by_words.filter(|found| found.turn.vector.get().is_none());
        let mut bare: Vec<_> = by_words.take(BACKFILL).collect();
        let latest = turns.without_vector().into_iter().take(2 * BACKFILL);
        for found in latest {
            if !bare
                .iter()
                .any(|other| std::ptr::eq(other.turn, found.turn))
            {
                bare.push(found);
            }
        }
        bare.truncate(BACKFILL);
        let (mut texts, mut of) = (Vec::new(), Vec::new());
        for found in &bare {
            if let Some(item) = item(store, found).await? {
                texts.push(item.content);
                of.push(found.turn);
            }
        }
        let vectors = self.memory.embed(&texts, EmbeddingPurpose::Document).await;
        for (turn, vector) in of.into_iter().zip(vectors) {
            if let Some(vector) = vector {
                let _ = turn.vector.set(vector);
            }
        }
        Ok(())
    }
}
