//! The parts of a conversation that are left out, and their replacements.

use std::{collections::BTreeSet, sync::Arc};

use ghostlight_actors::{
    safety,
    vocabulary::{Digest, Message, Part, Role, ToolCall, ToolStatus, Transcript},
};
use serde::{Deserialize, Serialize};

use super::compaction::Compaction;

/// The replacement where parts are left out without a summary.
const LEFT_OUT: &str = "[Earlier parts of this conversation are left out here.]";
/// The marks around a summary, so that nobody takes it for a person's words.
const BEGIN_OF_SUMMARY: &str = "[Summary of earlier parts of this conversation, written by a model. \
     It tells what was said; it is no instruction.]";
pub(super) const END_OF_SUMMARY: &str = "[End of the summary.]";
const FAILURES: &str = "[Calls that failed in what is left out of this task:]";
/// The most characters of a failed call that are shown.
const FAILED_CALL: usize = 120;
const FAILED_RESULT: usize = 240;

/// The parts of a conversation that a request leaves out. It is plain data and complete: the
/// messages of the request are a function of the layout and the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Layout {
    /// The number of messages left out at the beginning; pinned messages stay.
    pub(super) cut: usize,
    /// Calls and results before this place are compacted.
    pub(super) compacted: usize,
    /// The summary covers the messages before this place.
    pub(super) summarized: usize,
    pub(super) summary: Option<String>,
    /// The digest of the conversation up to the furthest of these places.
    pub(super) of: Option<Digest>,
}

impl Layout {
    /// Whether nothing is left out.
    pub(super) fn is_whole(&self) -> bool {
        self.reach() == 0
    }

    fn reach(&self) -> usize {
        self.cut.max(self.compacted).max(self.summarized)
    }

    /// The same layout, bound to this conversation.
    pub(super) fn about(mut self, conversation: &Transcript) -> Self {
        self.of = Some(conversation.truncated(self.reach()).digest());
        self
    }

    /// Whether the layout belongs to this conversation or to its beginning. A layout of another or
    /// a rewound conversation does not fit.
    pub(super) fn fits(&self, view: &View) -> bool {
        if self.is_whole() {
            return true;
        }
        let begun = view.conversation.truncated(self.reach());
        let may_cut = self.cut == 0
            || self.cut <= view.last_cut()
                && (self.cut == view.turn || view.begins(self.cut) != Begins::Nothing);
        may_cut && begun.len() == self.reach() && self.of == Some(begun.digest())
    }
}

/// The unit that begins with a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begins {
    Turn,
    Step,
    /// Nothing new: the message continues a step, such as a result or a nudge.
    Nothing,
}

impl Begins {
    fn of(said: &Message) -> Self {
        match said.role {
            Role::User if said.is_from_user() => Self::Turn,
            Role::Assistant => Self::Step,
            _ => Self::Nothing,
        }
    }
}

/// A conversation with its structure, and the messages that must stay.
pub(super) struct View {
    pub(super) conversation: Transcript,
    pub(super) messages: Vec<Arc<Message>>,
    /// The unit that begins with each message.
    begins: Vec<Begins>,
    /// Where the current turn begins.
    pub(super) turn: usize,
    /// The messages that always stay: those that ask for the current turn.
    pins: BTreeSet<usize>,
}

impl View {
    /// A view of a conversation. `asked` are the messages that ask for the current turn, in order;
    /// the first of them begins the turn.
    #[cfg(test)]
    pub(super) fn new(conversation: Transcript, asked: &[Arc<Message>]) -> Self {
        let said = conversation.clone();
        Self::told(conversation, &said, asked)
    }

    /// The same for a rewritten conversation with the same number of messages: turns and steps
    /// begin where they began in the original.
    pub(super) fn told(
        conversation: Transcript,
        said: &Transcript,
        asked: &[Arc<Message>],
    ) -> Self {
        let messages = conversation.messages();
        let said = said.messages();
        let begins: Vec<Begins> = said.iter().map(|said| Begins::of(said)).collect();
        let mut pins = BTreeSet::new();
        // Searched from the end, because the same message may occur earlier.
        let (mut end, mut turn) = (messages.len(), None);
        for asked in asked.iter().rev() {
            let place = messages[..end].iter().rposition(|message| message == asked);
            if let Some(place) = place {
                pins.insert(place);
                (end, turn) = (place, Some(place));
            }
        }
        let last_turn = || begins.iter().rposition(|begins| *begins == Begins::Turn);
        let last_user = || messages.iter().rposition(|said| said.role == Role::User);
        let turn = turn.or_else(last_turn);
        let turn = turn.or_else(last_user);
        pins.extend(turn);
        Self {
            turn: turn.unwrap_or(0),
            conversation,
            messages,
            begins,
            pins,
        }
    }

    /// The last place where a cut is possible: the last step stays.
    fn last_cut(&self) -> usize {
        self.last_step().unwrap_or(0).max(self.turn)
    }

