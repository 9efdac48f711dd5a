//! The parts of a conversation that are left out, and their replacements.

use std::{collections::BTreeSet, sync::Arc};

use ghostlight_actors::vocabulary::{Digest, Message, Part, Role, ToolStatus, Transcript};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A conversation with its structure, and the messages that must stay. It grows with its conversation:
/// each message is looked at once.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) conversation: Transcript,
    pub(super) messages: Vec<Arc<Message>>,
    pub(super) sums: Sums,
    /// The same messages before some were rewritten: they tell where turns and steps begin.
    said: Transcript,
    /// The unit that begins with each message.
    begins: Vec<Begins>,
    /// The places where turns begin, and those where steps do.
    turns: Vec<usize>,
    steps: Vec<usize>,
    /// The places of messages with calls.
    calling: Vec<usize>,
    /// The failed calls, each with the place of its result and as one line.
    failed: Vec<(usize, String)>,
    /// Where the current turn begins.
    pub(super) turn: usize,
    /// The messages that always stay: those that ask for the current turn.
    pins: BTreeSet<usize>,
    /// The messages that ask for the current turn, if all of them were found.
    asked: Option<Vec<Arc<Message>>>,
}

impl View {
    /// A view of a conversation. `asked` are the messages that ask for the current turn, in order;
    /// the first of them begins the turn.
    #[cfg(test)]
    pub(super) fn new(conversation: Transcript, asked: &[Arc<Message>]) -> Self {
        let said = conversation.clone();
        Self::default().told(conversation, &said, asked)
    }

    /// This view with what was said since, or a view of another conversation. The conversation may
    /// have rewritten messages: turns and steps begin where they do in the original, which has as
    /// many messages.
    pub(super) fn told(
        self,
        conversation: Transcript,
        said: &Transcript,
        asked: &[Arc<Message>],
    ) -> Self {
        let begins = |longer: &Transcript, known: &Transcript| {
            known.len() <= longer.len() && longer.truncated(known.len()) == *known
        };
        let is_longer = begins(&conversation, &self.conversation) && begins(said, &self.said);
        let mut view = if is_longer { self } else { Self::default() };
        let known = view.messages.len();
        for (message, said) in conversation.since(known).into_iter().zip(said.since(known)) {
            view.add(message, Begins::of(&said));
        }
        (view.conversation, view.said) = (conversation, said.clone());
        let is_same = |known: &Vec<Arc<Message>>| known.as_slice() == asked;
        if !view.asked.as_ref().is_some_and(is_same) {
            view.find(asked);
        }
        view
    }

    fn add(&mut self, message: Arc<Message>, begins: Begins) {
        let place = self.messages.len();
        match begins {
            Begins::Turn => self.turns.push(place),
            Begins::Step => self.steps.push(place),
            Begins::Nothing => {}
        }
        self.begins.push(begins);
        if message.tool_calls().next().is_some() {
            self.calling.push(place);
        }
        for result in message.tool_results() {
            if result.status == ToolStatus::Success {
                continue;
            }
            let asks = |said: &&Arc<Message>| said.role == Role::Assistant;
            let asking = self.messages.iter().rev().find(asks);
            let mut calls = asking.into_iter().flat_map(|said| said.tool_calls());
            let call = calls.find(|call| call.id == result.call_id);
            let arguments = call.map_or("", |call| call.arguments.text());
            let line = format!(
                "- {}({}): {}",
                ghostlight_safety::sanitize_line(&result.name, FAILED_CALL),
                ghostlight_safety::sanitize_line(arguments, FAILED_CALL),
                ghostlight_safety::sanitize_line(&result.text, FAILED_RESULT),
            );
            self.failed.push((place, line));
        }
        self.messages.push(message);
    }

    /// Finds the messages that ask for the current turn.
    fn find(&mut self, asked: &[Arc<Message>]) {
        self.pins.clear();
        // Searched from the end, because the same message may occur earlier.
        let (mut end, mut turn) = (self.messages.len(), None);
        for asked in asked.iter().rev() {
            let mut messages = self.messages[..end].iter();
            let place = messages.rposition(|said| Arc::ptr_eq(said, asked) || said == asked);
            if let Some(place) = place {
                self.pins.insert(place);
                (end, turn) = (place, Some(place));
            }
        }
        let all = !asked.is_empty() && self.pins.len() == asked.len();
        self.asked = all.then(|| asked.to_vec());
        let last_user = || {
            self.messages
                .iter()
                .rposition(|said| said.role == Role::User)
        };
        let turn = turn.or(self.turns.last().copied()).or_else(last_user);
        self.pins.extend(turn);
        self.turn = turn.unwrap_or(0);
    }

