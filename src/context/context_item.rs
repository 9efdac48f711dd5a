//! The pieces that a context is built from.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::vocabulary::{Message, Part, Role, Transcript};

/// The source of a context item, which decides its heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ContextItemSource {
    /// The role of the agent and its rules; always included.
    System,
    /// Findings for the task: documents, search results.
    Retrieved,
    /// Memories.
    Memory,
    /// Anything else.
    Custom,
    /// Earlier conversation, one item for each turn.
    Conversation,
}

impl ContextItemSource {
    pub(super) const ALL: [Self; 5] = [
        Self::System,
        Self::Retrieved,
        Self::Memory,
        Self::Custom,
        Self::Conversation,
    ];

    pub(super) fn section(self) -> &'static str {
        match self {
            Self::System => "[Role & Policies]",
            Self::Retrieved => "[Evidence]",
            Self::Memory | Self::Custom => "[Context]",
            Self::Conversation => "[History]",
        }
    }
}

/// A piece of context that is included whole or left out.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextItem {
    pub(super) source: ContextItemSource,
    pub(super) content: String,
    pub(super) relevance: Option<f64>,
    pub(super) recency: f64,
}

impl ContextItem {
    /// A piece from this source.
    pub fn new(source: ContextItemSource, content: impl Into<String>) -> Self {
        Self {
            source,
            content: content.into(),
            relevance: None,
            recency: 1.0,
        }
    }

    /// Sets the relevance to the task, from 0 to 1, as an index or an embedder measures it. If it
    /// is left out, [`ContextBuilder::scored_by`](super::ContextBuilder::scored_by) measures it, or
    /// else the share of common words is used.
    #[must_use]
    pub fn relevance(mut self, relevance: f64) -> Self {
        self.set_relevance(relevance);
        self
    }

    pub(super) fn set_relevance(&mut self, relevance: f64) {
        self.relevance = relevance.is_finite().then(|| relevance.clamp(0.0, 1.0));
    }

    /// Sets the age. An item that is a day old counts about a third as recent as a new one. Without
    /// an age an item counts as new.
    #[must_use]
    pub fn age(mut self, age: Duration) -> Self {
        self.recency = (-age.as_secs_f64() / (24.0 * 3600.0)).exp();
        self
    }

    /// A conversation as items, one for each turn, so that no answer is separated from its question
    /// and no result from its call. Later turns are more recent.
    pub fn turns(conversation: &Transcript) -> Vec<Self> {
        let mut turns: Vec<Vec<Arc<Message>>> = Vec::new();
        for message in conversation.messages() {
            match turns.last_mut() {
                Some(turn) if !message.is_from_user() => turn.push(message),
                _ => turns.push(vec![message]),
            }
        }
        let count = turns.len();
        let packet = |(place, turn): (usize, Vec<Arc<Message>>)| {
            let lines: Vec<String> = turn.iter().map(|message| line(message)).collect();
            let mut packet = Self::new(ContextItemSource::Conversation, lines.join("\n"));
            packet.recency = 1.0 / (count - place) as f64;
            packet
        };
        turns.into_iter().enumerate().map(packet).collect()
    }
}

fn line(message: &Message) -> String {
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.clone()),
        Part::ToolCall(call) => Some(format!("{}({})", call.name, call.arguments.text())),
        Part::ToolResult(result) => Some(format!("{}: {}", result.name, result.text)),
        _ => None,
    });
    let parts: Vec<String> = parts.collect();
    let who = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    format!("{who}: {}", parts.join("\n"))
}
