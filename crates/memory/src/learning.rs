//! Learnings, which are cited where they are used, and credited or blamed by the result.

use std::{collections::BTreeSet, sync::Arc};

use ghostlight_actors::run::Performing;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Detail, MemoryItem, MemoryKind, MemoryOperation, MemoryScope, SAME, ScopedMemory,
    draft::Draft,
    item::clean_line,
    items::Name,
    scoring::{jaccard, success_rate},
    view::Kept,
};

/// How many characters of a learning are kept.
pub(crate) const CONTENT: usize = 500;
/// The number of uses from which on a learning that seldom helps is removed.
const TRIED: u64 = 5;
/// The success rate that it needs from then on.
const HELPS: f64 = 0.3;
/// The most characters of all learnings together: 80,000 tokens of four characters.
const ALL: usize = 320_000;
/// How many citations of one text are read.
const CITATIONS: usize = 256;

/// A learning; its text is the content of its item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Learning {
    /// Its code in its scope, which no other learning there gets, also when it was removed: `L001`. A model is shown it
    /// with a letter for the scope, so that those of several scopes differ: `LS001` of a session, `LN001` of a tenant and
    /// `LT001` of the team.
    pub code: String,
    /// Its category.
    pub category: LearningCategory,
    /// How many times it was cited in work that succeeded.
    pub helpful: u64,
    /// How many times it was cited in work that failed.
    pub harmful: u64,
}

impl Learning {
    /// The share of citations that helped; 0.5 without any.
    pub fn success_rate(&self) -> f64 {
        success_rate(self.helpful, self.harmful)
    }

    /// The letter and the number of its code.
    pub(crate) fn numbered(&self) -> Option<(&str, u64)> {
        let (letter, number) = self.code.split_at_checked(1)?;
        Some((letter, number.parse().ok()?))
    }

    /// The code by which a model cites it.
    pub(crate) fn cited_as(&self, scope: MemoryScope) -> String {
        match self.code.split_at_checked(1) {
            Some((letter, number)) => format!("{letter}{}{number}", scope_letter(scope)),
            None => self.code.clone(),
        }
    }

    /// Whether it was cited often enough to tell that it does not help.
    fn is_useless(&self) -> bool {
        self.helpful.saturating_add(self.harmful) >= TRIED && self.success_rate() < HELPS
    }
}

/// The quality below which partial work counts as failed.
const PARTLY: f64 = 0.5;

/// Whether what was cited in work helped: `None` where that cannot be told, because the work is partial and well done.
/// Work that stopped before its end, with something to show, is partial; its `quality` is that of
/// [`scoring::quality`](crate::scoring::quality).
pub(crate) fn helped(succeeded: bool, is_partial: bool, quality: f64) -> Option<bool> {
    match (succeeded, is_partial && quality >= PARTLY) {
        (true, _) => Some(true),
        (false, true) => None,
        (false, false) => Some(false),
    }
}

/// The kind of a learning.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LearningCategory {
    /// It works. Its code begins with `L`.
    #[default]
    Strategies,
    /// It does not work. Its code begins with `M`.
    Mistakes,
    /// How things are done here. Its codes begin with `P`.
    Patterns,
}

impl LearningCategory {
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Strategies => 'L',
            Self::Mistakes => 'M',
            Self::Patterns => 'P',
        }
    }
}

/// The letter of a scope in the codes that a model is shown; a user's learnings have none.
fn scope_letter(scope: MemoryScope) -> &'static str {
    match scope {
        MemoryScope::Run => "R",
        MemoryScope::Session => "S",
        MemoryScope::User => "",
        MemoryScope::Tenant => "N",
        MemoryScope::Team => "T",
    }
}

/// The scope of a code that a model cites, and the code there.
pub(crate) fn of_scope(cited: &str) -> Option<(MemoryScope, String)> {
    let (letter, rest) = cited.split_at_checked(1)?;
    let (scope, number) = match rest.split_at_checked(1)? {
        ("R", number) => (MemoryScope::Run, number),
        ("S", number) => (MemoryScope::Session, number),
        ("N", number) => (MemoryScope::Tenant, number),
        ("T", number) => (MemoryScope::Team, number),
        _ => (MemoryScope::User, rest),
    };
    Some((scope, format!("{letter}{number}")))
}

