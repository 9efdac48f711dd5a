//! Episodes: work on goals, and people's reactions to it.

use std::{collections::BTreeMap, time::Duration};

use ghostlight_actors::{
    run::Performing,
    vocabulary::{ErrorKind, OperationError, RunId, Timestamp},
};
use serde::{Deserialize, Serialize};

use crate::{
    Detail, MemoryItem, MemoryKind, MemoryOperation, ScopedMemory,
    draft::Draft,
    item::{clean, clean_line},
    items::Name,
};

/// How many characters of a goal are kept.
const GOAL: usize = 500;
/// How many characters of a trajectory are kept.
pub(crate) const TRAJECTORY: usize = 16_000;
/// How many characters of a reflection are kept.
const REFLECTION: usize = 1_000;
/// How many characters of a message's id and of its sender's key are kept.
const KEY: usize = 200;
/// How many different reactions to one message are kept.
const REACTIONS: usize = 32;

/// The tag of work that somebody has confirmed: `tag:accomplishment` finds it.
pub const ACCOMPLISHMENT: &str = "accomplishment";
/// How long people can react to a message by default.
pub const REACTION_TIME: Duration = Duration::from_secs(3600);

/// Work on a goal: the actions and their result. The goal is the content of its item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Episode {
    /// The actions, step by step.
    pub trajectory: String,
    /// The result.
    pub status: EpisodeStatus,
    /// The lesson of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reflection: Option<String>,
    /// The message that told people of its result, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
}

/// The result of work on a goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EpisodeStatus {
    /// The goal was reached.
    Success,
    /// The goal was not reached.
    Failure,
    /// It was divided into sub-goals.
    Expand,
    /// It is not known yet whether the goal was reached.
    #[default]
    Pending,
}

impl EpisodeStatus {
    /// The status in words for a model.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Success => "succeeded",
            Self::Failure => "FAILED: do not do it in this way",
            Self::Expand => "was divided into sub-goals",
            Self::Pending => "is NOT CONFIRMED by anybody: no proof that it works",
        }
    }
}

/// A message to people, with their reactions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sent {
    /// The message's id on its platform.
    pub message: String,
    /// The receiver: platform, person and channel. Reactions of others do not count.
    pub sender: String,
    /// The time until which reactions count.
    pub until: Timestamp,
    /// The current reactions, each with whether it is a good one.
    pub reactions: BTreeMap<String, bool>,
}

/// A reaction of a person to a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reaction {
    /// The message's id.
    pub message: String,
    /// The person who reacts: platform, person and channel.
    pub sender: String,
    /// The emoji.
    pub emoji: String,
    /// Whether it was taken back.
    pub removed: bool,
}

impl Reaction {
    /// A reaction of this sender to this message.
    pub fn new(
        message: impl Into<String>,
        sender: impl Into<String>,
        emoji: impl Into<String>,
    ) -> Self {
        Self {
            message: message.into(),
            sender: sender.into(),
            emoji: emoji.into(),
            removed: false,
        }
    }

    /// The same reaction, withdrawn.
    #[must_use]
    pub fn removed(mut self) -> Self {
        self.removed = true;
        self
    }
}

/// The effect of a reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reacted {
    /// The reaction counts, and this is now the episode's status.
    Counted(EpisodeStatus),
    /// The emoji is neither good nor bad.
    Neutral,
    /// No message with this id waits for reactions: it is unknown, or its time is over.
    Unknown,
    /// The message went to somebody else.
    Foreign,
}

/// Whether an emoji is good or bad, in any skin tone and presentation; `None` if it is neither.
pub fn judged(emoji: &str) -> Option<bool> {
    match normalized(emoji).as_str() {
        "👍" | "❤" | "🔥" | "👏" | "🎉" | "💯" => Some(true),
        "👎" => Some(false),
        _ => None,
    }
}

/// An emoji without skin tones and variation selectors.
fn normalized(emoji: &str) -> String {
    let is_variant = |c: &char| matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}');
    emoji
        .trim()
        .chars()
        .filter(|c| !is_variant(c))
        .take(16)
        .collect()
}

impl Episode {
    /// An episode with this trajectory and status.
    pub fn new(trajectory: impl Into<String>, status: EpisodeStatus) -> Self {
        let trajectory = trajectory.into();
        Self {
            trajectory,
            status,
            ..Self::default()
        }
    }

