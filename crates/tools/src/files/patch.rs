//! Unified diffs, as models write them: line numbers may be wrong; the lines around a change decide.

/// The most files, and the most parts, of one patch.
const FILES: usize = 100;
const PARTS: usize = 2_000;

/// The changes to one file.
#[derive(Debug, PartialEq)]
pub(super) struct FilePatch {
    pub(super) path: String,
    pub(super) makes: bool,
    pub(super) removes: bool,
    parts: Vec<Part>,
}

/// One part: the old lines, which the file must contain, and the new lines in their place.
#[derive(Debug, Default, PartialEq)]
struct Part {
    /// The line number in its header, from 1.
    line: usize,
    old: Vec<String>,
    new: Vec<String>,
    /// Whether the new text ends without a line break.
    open_end: bool,
}

/// Reads a patch.
pub(super) fn parse(text: &str) -> Result<Vec<FilePatch>, String> {
    let mut files: Vec<FilePatch> = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    let mut parts = 0;
    while let Some((number, line)) = lines.next() {
        if let Some(old) = line.strip_prefix("--- ") {
            let Some(new) = lines.peek().and_then(|(_, line)| line.strip_prefix("+++ ")) else {
                return Err(format!("line {}: `+++` must follow `---`", number + 1));
            };
            let (old, new) = (name_of(old), name_of(new));
            lines.next();
            if files.len() >= FILES {
                return Err(format!("it has more than {FILES} files"));
            }
            let (makes, removes) = (old == "/dev/null", new == "/dev/null");
            if !makes && !removes && old != new {
                return Err(format!(
                    "line {}: files are not renamed by a patch",
                    number + 1
                ));
            }
            let path = if removes { old } else { new };
            let is_twice = files.iter().any(|file| file.path == path);
            if is_twice || (makes && removes) {
                return Err(format!("line {}: {path} stands there twice", number + 1));
            }
            let parts = Vec::new();
            files.push(FilePatch {
                path,
                makes,
                removes,
                parts,
            });
        } else if line.starts_with("@@") {
            let Some(file) = files.last_mut() else {
                return Err(format!(
                    "line {}: `---` and `+++` must stand before `@@`",
                    number + 1
                ));
            };
            parts += 1;
            if parts > PARTS {
                return Err(format!("it has more than {PARTS} parts"));
            }
            let (begins, counts) = header(line);
            file.parts.push(read_part(begins, counts, &mut lines)?);
        }
        // Lines between files, such as `diff --git` and `index`, are ignored.
    }
    match files.iter().find(|file| file.parts.is_empty()) {
        _ if files.is_empty() => Err("it holds no `---` and `+++`".to_owned()),
        Some(file) => Err(format!("{}: there is no `@@`", file.path)),
        None => Ok(files),
    }
}

/// The path in a line that begins with `---` or `+++`.
fn name_of(rest: &str) -> String {
    let name = rest.split('\t').next().unwrap_or_default().trim();
    let plain = name.strip_prefix("a/").or_else(|| name.strip_prefix("b/"));
    plain.unwrap_or(name).to_owned()
}

/// `@@ -12,3 +12,4 @@`: the first line number, and the numbers of old and new lines, if they are given.
fn header(line: &str) -> (usize, Option<(usize, usize)>) {
    let mut ranges = line.split_whitespace().skip(1);
    let mut range = |mark: char| {
        let range = ranges.next()?.strip_prefix(mark)?;
        let (begins, count) = range.split_once(',').unwrap_or((range, "1"));
        Some((begins.parse::<usize>().ok()?, count.parse::<usize>().ok()?))
    };
    match (range('-'), range('+')) {
        (Some((begins, old)), Some((_, new))) => (begins, Some((old, new))),
        _ => (0, None),
    }
}

fn read_part<'l>(
    line: usize,
    counts: Option<(usize, usize)>,
    lines: &mut std::iter::Peekable<impl Iterator<Item = (usize, &'l str)>>,
) -> Result<Part, String> {
    let mut part = Part {
        line,
        ..Part::default()
    };
    let (mut last, mut marked) = (None, false);
    while let Some((number, line)) = lines.peek().copied() {
        // Within the counted lines `--- x` removes the line `-- x`.
        let is_full =
            counts.is_none_or(|(old, new)| part.old.len() >= old && part.new.len() >= new);
        let next_file = line.starts_with("--- ") && is_full;
        if next_file || line.starts_with("@@") || line.starts_with("diff --git ") {
            break;
        }
        lines.next();
        let is_mark = line.starts_with('\\');
        if is_full && counts.is_some() && !is_mark {
            // The text after it, such as a signature, is ignored.
            continue;
        }
        let rest = || line.get(1..).unwrap_or_default().to_owned();
        match line.as_bytes().first() {
            Some(b'-') => part.old.push(rest()),
            Some(b'+') => part.new.push(rest()),
            Some(b' ') => {
                part.old.push(rest());
                part.new.push(rest());
            }
            // This line says that the line before it has no line break at its end.
            Some(b'\\') => {
                marked = true;
                part.open_end = last != Some(b'-');
            }
            // An empty line of context that lost its space; after the last part it does not belong to the part.
            None => {
                part.old.push(String::new());
                part.new.push(String::new());
            }
            Some(_) => {
                return Err(format!(
                    "line {}: it must begin with a space, `+` or `-`",
                    number + 1
                ));
            }
        }
        last = line.as_bytes().first().copied();
    }
    // A part that changes only the line break at the end has equal lines.
    if part.old == part.new && !marked {
        return Err(format!("the part at line {} changes nothing", part.line));
    }
    Ok(part)
}