/// The codes that a text cites: `[L001]`, each once.
pub fn citations(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in text.split('[').skip(1) {
        let Some((inside, _)) = part.split_once(']') else {
            continue;
        };
        for code in inside.split(',').map(str::trim) {
            let number = code.strip_prefix(['L', 'M', 'P']).unwrap_or_default();
            let number = number.strip_prefix(['R', 'S', 'N', 'T']).unwrap_or(number);
            let is_code =
                (3..=9).contains(&number.len()) && number.chars().all(|c| c.is_ascii_digit());
            if is_code && found.len() < CITATIONS {
                found.insert(code.to_owned());
            }
        }
    }
    found
}

pub(crate) fn learning_of(item: &MemoryItem) -> Option<&Learning> {
    match &item.detail {
        Some(Detail::Learning(learning)) => Some(learning),
        _ => None,
    }
}

/// Stores a learning, or credits the one that says the same.
pub(crate) fn keep(
    draft: &mut Draft,
    category: LearningCategory,
    content: &str,
) -> Option<(MemoryItem, bool)> {
    let content = clean_line(content, CONTENT);
    if content.is_empty() {
        return None;
    }
    let mut item = draft.item(MemoryKind::Learning, content);
    let new = Kept::new(item.clone());
    let same = |kept: &&Arc<Kept>| {
        let of_category = learning_of(&kept.item).is_some_and(|known| known.category == category);
        let same_text = kept.item.content == new.item.content;
        of_category && (same_text || jaccard(&kept.terms, &new.terms) >= SAME)
    };
    let same = draft.view().kept.in_like_words(&new).find(same).cloned();
    if let Some(kept) = same {
        let mut item = kept.item.clone();
        if let Some(Detail::Learning(learning)) = &mut item.detail {
            learning.helpful += 1;
        }
        draft.put(item.clone());
        return Some((item, true));
    }
    item.detail = Some(Detail::Learning(Learning {
        code: fresh_code(draft, category),
        category,
        helpful: 0,
        harmful: 0,
    }));
    draft.put(item.clone());
    draft.make_room(&item.id);
    stay_within(draft, ALL);
    Some((item, false))
}

/// A code that no learning of the scope has or had.
fn fresh_code(draft: &Draft, category: LearningCategory) -> String {
    let letter = category.letter().to_string();
    let known = draft.view().named(&Name::Kind(MemoryKind::Learning));
    let numbers = known.filter_map(|item| {
        let (of, number) = learning_of(item)?.numbered()?;
        (of == letter).then_some(number)
    });
    let highest = numbers.max().unwrap_or(0).max(draft.mark(&letter));
    format!("{letter}{:03}", highest.saturating_add(1))
}

/// Gives an imported learning a code of its own, where another one has its code.
pub(crate) fn recoded(draft: &Draft, item: &mut MemoryItem) {
    let known = draft.view().named(&Name::Kind(MemoryKind::Learning));
    let mut others = known.filter(|other| other.id != item.id);
    let Some(Detail::Learning(learning)) = &mut item.detail else {
        return;
    };
    if others.any(|other| learning_of(other).is_some_and(|other| other.code == learning.code)) {
        learning.code = fresh_code(draft, learning.category);
    }
}

/// Removes the least helpful learnings until all together have at most this many characters.
fn stay_within(draft: &mut Draft, most: usize) {
    let mut rated: Vec<(f64, String, usize)> = draft
        .view()
        .named(&Name::Kind(MemoryKind::Learning))
        .filter(|item| !item.pinned)
        .filter_map(|item| {
            let rate = learning_of(item)?.success_rate();
            Some((rate, item.id.clone(), item.content.chars().count()))
        })
        .collect();
    let mut characters: usize = rated.iter().map(|(.., length)| length).sum();
    rated.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    for (_, id, length) in rated {
        if characters <= most {
            break;
        }
        draft.remove(&id);
        characters -= length;
    }
}