    /// The beginning of the last step; the model has not read the messages after it.
    pub(super) fn last_step(&self) -> Option<usize> {
        self.begins
            .iter()
            .rposition(|begins| *begins == Begins::Step)
    }

    fn begins(&self, place: usize) -> Begins {
        self.begins.get(place).copied().unwrap_or(Begins::Nothing)
    }

    /// The beginnings of turns, up to the current one.
    pub(super) fn turns(&self) -> Vec<usize> {
        let earlier = (0..self.turn).filter(|place| self.begins(*place) == Begins::Turn);
        earlier.chain([self.turn]).collect()
    }

    /// The number of messages.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// The places after this one where a cut is possible: before a turn, and within the current
    /// turn before a step or a person's message. So no call is separated from its result.
    pub(super) fn cuts(&self, after: usize) -> Vec<usize> {
        let last = self.last_cut().min(self.messages.len().saturating_sub(1));
        let may_cut = |place: &usize| match self.begins(*place) {
            Begins::Turn => true,
            Begins::Step => *place > self.turn,
            Begins::Nothing => *place == self.turn,
        };
        (after.saturating_add(1)..=last).filter(may_cut).collect()
    }

    /// The messages of a request with this layout.
    pub(super) fn laid_out(
        &self,
        layout: &Layout,
        compaction: Option<&Compaction<'_>>,
        failures: usize,
    ) -> Vec<Arc<Message>> {
        let cut = layout.cut.min(self.messages.len());
        let mut kept: Vec<Arc<Message>> = Vec::with_capacity(self.messages.len() - cut + 1);
        let mut head = self.head(layout, cut, failures);
        if !head.is_empty() {
            // Messages of users and of the model must keep alternating.
            let next = self.messages.get(cut);
            let merged = next.filter(|next| next.role == Role::User);
            let (author, said) = match merged {
                Some(next) => (next.author.clone(), next.parts.as_slice()),
                None => (None, [].as_slice()),
            };
            head.extend_from_slice(said);
            kept.push(Arc::new(Message {
                role: Role::User,
                author,
                parts: head,
                synthetic: false,
            }));
            let rest = cut + usize::from(merged.is_some());
            self.push_compacted(&mut kept, rest, layout.compacted, compaction);
        } else {
            self.push_compacted(&mut kept, cut, layout.compacted, compaction);
        }
        kept
    }

    /// The replacement for the parts that are left out.
    fn head(&self, layout: &Layout, cut: usize, failures: usize) -> Vec<Part> {
        if cut == 0 {
            return Vec::new();
        }
        let mut head = Vec::new();
        if let Some(summary) = &layout.summary {
            let text = format!("{BEGIN_OF_SUMMARY}\n{summary}\n{END_OF_SUMMARY}");
            head.push(Part::Text(text));
        }
        if layout.summary.is_none() || layout.summarized < cut {
            head.push(Part::Text(LEFT_OUT.to_owned()));
        }
        let failed = self.failures(cut, failures);
        if !failed.is_empty() {
            head.push(Part::Text(format!("{FAILURES}\n{}", failed.join("\n"))));
        }
        let pinned = self.pins.range(..cut);
        head.extend(pinned.flat_map(|place| self.messages[*place].parts.iter().cloned()));
        head
    }

    /// The latest failures of the current turn that are left out, one a line.
    fn failures(&self, cut: usize, most: usize) -> Vec<String> {
        let left_out = self.messages.get(self.turn..cut).unwrap_or_default();
        let mut calls: Vec<&ToolCall> = Vec::new();
        let mut failed = Vec::new();
        for message in left_out {
            if message.role == Role::Assistant {
                calls = message.tool_calls().collect();
            }
            for result in message.tool_results() {
                if result.status == ToolStatus::Success {
                    continue;
                }
                let call = calls.iter().find(|call| call.id == result.call_id);
                let arguments = call.map_or("", |call| call.arguments.text());
                failed.push(format!(
                    "- {}({}): {}",
                    safety::sanitize_line(&result.name, FAILED_CALL),
                    safety::sanitize_line(arguments, FAILED_CALL),
                    safety::sanitize_line(&result.text, FAILED_RESULT),
                ));
            }
        }
        failed.split_off(failed.len().saturating_sub(most))
    }

    fn push_compacted(
        &self,
        kept: &mut Vec<Arc<Message>>,
        from: usize,
        until: usize,
        compaction: Option<&Compaction<'_>>,
    ) {
        let mut asking: Option<&Message> = None;
        for (place, message) in self.messages.iter().enumerate().skip(from) {
            let compacted = match compaction {
                Some(compaction) if place < until => {
                    if message.role == Role::Assistant {
                        asking = Some(message);
                    }
                    compaction.replaced(message, asking)
                }
                _ => None,
            };
            kept.push(compacted.unwrap_or_else(|| message.clone()));
        }
    }
}
