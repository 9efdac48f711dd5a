//! The front matter of Markdown.

/// The front matter of a Markdown text and the text behind it: front matter stands between a first line `---` and the
/// next line `---` or `...`.
pub fn front_matter(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (first, rest) = text.split_once('\n')?;
    if first.trim_end() != "---" {
        return None;
    }
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if matches!(line.trim_end(), "---" | "...") {
            return Some((&rest[..end], &rest[end + line.len()..]));
        }
        end += line.len();
    }
    // A line of dashes without an end is a rule.
    None
}

#[cfg(test)]
mod tests {
    use super::front_matter;

    #[test]
    fn it_stands_between_two_lines_of_dashes_at_the_beginning() {
        for (text, parts) in [
            (
                "\u{feff}---\r\na: b\r\n---\r\ntext\n---\n",
                Some(("a: b\r\n", "text\n---\n")),
            ),
            ("---\n---", Some(("", ""))),
            ("---\na: b\n...\ntext", Some(("a: b\n", "text"))),
            ("---\na: b\n", None),
            ("text\n---\na: b\n---\n", None),
            ("----\n---\n", None),
        ] {
            assert_eq!(front_matter(text), parts, "{text:?}");
        }
    }
}