/// The effect of crediting or blaming the learnings that a text cites.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Credited {
    /// The codes that were credited or blamed.
    pub cited: Vec<String>,
    /// The codes of those that were removed, because they help too seldom.
    pub pruned: Vec<String>,
}

/// Credits or blames the learnings that a text cites, each once. One that helps too seldom is removed if `prunes`.
pub(crate) fn credit(draft: &mut Draft, text: &str, succeeded: bool, prunes: bool) -> Credited {
    let codes = citations(text);
    let cited = |item: &&MemoryItem| {
        learning_of(item).is_some_and(|learning| codes.contains(&learning.code))
    };
    let known = draft.view().named(&Name::Kind(MemoryKind::Learning));
    let found: Vec<MemoryItem> = known.filter(cited).cloned().collect();
    let mut credited = Credited::default();
    for mut item in found {
        let Some(Detail::Learning(learning)) = &mut item.detail else {
            continue;
        };
        match succeeded {
            true => learning.helpful += 1,
            false => learning.harmful += 1,
        }
        let (code, useless) = (learning.code.clone(), learning.is_useless());
        credited.cited.push(code.clone());
        if prunes && useless && !item.pinned {
            draft.remove(&item.id);
            credited.pruned.push(code);
        } else {
            draft.put(item);
        }
    }
    credited
}

impl ScopedMemory<'_> {
    /// Stores a learning, or credits the one that says the same. `None` if it is empty.
    pub fn add_learning(
        &self,
        category: LearningCategory,
        content: impl Into<String>,
    ) -> Performing<MemoryOperation<Option<MemoryItem>>> {
        let (content, memory) = (content.into(), self.memory.clone());
        let texts = vec![clean_line(&content, CONTENT)];
        let input = (category, &content.clone());
        self.perform(
            "memory_add_learning",
            &input,
            texts,
            move |draft, vectors| {
                let kept = keep(draft, category, &content);
                if let Some((item, false)) = &kept {
                    memory.put_vector(draft, &item.id, vectors.first());
                }
                Ok(kept.map(|(item, _)| item))
            },
        )
    }

    /// Credits the learnings of this scope that a text cites if the work succeeded, and blames them if it failed. A
    /// learning with at least 5 citations that helped in less than 3 of 10 is removed, unless it is pinned or of a scope
    /// that several people share: there one person's failures would take it from all.
    pub fn credit(
        &self,
        text: impl Into<String>,
        succeeded: bool,
    ) -> Performing<MemoryOperation<Credited>> {
        let codes: Vec<String> = citations(&text.into()).into_iter().collect();
        let text: String = codes.iter().map(|code| format!("[{code}]")).collect();
        let prunes = !matches!(self.scope, MemoryScope::Tenant | MemoryScope::Team);
        self.perform(
            "memory_credit",
            &(&codes, succeeded),
            Vec::new(),
            move |draft, _| Ok(credit(draft, &text, succeeded, prunes)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_work_blames_only_where_it_was_done_badly() {
        let of =
            |steps, tools, error_free| crate::scoring::quality(false, steps, tools, error_free);
        assert_eq!(helped(true, false, 0.0), Some(true));
        assert_eq!(helped(false, false, 1.0), Some(false));
        assert_eq!(helped(false, true, of(4, 1.0, true)), None);
        assert_eq!(helped(false, true, of(15, 0.5, false)), Some(false));
    }

    #[test]
    fn only_whole_codes_in_brackets_are_citations() {
        let text = "By [L001] and [M12345, P007], not [L1], [X001], [L001x], L002, [L003 or [L0010";
        let found: Vec<String> = citations(text).into_iter().collect();
        assert_eq!(found, ["L001", "M12345", "P007"]);
        let found = citations("By [LS001, MT002], not [LX001], [SL001] or [LST001]");
        let found: Vec<_> = found.iter().filter_map(|code| of_scope(code)).collect();
        assert_eq!(
            found,
            [
                (MemoryScope::Session, "L001".to_owned()),
                (MemoryScope::Team, "M002".to_owned())
            ]
        );
        assert!(citations(&"[".repeat(100_000)).is_empty());
        assert!(citations("[é01] [] [L]").is_empty());
    }
}