    /// Adds the lesson of it.
    #[must_use]
    pub fn reflection(mut self, reflection: impl Into<String>) -> Self {
        self.reflection = Some(reflection.into());
        self
    }

    fn clean(mut self) -> Self {
        self.trajectory = clean(&self.trajectory, TRAJECTORY);
        self.reflection = self.reflection.map(|text| clean(&text, REFLECTION));
        self
    }
}

/// Stores an episode, and makes room for it.
pub(crate) fn keep(draft: &mut Draft, goal: &str, episode: Episode, importance: f64) -> MemoryItem {
    let goal = clean(goal, GOAL);
    let mut item = draft.item(MemoryKind::Episodic, goal);
    item.importance = crate::item::share(importance, 0.5);
    item.detail = Some(Detail::Episode(episode.clean()));
    draft.put(item.clone());
    draft.make_room(&item.id);
    item
}

/// The message that told people of the result of an episode or a task, if there was one.
fn told(item: &MemoryItem) -> Option<&Sent> {
    match &item.detail {
        Some(Detail::Episode(episode)) => episode.sent.as_ref(),
        Some(Detail::Task(task)) => task.sent.as_ref(),
        _ => None,
    }
}

/// Records the message in which the results of a run were sent. Returns how many episodes wait for reactions, or how
/// many tasks where there is no episode.
pub(crate) fn sent(
    draft: &mut Draft,
    run: RunId,
    message: &str,
    sender: &str,
    time: Duration,
) -> usize {
    let told = Sent {
        message: clean_line(message, KEY),
        sender: clean_line(sender, KEY),
        until: draft.now.after(time),
        reactions: BTreeMap::new(),
    };
    let of_run: Vec<MemoryItem> = draft.view().named(&Name::Run(run)).cloned().collect();
    let (mut episodes, mut tasks) = (0, 0);
    for mut item in of_run {
        match &mut item.detail {
            Some(Detail::Episode(episode)) if episode.status == EpisodeStatus::Pending => {
                episode.sent = Some(told.clone());
                episodes += 1;
            }
            Some(Detail::Task(task)) if task.is_correct && !task.is_checked => {
                task.sent = Some(told.clone());
                tasks += 1;
            }
            _ => continue,
        }
        draft.put(item);
    }
    if episodes == 0 { tasks } else { episodes }
}

/// Sets what people say of a result. What nobody says anything of any more is unchecked again.
fn settle(item: &mut MemoryItem, status: EpisodeStatus) {
    match &mut item.detail {
        Some(Detail::Episode(episode)) => episode.status = status,
        Some(Detail::Task(task)) => {
            task.is_correct = status != EpisodeStatus::Failure;
            task.is_checked = status != EpisodeStatus::Pending;
        }
        _ => return,
    }
    match status {
        EpisodeStatus::Success => item.tags.insert(ACCOMPLISHMENT.to_owned()),
        _ => item.tags.remove(ACCOMPLISHMENT),
    };
}

/// Counts a reaction to a message. The majority of its current reactions decides the result of the message's episodes
/// and tasks.
pub(crate) fn react(draft: &mut Draft, reaction: &Reaction) -> Reacted {
    let (message, sender) = (
        clean_line(&reaction.message, KEY),
        clean_line(&reaction.sender, KEY),
    );
    let now = draft.now;
    let waits = |item: &&MemoryItem| told(item).is_some_and(|sent| sent.until > now);
    let sent = draft.view().named(&Name::Message(message));
    let found: Vec<MemoryItem> = sent.filter(waits).cloned().collect();
    if found.is_empty() {
        return Reacted::Unknown;
    }
    let Some(is_good) = judged(&reaction.emoji) else {
        return Reacted::Neutral;
    };
    let mut became = Reacted::Foreign;
    for mut item in found {
        let sent = match &mut item.detail {
            Some(Detail::Episode(episode)) => episode.sent.as_mut(),
            Some(Detail::Task(task)) => task.sent.as_mut(),
            _ => None,
        };
        let Some(told) = sent.filter(|told| told.sender == sender) else {
            continue;
        };
        let emoji = normalized(&reaction.emoji);
        if reaction.removed {
            told.reactions.remove(&emoji);
        } else if told.reactions.len() < REACTIONS {
            told.reactions.insert(emoji, is_good);
        }
        let good = told.reactions.values().filter(|good| **good).count();
        let bad = told.reactions.len() - good;
        let status = match good.cmp(&bad) {
            std::cmp::Ordering::Greater => EpisodeStatus::Success,
            std::cmp::Ordering::Less => EpisodeStatus::Failure,
            std::cmp::Ordering::Equal => EpisodeStatus::Pending,
        };
        settle(&mut item, status);
        became = Reacted::Counted(status);
        draft.put(item);
    }
    became
}

