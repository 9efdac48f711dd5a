//! Patterns of files that are left out, as in a `.gitignore`.

/// The patterns of one file or of the settings. A later one counts more than those before it.
#[derive(Debug, Default)]
pub(super) struct Patterns(Vec<Pattern>);

#[derive(Debug)]
struct Pattern {
    parts: Vec<Part>,
    leaves_out: bool,
    of_folders: bool,
}

/// A part of a pattern between two `/`.
#[derive(Debug)]
enum Part {
    /// `**`: any number of folders.
    Folders,
    Name(Vec<Token>),
}

#[derive(Debug)]
enum Token {
    /// `*`: any number of characters.
    Characters,
    /// `?`: one character.
    Character,
    /// One of these ranges, as in `[a-z]`, or none of them, as in `[!a-z]`.
    Range(Vec<(char, char)>, bool),
    Exactly(char),
}

impl Patterns {
    /// The patterns of the settings.
    ///
    /// # Errors
    /// The first pattern that cannot be read, and its fault.
    pub(super) fn of(exclude: &[String]) -> Result<Self, String> {
        let mut patterns = Self::default();
        for pattern in exclude {
            let added = patterns.add(pattern);
            added.map_err(|error| format!("exclude {pattern:?}: {error}"))?;
        }
        Ok(patterns)
    }

    /// Adds a line. An empty one and a comment say nothing.
    ///
    /// # Errors
    /// The fault of the pattern.
    pub(super) fn add(&mut self, line: &str) -> Result<(), &'static str> {
        let mut text = line.trim_end_matches([' ', '\t', '\r']);
        if line.len() > text.len() && text.ends_with('\\') {
            // A space that is escaped belongs to the name.
            text = &line[..=text.len()];
        }
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        let (text, leaves_out) = match text.strip_prefix('!') {
            Some(text) => (text, false),
            None => (text, true),
        };
        let (text, of_folders) = match text.strip_suffix('/') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let mut parts = Vec::new();
        if !text.contains('/') {
            // A name alone stands for entries of this name at any depth.
            parts.push(Part::Folders);
        }
        for part in text.strip_prefix('/').unwrap_or(text).split('/') {
            parts.push(match part {
                "**" => Part::Folders,
                _ => Part::Name(tokens(part)?),
            });
        }
        if let Some(Part::Folders) = parts.last() {
            // `a/**` stands for everything in `a`, and not for `a`.
            parts.push(Part::Name(vec![Token::Characters]));
        }
        self.0.push(Pattern {
            parts,
            leaves_out,
            of_folders,
        });
        Ok(())
    }

    /// Whether an entry is left out, by its path from the folder of the patterns; `None` if no pattern fits it.
    pub(super) fn leave_out(&self, path: &[&str], is_folder: bool) -> Option<bool> {
        let fitting = self.0.iter().rev().find(|pattern| {
            (is_folder || !pattern.of_folders)
                && fits(&pattern.parts, path, is_folders, |part, name| match part {
                    Part::Folders => true,
                    Part::Name(tokens) => {
                        let name: Vec<char> = name.chars().collect();
                        fits(tokens, &name, is_characters, |token, c| token.fits(*c))
                    }
                })
        });
        fitting.map(|pattern| pattern.leaves_out)
    }
}

fn is_folders(part: &Part) -> bool {
    matches!(part, Part::Folders)
}

fn is_characters(token: &Token) -> bool {
    matches!(token, Token::Characters)
}

impl Token {
    fn fits(&self, c: char) -> bool {
        match self {
            Self::Characters | Self::Character => true,
            Self::Exactly(wanted) => *wanted == c,
            Self::Range(ranges, inside) => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) == *inside
            }
        }
    }
}

fn tokens(part: &str) -> Result<Vec<Token>, &'static str> {
    let mut tokens = Vec::new();
    let mut rest = part.chars().peekable();
    while let Some(c) = rest.next() {
        tokens.push(match c {
            '*' => Token::Characters,
            '?' => Token::Character,
            '\\' => Token::Exactly(rest.next().ok_or("nothing follows its last `\\`")?),
            '[' => {
                let inside = rest.next_if(|c| matches!(c, '!' | '^')).is_none();
                let mut ranges = Vec::new();
                loop {
                    let from = match rest.next() {
                        Some(']') if !ranges.is_empty() => break,
                        Some('\\') => rest.next(),
                        from => from,
                    };
                    let from = from.ok_or("a `[` has no `]`")?;
                    let mut ahead = rest.clone();
                    let to = match (ahead.next(), ahead.next()) {
                        (Some('-'), Some(to)) if to != ']' => {
                            rest = ahead;
                            to
                        }
                        _ => from,
                    };
                    ranges.push((from, to));
                }
                Token::Range(ranges, inside)
            }
            c => Token::Exactly(c),
        });
    }
    Ok(tokens)
}

