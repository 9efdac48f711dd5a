//! A board that all agents of a tree of runs share.

use std::collections::BTreeMap;

use ghostlight_actors::{
    run::{BeforeTool, OwnTool, Policy, PolicyContext},
    vocabulary::{
        AgentError, Effect, ModelRequest, ModelResponse, Scope, Timestamp, ToolCall, ToolDefinition,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Checked;

/// The name of the tool with which a model uses the board.
pub const BOARD: &str = "board";
/// Where the entries are in the state of the tree.
const KEY: &str = "board";
/// The most characters of a key.
const MAX_KEY: usize = 100;

/// Gives the agent the tool `board`: entries that all agents with this policy share in one tree of runs, under keys, from
/// the first run to the end of the last. As a policy of the team every agent has it.
///
/// An entry says who wrote it and when. With `below` only the writer and the agents that work for it see it. Once there
/// are `entries` of them, `when_full` decides; where two agents write one key, `conflicts` does. Each change is recorded
/// with its call.
///
/// ```yaml
/// policies: [{ name: board, entries: 50, conflicts: separate, when_full: evict }]
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Board {
    /// How many entries a tree has at most.
    pub entries: usize,
    /// How many characters of an entry are kept.
    pub characters: usize,
    /// The reaction to a new entry where there are that many.
    pub when_full: WhenFull,
    /// The reaction to a change of a key that another agent has written.
    pub conflicts: BoardConflicts,
    #[serde(skip, default = "own_tool")]
    tool: OwnTool,
}

/// The reaction to a new entry where there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// It is refused.
    #[default]
    Refuse,
    /// The entry that was written longest ago gives way.
    Evict,
}

/// The reaction to a change of a key that another writer has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BoardConflicts {
    /// The later writer counts, and is told what was there and by whom.
    #[default]
    Replace,
    /// The first writer keeps it.
    Refuse,
    /// Each writer has keys of its own, written `WRITER/KEY`.
    Separate,
}

/// An entry of a board.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BoardEntry {
    /// The value.
    pub value: String,
    /// The writer.
    pub by: String,
    /// When, if that is known.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub at: Timestamp,
    /// Below which agents it is seen: those whose path begins so. Empty for the whole tree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<String>,
}

fn is_unknown(at: &Timestamp) -> bool {
    at.0 == 0
}

impl BoardEntry {
    /// The entries of this writer, for the whole tree, without their times.
    pub fn new(value: impl Into<String>, by: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            by: by.into(),
            ..Self::default()
        }
    }

    fn is_seen_by(&self, path: &[String]) -> bool {
        path.starts_with(&self.below)
    }
}

/// The entries of a tree by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BoardEntries(pub BTreeMap<String, BoardEntry>);

/// The result of writing an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BoardWritten {
    /// It stands under this key; with the entry whose place it took, and the key of the one that gave way.
    Kept {
        /// The key.
        key: String,
        /// The value that stood there.
        before: Option<BoardEntry>,
        /// The entries that were evicted for it.
        evicted: Option<String>,
    },
    /// There is no room for it.
    Full,
    /// The key is another writer's.
    Taken(BoardEntry),
}

impl BoardEntries {
    /// Writes an entry of an agent at this path of the tree, by the rules of this board. What the agent does not see it does
    /// not replace.
    pub fn write(
        &mut self,
        key: &str,
        mut entry: BoardEntry,
        path: &[String],
        rules: &Board,
    ) -> BoardWritten {
        let key = match rules.conflicts {
            BoardConflicts::Separate => format!("{}/{key}", entry.by),
            _ => key.to_owned(),
        };
        entry.value = entry.value.chars().take(rules.characters).collect();
        let before = self.0.get(&key).cloned();
        if let Some(before) = &before
            && (!before.is_seen_by(path)
                || (rules.conflicts == BoardConflicts::Refuse && before.by != entry.by))
        {
            return BoardWritten::Taken(before.clone());
        }
        let mut evicted = None;
        if before.is_none() && self.0.len() >= rules.entries {
            let oldest = self.0.iter().min_by_key(|(key, entry)| (entry.at, *key));
            let oldest = oldest.map(|(key, _)| key.clone());
            match (rules.when_full, oldest) {
                (WhenFull::Evict, Some(oldest)) => {
                    self.0.remove(&oldest);
                    evicted = Some(oldest);
                }
                _ => return BoardWritten::Full,
            }
        }
        self.0.insert(key.clone(), entry);
        BoardWritten::Kept {
            key,
            before,
            evicted,
        }
    }

