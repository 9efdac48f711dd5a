//! Learnings as Markdown, for people who read and edit them.

use ghostlight_actors::vocabulary::Timestamp;

use crate::{
    Detail, Learning, LearningCategory, MemoryItem, MemoryKind,
    item::clean_line,
    learning::{CONTENT, learning_of},
};

/// A line that is not a learning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line} is not a learning: write `[L001] helpful=2 harmful=0 :: text` below `## STRATEGIES`, `## MISTAKES` or \
     `## PATTERNS`"
)]
#[non_exhaustive]
pub struct MarkdownError {
    /// The number of the line, from 1.
    pub line: usize,
}

ghostlight_actors::parts_of_system_error!(MarkdownError);

const HEADINGS: [(LearningCategory, &str); 3] = [
    (LearningCategory::Strategies, "STRATEGIES"),
    (LearningCategory::Mistakes, "MISTAKES"),
    (LearningCategory::Patterns, "PATTERNS"),
];

/// The learnings among these items: a heading for each category, and a line for each learning with its code and how often
/// it helped and did not.
pub fn learnings_to_markdown(items: &[MemoryItem]) -> String {
    let mut text = String::new();
    for (category, heading) in HEADINGS {
        let of_category = items.iter().filter_map(|item| {
            let learning = learning_of(item)?;
            (learning.category == category).then_some((learning, &item.content))
        });
        let mut of_category: Vec<_> = of_category.collect();
        if of_category.is_empty() {
            continue;
        }
        of_category.sort_by_key(|(learning, _)| learning.numbered().map(|(_, number)| number));
        let gap = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!("{gap}## {heading}\n\n"));
        for (learning, content) in of_category {
            let Learning {
                code,
                helpful,
                harmful,
                ..
            } = learning;
            let content = clean_line(content, CONTENT);
            text.push_str(&format!(
                "[{code}] helpful={helpful} harmful={harmful} :: {content}\n"
            ));
        }
    }
    text
}

/// The items that such a text stands for. A learning whose code one of the known items has is that item, with what the text
/// says of it; any other is a new item. Blank lines, and lines before the first heading, say nothing.
///
/// # Errors
/// The first line that cannot be read.
pub fn learnings_from_markdown(
    text: &str,
    known: &[MemoryItem],
    now: Timestamp,
) -> Result<Vec<MemoryItem>, MarkdownError> {
    let mut category = None;
    let mut items = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = || MarkdownError { line: number + 1 };
        let line = line.trim();
        if let Some(heading) = line.strip_prefix('#') {
            let heading = heading.trim_start_matches('#').trim();
            let found = HEADINGS
                .iter()
                .find(|(_, name)| name.eq_ignore_ascii_case(heading));
            category = found.map(|(category, _)| *category);
            continue;
        }
        let Some(category) = category.filter(|_| !line.is_empty()) else {
            continue;
        };
        let (learning, content) = read(category, line).ok_or_else(wrong)?;
        let same = known
            .iter()
            .find(|item| learning_of(item).is_some_and(|known| known.code == learning.code));
        items.push(match same {
            Some(item) => MemoryItem {
                updated_at: if item.content == content {
                    item.updated_at
                } else {
                    now
                },
                content,
                detail: Some(Detail::Learning(learning)),
                ..item.clone()
            },
            None => MemoryItem {
                id: format!("learning-{}", learning.code),
                kind: MemoryKind::Learning,
                content,
                tags: Default::default(),
                importance: 0.5,
                pinned: false,
                disabled: false,
                boost: 1.0,
                created_at: now,
                updated_at: now,
                expires_at: None,
                source: None,
                detail: Some(Detail::Learning(learning)),
                accessed_at: None,
                accesses: 0,
            },
        });
    }
    Ok(items)
}

/// `[L001] helpful=2 harmful=0 :: text`
fn read(category: LearningCategory, line: &str) -> Option<(Learning, String)> {
    let (head, content) = line.trim_start_matches("- ").split_once("::")?;
    let (code, counts) = head.trim().strip_prefix('[')?.split_once(']')?;
    let mut counts = counts.split_whitespace();
    let helpful = counts.next()?.strip_prefix("helpful=")?.parse().ok()?;
    let harmful = counts.next()?.strip_prefix("harmful=")?.parse().ok()?;
    let learning = Learning {
        code: code.to_owned(),
        category,
        helpful,
        harmful,
    };
    let content = clean_line(content, CONTENT);
    let (letter, _) = learning.numbered()?;
    let is_whole = letter.starts_with(category.letter()) && counts.next().is_none();
    (is_whole && !content.is_empty()).then_some((learning, content))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const TEXT: &str = "\
## STRATEGIES

[L001] helpful=2 harmful=1 :: count twice
[L010] helpful=0 harmful=0 :: ask first

## MISTAKES

[M002] helpful=0 harmful=4 :: guess
";

    #[test]
    fn learnings_are_written_and_read_again_and_an_edit_stays_with_its_item() {
        let items = learnings_from_markdown(TEXT, &[], Timestamp(5)).unwrap();
        assert_eq!(items.len(), 3);
        assert_eq!(learnings_to_markdown(&items), TEXT);
        let edited = TEXT
            .replace("ask first", "ask first, then act")
            .replace("harmful=4", "harmful=0");
        let again = learnings_from_markdown(&edited, &items, Timestamp(9)).unwrap();
        let ids =
            |items: &[MemoryItem]| items.iter().map(|item| item.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&again), ids(&items));
        assert_eq!(
            (again[1].updated_at, again[1].created_at),
            (Timestamp(9), Timestamp(5))
        );
        assert_eq!(again[0].updated_at, Timestamp(5));
        assert_eq!(learnings_to_markdown(&again), edited);
        for (wrong, line) in [
            (TEXT.replace("[M002]", "[L002]"), 8),
            (TEXT.replace("helpful=2", "helped=2"), 3),
            (TEXT.replace(":: guess", "::"), 8),
        ] {
            let error = learnings_from_markdown(&wrong, &[], Timestamp(5)).unwrap_err();
            assert_eq!(error.line, line, "{wrong}");
        }
    }
}