    /// The last place where a cut is possible: the last step stays.
    fn last_cut(&self) -> usize {
        self.last_step().unwrap_or(0).max(self.turn)
    }

    /// The beginning of the last step; the model has not read the messages after it.
    pub(super) fn last_step(&self) -> Option<usize> {
        self.steps.last().copied()
    }

    /// The last messages with calls, from the end: this many of them are passed by.
    pub(super) fn calling_before(&self, last: usize) -> Option<usize> {
        self.calling.iter().rev().nth(last).copied()
    }

    fn begins(&self, place: usize) -> Begins {
        self.begins.get(place).copied().unwrap_or(Begins::Nothing)
    }

    /// The beginnings of turns, up to the current one.
    pub(super) fn turns(&self) -> Vec<usize> {
        let earlier = self.turns.iter().take_while(|place| **place < self.turn);
        earlier.copied().chain([self.turn]).collect()
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
        let (head, rest) = self.begun(layout, failures);
        let mut kept: Vec<Arc<Message>> = Vec::with_capacity(self.messages.len() - rest + 1);
        kept.extend(head.map(Arc::new));
        self.push_compacted(&mut kept, rest, layout.compacted, compaction);
        kept
    }

    /// The message instead of what is left out, and the place of the first message after it.
    pub(super) fn begun(&self, layout: &Layout, failures: usize) -> (Option<Message>, usize) {
        let cut = layout.cut.min(self.messages.len());
        let mut parts = self.head(layout, cut, failures);
        if parts.is_empty() {
            return (None, cut);
        }
        let pinned = self.pins.range(..cut);
        parts.extend(pinned.flat_map(|place| self.messages[*place].parts.iter().cloned()));
        // Messages of users and of the model must keep alternating.
        let next = self.messages.get(cut);
        let merged = next.filter(|next| next.role == Role::User);
        let (author, said) = match merged {
            Some(next) => (next.author.clone(), next.parts.as_slice()),
            None => (None, [].as_slice()),
        };
        parts.extend_from_slice(said);
        let head = Message {
            role: Role::User,
            author,
            parts,
            synthetic: false,
        };
        (Some(head), cut + usize::from(merged.is_some()))
    }

    /// How many parts of the first message stand for what is left out.
    pub(super) fn retold(&self, layout: &Layout, failures: usize) -> usize {
        let cut = layout.cut.min(self.messages.len());
        self.head(layout, cut, failures).len()
    }

    /// The replacement for the parts that are left out. No text of a message is among them as it was said.
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
        head
    }

    /// The latest failures of the current turn that are left out, one a line.
    fn failures(&self, cut: usize, most: usize) -> Vec<&str> {
        let before = |end: usize| self.failed.partition_point(|(place, _)| *place < end);
        let until = before(cut);
        let from = before(self.turn).max(until.saturating_sub(most)).min(until);
        let failed = self.failed[from..until].iter();
        failed.map(|(_, line)| line.as_str()).collect()
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

/// The tokens of the messages from the first one on, each place with all before it.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// Of the messages as they are.
    plain: Vec<u64>,
    /// Of the messages with placeholders, as far as they were needed.
    compacted: Vec<u64>,
    /// The last message of the model among these.
    asking: Option<Arc<Message>>,
}

impl Sums {
    /// Counts the messages that are new, and with placeholders those before `compacted`.
    pub(super) fn extend(
        &mut self,
        messages: &[Arc<Message>],
        compacted: usize,
        compaction: Option<&Compaction<'_>>,
        count: impl Fn(&Arc<Message>) -> u64,
    ) {
        for message in messages.iter().skip(self.plain.len()) {
            let sum = until(&self.plain, self.plain.len()) + count(message);
            self.plain.push(sum);
        }
        let Some(compaction) = compaction else { return };
        let messages = messages.iter().take(compacted);
        for message in messages.skip(self.compacted.len()) {
            if message.role == Role::Assistant {
                self.asking = Some(message.clone());
            }
            let replaced = compaction.replaced(message, self.asking.as_deref());
            let tokens = count(replaced.as_ref().unwrap_or(message));
            let sum = until(&self.compacted, self.compacted.len()) + tokens;
            self.compacted.push(sum);
        }
    }

    /// The tokens of the messages from this place on, those before `compacted` with placeholders.
    pub(super) fn since(&self, place: usize, compacted: usize) -> u64 {
        let compacted = compacted.min(self.compacted.len()).max(place);
        let between = |sums: &[u64], from, to| match to > from {
            true => until(sums, to) - until(sums, from),
            false => 0,
        };
        between(&self.compacted, place, compacted)
            + between(&self.plain, compacted, self.plain.len())
    }
}

/// The sum of the first values.
fn until(sums: &[u64], count: usize) -> u64 {
    count.checked_sub(1).map_or(0, |last| sums[last])
}