/// The text after a patch.
///
/// A part is applied at the line number in its header if its old lines are there, and otherwise at the only place that
/// has them.
pub(super) fn apply(patch: &FilePatch, text: &str) -> Result<String, String> {
    let returns = text.contains("\r\n");
    let mut lines: Vec<&str> = text.lines().collect();
    let ends = text.is_empty() || text.ends_with('\n');
    let mut ends_with_break = ends;
    // How far the parts before have moved the lines.
    let (mut moved, mut from) = (0_isize, 0_usize);
    for (number, part) in patch.parts.iter().enumerate() {
        let at = place(part, &lines, moved, from)
            .map_err(|why| format!("part {}: {why}", number + 1))?;
        let end = at + part.old.len();
        if end == lines.len() && !part.new.is_empty() {
            ends_with_break = !part.open_end;
        }
        lines.splice(at..end, part.new.iter().map(String::as_str));
        moved += part.new.len() as isize - part.old.len() as isize;
        from = at + part.new.len();
    }
    let mut changed = lines.join(if returns { "\r\n" } else { "\n" });
    if ends_with_break && !lines.is_empty() {
        changed.push_str(if returns { "\r\n" } else { "\n" });
    }
    Ok(changed)
}

/// The index of a part's old lines in the file, at or after the line `from`, counted from 0.
fn place(part: &Part, lines: &[&str], moved: isize, from: usize) -> Result<usize, String> {
    let named = part.line.saturating_sub(usize::from(!part.old.is_empty()));
    let named = named.saturating_add_signed(moved);
    if part.old.is_empty() {
        return match lines.is_empty() || (part.line > 0 && named <= lines.len() && named >= from) {
            true => Ok(named.min(lines.len())),
            false => Err("it adds lines and does not say where: give lines around them".to_owned()),
        };
    }
    let stands = |at: usize| {
        let there = lines.get(at..).and_then(|rest| rest.get(..part.old.len()));
        there.is_some_and(|there| there.iter().zip(&part.old).all(|(a, b)| a == b))
    };
    if part.line > 0 && named >= from && stands(named) {
        return Ok(named);
    }
    let last = lines.len().saturating_sub(part.old.len());
    let mut places = (from..=last).filter(|at| stands(*at));
    match (places.next(), places.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err("its old lines do not stand there; read the file again".to_owned()),
        (Some(_), Some(_)) => {
            Err("its old lines stand at several places: give more lines around them".to_owned())
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        let line = prop::sample::select(vec![
            "a", "b", "", "x y", "-- c", "+d", "@@ e", "--- f", "\\ g",
        ]);
        (prop::collection::vec(line, 0..30), any::<bool>()).prop_map(|(lines, ends)| {
            let text = lines.join("\n");
            if ends && !text.is_empty() {
                text + "\n"
            } else {
                text
            }
        })
    }

    proptest! {
        #[test]
        fn what_was_compared_is_made_again(old in text(), new in text()) {
            // `lines` cannot tell an empty last line without a break from none.
            prop_assume!(old != new && !old.is_empty() && !new.is_empty());
            let diff = similar::TextDiff::from_lines(&old, &new);
            let patch = diff.unified_diff().context_radius(3).header("a/f", "b/f").to_string();
            let files = parse(&patch).unwrap();
            prop_assert_eq!(apply(&files[0], &old).unwrap(), new);
        }

        #[test]
        fn no_text_makes_it_panic(patch in "(---|\\+\\+\\+|@@|[-+ \\\\])?[ -~\n]{0,80}", text in text()) {
            let patch = format!("--- a/f\n+++ b/f\n@@ -1 +1 @@\n{patch}");
            for file in parse(&patch).unwrap_or_default() {
                let _ = apply(&file, &text);
            }
        }
    }

    #[test]
    fn the_line_break_at_the_end_is_as_the_patch_says() {
        for (old, new) in [
            ("a", "a\n"),
            ("a\n", "a"),
            ("a\nb", "c\nb\n"),
            ("a\nb\n", "a\nc"),
            ("a\nb", "a"),
        ] {
            let diff = similar::TextDiff::from_lines(old, new);
            let patch = diff.unified_diff().header("a/f", "b/f").to_string();
            let files = parse(&patch).unwrap();
            assert_eq!(apply(&files[0], old).unwrap(), new, "{patch}");
        }
        let signed = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n-- \n2.39.5\n";
        assert_eq!(apply(&parse(signed).unwrap()[0], "a\n").unwrap(), "b\n");
    }

    #[test]
    fn wrong_line_numbers_do_not_matter_where_the_lines_stand_once() {
        let patch = "--- a/f\n+++ b/f\n@@ -900,2 +900,2 @@\n b\n-c\n+C\n";
        let files = parse(patch).unwrap();
        assert_eq!(apply(&files[0], "a\nb\nc\nd\n").unwrap(), "a\nb\nC\nd\n");
        assert!(
            apply(&files[0], "b\nc\nb\nc\n")
                .unwrap_err()
                .contains("several")
        );
        assert!(
            apply(&files[0], "x\n")
                .unwrap_err()
                .contains("read the file")
        );
        let last = format!(
            "--- a/f\n+++ b/f\n@@ -{0},2 +{0},2 @@\n b\n-c\n+C\n",
            usize::MAX
        );
        let files = parse(&last).unwrap();
        assert_eq!(apply(&files[0], "a\nb\nc\n").unwrap(), "a\nb\nC\n");
    }
}