    /// The entries that an agent at this path of the tree sees, by their keys.
    pub fn seen_by(&self, path: &[String]) -> impl Iterator<Item = (&String, &BoardEntry)> {
        self.0
            .iter()
            .filter(move |(_, entry)| entry.is_seen_by(path))
    }
}

fn own_tool() -> OwnTool {
    let description = "A board that all who work on the whole task share. `write` puts up an entry under a key, `read` gives \
                       one or all, `keys` names them, `remove` takes down one of yours, `clear` all of yours.";
    let definition = ToolDefinition::new(BOARD, description);
    OwnTool::new(definition.parameters_of::<Use>().effect(Effect::Read))
}

impl Default for Board {
    fn default() -> Self {
        Self {
            entries: 100,
            characters: 2_000,
            when_full: WhenFull::default(),
            conflicts: BoardConflicts::default(),
            tool: own_tool(),
        }
    }
}

impl Board {
    /// Sets how many entries a tree has at most.
    #[must_use]
    pub fn entries(mut self, entries: usize) -> Self {
        self.entries = entries;
        self
    }

    /// Sets how many characters of an entry are kept.
    #[must_use]
    pub fn characters(mut self, characters: usize) -> Self {
        self.characters = characters;
        self
    }

    /// Sets what becomes of a new entry where there is no room.
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Sets what becomes of a key that another agent has written.
    #[must_use]
    pub fn conflicts(mut self, conflicts: BoardConflicts) -> Self {
        self.conflicts = conflicts;
        self
    }
}

