//! What the nodes of a tree share, and what they leave for later.

use std::collections::{BTreeMap, BTreeSet};

use ghostlight_actors::{
    run::{RunContext, operations::Scope},
    vocabulary::AgentError,
};
use serde::{Deserialize, Serialize};

/// The key of the notes in the run's working memory.
const NOTES: &str = "reactree.notes";
/// The key of the episodes in the session's state.
const EPISODES: &str = "reactree.episodes";
/// How many episodes a session keeps; the oldest go first.
const MOST_EPISODES: usize = 100;
/// How many notes a tree keeps; beyond it new keys are refused.
const MOST_NOTES: usize = 100;
/// How many characters of a note or a result are kept.
const MOST_CHARACTERS: usize = 2_000;

/// A note of the working memory, and whose it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) value: String,
    /// The goal of the node that wrote it.
    pub(super) by: String,
}

type Notes = BTreeMap<String, Note>;

/// What came of work on a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Episode {
    pub(super) goal: String,
    pub(super) reached: bool,
    /// The tools that were called, in their order.
    pub(super) acts: Vec<String>,
    pub(super) result: String,
}

fn cut(text: &str) -> String {
    text.chars().take(MOST_CHARACTERS).collect()
}

/// All notes.
pub(super) async fn notes(cx: &RunContext) -> Result<Notes, AgentError> {
    Ok(cx.memory().get::<Notes>(NOTES).await?.unwrap_or_default())
}

/// Writes a note; of two writers the later one counts, and is told whose note it replaced.
pub(super) async fn remember(
    cx: &RunContext,
    key: &str,
    value: &str,
    by: &str,
) -> Result<String, AgentError> {
    let before = notes(cx).await?.remove(key);
    let (written, note) = (
        key.to_owned(),
        Note {
            value: cut(value),
            by: by.to_owned(),
        },
    );
    let after = cx.memory().update(NOTES, move |notes: Option<Notes>| {
        let mut notes = notes.unwrap_or_default();
        if notes.len() < MOST_NOTES || notes.contains_key(&written) {
            notes.insert(written.clone(), note.clone());
        }
        notes
    });
    if !after.await?.contains_key(key) {
        return Ok(format!("not kept: there are {MOST_NOTES} notes already"));
    }
    Ok(match before {
        Some(before) if before.by != by => format!(
            "kept; it replaces {:?}, which was noted by who works on {:?}",
            before.value, before.by
        ),
        _ => "kept".to_owned(),
    })
}

/// Keeps what came of work on a goal.
pub(super) async fn keep(cx: &RunContext, mut episode: Episode) -> Result<(), AgentError> {
    episode.result = cut(&episode.result);
    let kept = cx
        .state(Scope::Session)
        .update(EPISODES, move |episodes: Option<Vec<Episode>>| {
            let mut episodes = episodes.unwrap_or_default();
            episodes.push(episode.clone());
            let beyond = episodes.len().saturating_sub(MOST_EPISODES);
            episodes.drain(..beyond);
            episodes
        });
    kept.await.map(drop)
}

/// The episodes whose goals are most like this one, the best first.
pub(super) async fn alike(
    cx: &RunContext,
    goal: &str,
    most: u32,
) -> Result<Vec<Episode>, AgentError> {
    if most == 0 {
        return Ok(Vec::new());
    }
    let kept = cx
        .state(Scope::Session)
        .get::<Vec<Episode>>(EPISODES)
        .await?;
    Ok(most_alike(kept.unwrap_or_default(), goal, most as usize))
}

fn most_alike(episodes: Vec<Episode>, goal: &str, most: usize) -> Vec<Episode> {
    let wanted = words(goal);
    let mut rated: Vec<(usize, Episode)> = episodes
        .into_iter()
        .filter_map(|episode| {
            let own = words(&episode.goal);
            let shared = own.intersection(&wanted).count();
            // Jaccard's index in parts of 1000, so that it has an order.
            let rate = 1_000 * shared / (own.len() + wanted.len() - shared).max(1);
            (rate > 0).then_some((rate, episode))
        })
        .collect();
    // The sort is stable: of equals the later one goes first.
    rated.reverse();
    rated.sort_by_key(|(rate, _)| std::cmp::Reverse(*rate));
    rated
        .into_iter()
        .take(most)
        .map(|(_, episode)| episode)
        .collect()
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_alike_by_the_words_that_they_share() {
        let episode = |goal: &str| Episode {
            goal: goal.to_owned(),
            reached: true,
            acts: Vec::new(),
            result: String::new(),
        };
        let kept = [
            "find the mug",
            "wash a plate",
            "Find a clean MUG",
            "find the mug",
        ];
        let kept = kept.map(episode).to_vec();
        let found = most_alike(kept, "find the mug", 3);
        let found: Vec<&str> = found.iter().map(|episode| episode.goal.as_str()).collect();
        assert_eq!(found, ["find the mug", "find the mug", "Find a clean MUG"]);
    }
}
