//! The properties that a Markdown document states before its text.

use super::Metadata;

/// The most properties of a document, the most values of one, and the most characters of a name or value.
const MOST: (usize, usize, usize) = (64, 32, 200);

/// The properties in the front matter of a Markdown text: lines `name: value` between two lines `---` at its beginning,
/// with lists as `[a, b]` or as lines `- a`. What is nested deeper, or is none of this, is passed over.
pub(super) fn metadata(text: &str) -> Metadata {
    let mut found = Metadata::new();
    let Some((head, _)) = ghostlight_safety::front_matter(text) else {
        return found;
    };
    let mut name = String::new();
    for line in head.lines() {
        if let Some(item) = line.trim_start().strip_prefix("- ") {
            add(&mut found, &name, item);
        } else if let Some((key, value)) = line.split_once(':')
            && !key.starts_with([' ', '\t', '#'])
        {
            name = key.trim().to_lowercase();
            let value = value.trim();
            match value
                .strip_prefix('[')
                .and_then(|list| list.strip_suffix(']'))
            {
                Some(list) => list
                    .split(',')
                    .for_each(|item| add(&mut found, &name, item)),
                None => add(&mut found, &name, value),
            }
        }
    }
    found
}

fn add(found: &mut Metadata, name: &str, value: &str) {
    let value = value.trim().trim_matches(['"', '\'']).trim();
    let short = |text: &str| text.chars().nth(MOST.2).is_none();
    if name.is_empty() || value.is_empty() || !short(name) || !short(value) {
        return;
    }
    if found.len() < MOST.0 || found.contains_key(name) {
        let values = found.entry(name.to_owned()).or_default();
        if values.len() < MOST.1 {
            values.push(value.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_values_and_lists_are_read_and_all_else_is_passed_over() {
        let text = "---\ntitle: \"Parcels: all\"\nTeam: legal\ntags: [one, 'two']\nauthors:\n  - Ada\n  - Bob\n\
                    nested:\n  deep: no\n# a comment: no\n---\n# Parcels\nteam: text";
        let found = metadata(text);
        let of = |name: &str| found.get(name).cloned().unwrap_or_default();
        assert_eq!(of("title"), ["Parcels: all"]);
        assert_eq!(of("team"), ["legal"]);
        assert_eq!(of("tags"), ["one", "two"]);
        assert_eq!(of("authors"), ["Ada", "Bob"]);
        assert_eq!(found.len(), 4);
        assert!(metadata("# Parcels\n---\nteam: legal\n---\n").is_empty());
        assert!(metadata("---\nteam: legal\n").is_empty());
        assert!(metadata(&format!("---\nteam: {}\n---\n", "x".repeat(300))).is_empty());
    }
}