/// Whether a pattern fits a text, item by item. An item that is `many` fits any number of them; where the text goes on
/// differently, only the last such item is tried with more, so the time is bounded by the product of both lengths.
fn fits<P, T>(
    pattern: &[P],
    text: &[T],
    many: impl Fn(&P) -> bool,
    one: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut last = None;
    loop {
        match (pattern.get(at), text.get(read)) {
            (Some(item), _) if many(item) => {
                at += 1;
                last = Some((at, read));
            }
            (Some(item), Some(next)) if one(item, next) => {
                at += 1;
                read += 1;
            }
            (None, None) => return true,
            _ => match last {
                Some((behind, taken)) if taken < text.len() => {
                    last = Some((behind, taken + 1));
                    (at, read) = (behind, taken + 1);
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use ignore::gitignore::GitignoreBuilder;
    use proptest::prelude::*;

    use super::*;

    fn read(line: &str) -> Patterns {
        let mut patterns = Patterns::default();
        patterns.add(line).unwrap();
        patterns
    }

    #[test]
    fn a_pattern_leaves_out_what_git_would() {
        for (pattern, path, is_folder, left_out) in [
            ("*.tmp", "a/b.tmp", false, true),
            ("*.tmp", "a/b.tmp.md", false, false),
            ("drafts/", "a/drafts", true, true),
            ("drafts/", "a/drafts", false, false),
            ("/drafts", "a/drafts", true, false),
            ("a/*.md", "a/b.md", false, true),
            ("a/*.md", "a/b/c.md", false, false),
            ("a/**/c.md", "a/c.md", false, true),
            ("a/**/c.md", "a/b/b/c.md", false, true),
            ("a/**", "a", true, false),
            ("a/**", "a/b", false, true),
            ("**/a", "b/a", false, true),
            ("v[0-9]?", "v1x", false, true),
            ("v[!0-9]", "v1", false, false),
            ("[]-]", "]", false, true),
            ("\\#a", "#a", false, true),
            ("# a", "# a", false, false),
            ("a  ", "a", false, true),
            ("a\\ ", "a ", false, true),
        ] {
            let path: Vec<&str> = path.split('/').collect();
            let found = read(pattern).leave_out(&path, is_folder);
            assert_eq!(found.unwrap_or(false), left_out, "{pattern} {path:?}");
        }
        assert_eq!(read("!a").leave_out(&["a"], false), Some(false));
        assert!(Patterns::default().add("a[").is_err());
        assert!(Patterns::default().add("a\\").is_err());
    }

    #[test]
    fn a_pattern_of_many_stars_is_decided_at_once() {
        let name = "a".repeat(255);
        assert_eq!(
            read(&("a*".repeat(500) + "b")).leave_out(&[&name], false),
            None
        );
    }

    proptest! {
        /// The package of ripgrep reads the same patterns.
        #[test]
        fn patterns_say_what_the_package_ignore_says(
            lines in prop::collection::vec("!?/?([ab*?]{1,3}|\\*\\*|[ab]\\[[!^]?[ab-]{1,3}\\])(/([ab*?]{1,2}|\\*\\*)){0,2}/?", 1..4),
            path in prop::collection::vec("[ab]{1,3}", 1..4),
            is_folder: bool,
        ) {
            let mut patterns = Patterns::default();
            let mut theirs = GitignoreBuilder::new("");
            for line in &lines {
                let known = theirs.add_line(None, line);
                prop_assume!(known.is_ok());
                patterns.add(line).unwrap();
            }
            let names: Vec<&str> = path.iter().map(String::as_str).collect();
            let expected = theirs.build().unwrap();
            let expected = match expected.matched(path.join("/"), is_folder) {
                ignore::Match::None => None,
                found => Some(found.is_ignore()),
            };
            prop_assert_eq!(patterns.leave_out(&names, is_folder), expected, "{:?}", lines);
        }
    }
}