impl ScopedMemory<'_> {
    /// Stores an episode. `importance` is 0 to 1, and 0.5 without a rating.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an empty goal.
    pub fn add_episode(
        &self,
        goal: impl Into<String>,
        episode: Episode,
        importance: f64,
    ) -> Performing<MemoryOperation<MemoryItem>> {
        let (goal, memory) = (clean(&goal.into(), GOAL), self.memory.clone());
        let input = (&goal.clone(), &episode.clone(), importance.to_bits());
        self.perform(
            "memory_add_episode",
            &input,
            vec![goal.clone()],
            move |draft, vectors| {
                if goal.is_empty() {
                    let message = "an episode needs a goal";
                    return Err(OperationError::new(ErrorKind::InvalidInput, message));
                }
                let item = keep(draft, &goal, episode.clone(), importance);
                memory.put_vector(draft, &item.id, vectors.first());
                Ok(item)
            },
        )
    }

    /// Sets the status of a pending episode, or adds the lesson of it. The tasks of its run change with it.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such episode.
    pub fn judge_episode(
        &self,
        id: impl Into<String>,
        status: EpisodeStatus,
        reflection: Option<String>,
    ) -> Performing<MemoryOperation<MemoryItem>> {
        let id = id.into();
        let input = (&id.clone(), status, &reflection.clone());
        self.perform(
            "memory_judge_episode",
            &input,
            Vec::new(),
            move |draft, _| {
                let found = draft.view().get(&id).cloned();
                let mut item = found.ok_or_else(|| crate::editing::not_found(&id))?;
                let Some(Detail::Episode(episode)) = &mut item.detail else {
                    let message = format!("the memory {id:?} is not an episode");
                    return Err(OperationError::new(ErrorKind::InvalidInput, message));
                };
                if let Some(reflection) = &reflection {
                    episode.reflection = Some(clean(reflection, REFLECTION));
                }
                settle(&mut item, status);
                draft.put(item.clone());
                let run = item.source.as_ref().map(|source| source.run);
                let is_judged = matches!(status, EpisodeStatus::Success | EpisodeStatus::Failure);
                if let Some(run) = run.filter(|_| is_judged) {
                    let of_run = draft.view().named(&Name::Run(run)).cloned();
                    let tasks = of_run.filter(|item| item.kind == MemoryKind::Task);
                    for mut task in tasks.collect::<Vec<_>>() {
                        settle(&mut task, status);
                        draft.put(task);
                    }
                }
                Ok(item)
            },
        )
    }

    /// Records that the result of this run was sent to a person in this message. For this long that person's reactions
    /// to it confirm or refute the run's pending episodes and its unchecked tasks. Returns the number of these episodes,
    /// or of the tasks where there is no episode.
    pub fn sent(
        &self,
        message: impl Into<String>,
        sender: impl Into<String>,
        time: Duration,
    ) -> Performing<MemoryOperation<usize>> {
        let (message, sender, run) = (message.into(), sender.into(), self.cx.run());
        let input = (&message.clone(), &sender.clone(), time.as_millis() as u64);
        self.perform("memory_sent", &input, Vec::new(), move |draft, _| {
            Ok(sent(draft, run, &message, &sender, time))
        })
    }

    /// Counts a reaction to a message: see [`Reaction`].
    pub fn react(&self, reaction: Reaction) -> Performing<MemoryOperation<Reacted>> {
        self.perform(
            "memory_react",
            &reaction.clone(),
            Vec::new(),
            move |draft, _| Ok(react(draft, &reaction)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emoji_says_the_same_in_every_skin_and_presentation() {
        for yes in ["👍", "👍🏽", "👍🏿", "❤️", "❤", " 🔥 ", "👏🏻", "🎉", "💯"]
        {
            assert_eq!(judged(yes), Some(true), "{yes}");
        }
        assert_eq!(judged("👎🏼"), Some(false));
        for neither in ["🤔", "", "ok", "👀", "👍👎"] {
            assert_eq!(judged(neither), None, "{neither}");
        }
    }
}