impl Checked for Board {
    fn check(&self) -> Result<(), String> {
        match (self.entries, self.characters) {
            (1..=1_000, 1..=20_000) => Ok(()),
            (1..=1_000, _) => Err("characters: it is a number from 1 to 20000".to_owned()),
            _ => Err("entries: it is a number from 1 to 1000".to_owned()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Write,
    Read,
    Keys,
    Remove,
    Clear,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Use {
    action: Action,
    /// The key, for `write` and `remove`; one key alone for `read`.
    #[serde(default)]
    key: Option<String>,
    /// The value to write.
    #[serde(default)]
    value: Option<String>,
    /// Whether only you and those who work for you see it.
    #[serde(default)]
    below: bool,
}

impl Board {
    async fn used(
        &self,
        cx: &PolicyContext<'_>,
        call: Use,
    ) -> Result<Result<String, String>, AgentError> {
        let key = call
            .key
            .as_deref()
            .map(|key| ghostlight_safety::sanitize_line(key, MAX_KEY));
        let key = key.filter(|key| !key.is_empty());
        let (path, by) = (cx.start().path.clone(), cx.agent().name.to_string());
        let state = cx.state(Scope::Run);
        match (call.action, key) {
            (Action::Write, Some(key)) => {
                let Some(value) = call.value.filter(|value| !value.trim().is_empty()) else {
                    return Ok(Err("this needs `value`".to_owned()));
                };
                let mut entry = BoardEntry::new(value, by);
                entry.at = cx.now().await?;
                if call.below {
                    entry.below.clone_from(&path);
                }
                let before = state.get::<BoardEntries>(KEY).await?.unwrap_or_default();
                let (rules, written, name) = (self.clone(), entry.clone(), key.clone());
                let at = path.clone();
                let after = state.update(KEY, move |entries: Option<BoardEntries>| {
                    let mut entries = entries.unwrap_or_default();
                    entries.write(&name, written.clone(), &at, &rules);
                    entries
                });
                let (after, rules) = (after.await?, self);
                Ok(told((&before, &after), &path, &key, &entry, rules))
            }
            (Action::Write | Action::Remove, None) => Ok(Err("this needs `key`".to_owned())),
            (Action::Read, key) => {
                let entries = state.get::<BoardEntries>(KEY).await?.unwrap_or_default();
                let seen = entries.seen_by(&path);
                let wanted = seen.filter(|(name, _)| key.as_ref().is_none_or(|key| key == *name));
                let told = wanted.map(|(key, entry)| {
                    let entry =
                        json!({ "value": entry.value, "by": entry.by, "at_ms": entry.at.0 });
                    (key.clone(), entry)
                });
                Ok(Ok(json!(told.collect::<BTreeMap<_, _>>()).to_string()))
            }
            (Action::Keys, _) => {
                let entries = state.get::<BoardEntries>(KEY).await?.unwrap_or_default();
                let keys: Vec<&String> = entries.seen_by(&path).map(|(key, _)| key).collect();
                Ok(Ok(json!(keys).to_string()))
            }
            (Action::Remove | Action::Clear, key) => {
                let before = state.get::<BoardEntries>(KEY).await?.unwrap_or_default();
                let only = (call.action == Action::Remove).then_some(key).flatten();
                let after = state.update(KEY, move |entries: Option<BoardEntries>| {
                    let mut entries = entries.unwrap_or_default();
                    entries.0.retain(|key, entry| {
                        let is_mine = entry.by == by && entry.is_seen_by(&path);
                        !is_mine || only.as_ref().is_some_and(|only| only != key)
                    });
                    entries
                });
                let gone = before.0.len().saturating_sub(after.await?.0.len());
                Ok(match gone {
                    0 => Err("nothing of yours stands there".to_owned()),
                    gone => Ok(format!("{gone} taken down")),
                })
            }
        }
    }
}

/// The answer to a writer: by the value that stands there now, since others may have written at the same time.
fn told(
    (before, after): (&BoardEntries, &BoardEntries),
    path: &[String],
    key: &str,
    entry: &BoardEntry,
    rules: &Board,
) -> Result<String, String> {
    let key = match rules.conflicts {
        BoardConflicts::Separate => format!("{}/{key}", entry.by),
        _ => key.to_owned(),
    };
    match after.0.get(&key) {
        None => Err(format!(
            "the board is full: it holds {} entries",
            rules.entries
        )),
        Some(there) if there.by != entry.by || there.at != entry.at => {
            Err(format!("{key} is of {}; take another key", there.by))
        }
        Some(_) => Ok(match before.0.get(&key) {
            Some(other) if other.by != entry.by => format!(
                "written as {key}; it replaces {:?} of {}",
                other.value, other.by
            ),
            _ => match before
                .seen_by(path)
                .find(|(key, _)| !after.0.contains_key(*key))
            {
                Some((evicted, _)) => format!("written as {key}; {evicted} gave way"),
                None => format!("written as {key}"),
            },
        }),
    }
}

impl Policy for Board {
    fn tools(&self) -> Vec<String> {
        vec![self.tool.name()]
    }

    async fn before_model(
        &mut self,
        _cx: &PolicyContext<'_>,
        request: &mut ModelRequest,
    ) -> Result<Option<ModelResponse>, AgentError> {
        self.tool.offer(request);
        Ok(None)
    }

    async fn before_tool(
        &mut self,
        cx: &PolicyContext<'_>,
        call: &ToolCall,
    ) -> Result<BeforeTool, AgentError> {
        if call.name != BOARD {
            return Ok(BeforeTool::Go);
        }
        let asked = match call.arguments.parse::<Use>() {
            Ok(asked) => asked,
            Err(reason) => return Ok(BeforeTool::failed(call, format!("Not done: {reason}."))),
        };
        Ok(match self.used(cx, asked).await? {
            Ok(told) => BeforeTool::done(call, told),
            Err(why) => BeforeTool::failed(call, format!("Not done: {why}.")),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn entry(value: &str, by: &str, at: u64) -> BoardEntry {
        BoardEntry {
            at: Timestamp(at),
            ..BoardEntry::new(value, by)
        }
    }

    fn board(conflicts: BoardConflicts, when_full: WhenFull) -> Board {
        Board {
            entries: 2,
            characters: 4,
            when_full,
            conflicts,
            ..Board::default()
        }
    }

    #[test]
    fn two_writers_of_one_key_meet_by_the_rule_of_the_board() {
        let written = |conflicts| {
            let rules = board(conflicts, WhenFull::Refuse);
            let mut entries = BoardEntries::default();
            entries.write("k", entry("first", "ada", 1), &[], &rules);
            let became = entries.write("k", entry("second", "bob", 2), &[], &rules);
            let values = entries
                .0
                .into_iter()
                .map(|(key, entry)| format!("{key}={}", entry.value));
            (became, values.collect::<Vec<_>>())
        };
        let (became, values) = written(BoardConflicts::Replace);
        assert!(
            matches!(became, BoardWritten::Kept { before: Some(before), .. } if before.by == "ada")
        );
        assert_eq!(values, ["k=seco"]);
        let (became, values) = written(BoardConflicts::Refuse);
        assert!(matches!(became, BoardWritten::Taken(_)));
        assert_eq!(values, ["k=firs"]);
        let (_, values) = written(BoardConflicts::Separate);
        assert_eq!(values, ["ada/k=firs", "bob/k=seco"]);
    }

    #[test]
    fn a_full_board_refuses_or_evicts_the_oldest() {
        for (when_full, kept) in [
            (WhenFull::Refuse, ["a", "b"]),
            (WhenFull::Evict, ["a", "c"]),
        ] {
            let rules = board(BoardConflicts::Replace, when_full);
            let mut entries = BoardEntries::default();
            entries.write("b", entry("x", "ada", 1), &[], &rules);
            entries.write("a", entry("x", "ada", 2), &[], &rules);
            entries.write("c", entry("x", "ada", 3), &[], &rules);
            assert_eq!(entries.0.keys().collect::<Vec<_>>(), kept);
            // What is there already is written whatever else stands there.
            entries.write("a", entry("y", "bob", 4), &[], &rules);
            assert_eq!(entries.0["a"].value, "y");
        }
    }

    #[test]
    fn an_entry_for_those_below_is_seen_by_them_alone() {
        let path = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let mut entries = BoardEntries::default();
        let mut below = entry("x", "boss", 1);
        below.below = path(&["root", "boss"]);
        entries.write("k", below, &[], &Board::default());
        let sees = |names: &[&str]| entries.seen_by(&path(names)).count() == 1;
        assert!(sees(&["root", "boss"]) && sees(&["root", "boss", "clerk"]));
        assert!(!sees(&["root"]) && !sees(&["root", "other"]));
    }

    #[test]
    fn an_entry_that_a_writer_does_not_see_stays_and_is_not_told() {
        let path = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let mut entries = BoardEntries::default();
        let mut secret = entry("the code is 4711", "researcher", 1);
        secret.below = path(&["boss", "researcher"]);
        let rules = Board::default();
        entries.write("plan", secret, &path(&["boss", "researcher"]), &rules);
        let before = entries.clone();
        let public = entry("count lamps", "clerk", 2);
        let at = path(&["boss", "clerk"]);
        let became = entries.write("plan", public.clone(), &at, &rules);
        assert!(matches!(became, BoardWritten::Taken(_)), "{became:?}");
        assert_eq!(entries, before);
        let told = told((&before, &entries), &at, "plan", &public, &rules).unwrap_err();
        assert!(!told.contains("4711"), "{told}");
    }
}
