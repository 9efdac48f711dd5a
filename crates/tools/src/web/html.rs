//! HTML as Markdown, within bounds.

use std::collections::HashMap;

use htmd::HtmlToMarkdown;
use regex::Regex;

/// How many bytes of HTML are read.
const BYTES: usize = 512 << 10;
/// The deepest nesting of elements: the parser searches all open elements at each tag, and the conversion to Markdown
/// is recursive.
const DEPTH: usize = 300;
/// Elements without content for a reader.
const SKIPPED: [&str; 10] = [
    "head", "script", "style", "noscript", "template", "iframe", "object", "svg", "canvas", "form",
];

/// Comments, and elements whose content is not HTML.
const RAW: &str = r"(?is)<!--.*?-->|<script\b.*?</script\s*>|<style\b.*?</style\s*>|<textarea\b.*?</textarea\s*>|<noscript\b.*?</noscript\s*>";
/// Elements that a parser opens again in each paragraph if they are left open, which can multiply a page without bound.
const FORMATTING: &str = r#"(?i)</?(?:b|big|code|em|font|i|s|small|strike|strong|tt|u)(?:[\s/](?:"[^"]*"|'[^']*'|[^'">])*)?>"#;
/// A tag with its name, and the slash of a closing tag.
const TAG: &str = r#"<(/?)([a-zA-Z][a-zA-Z0-9-]*)(?:"[^"]*"|'[^']*'|[^'">])*>"#;
/// Elements without content, or that the next such element closes.
const FLAT: [&str; 20] = [
    "area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta",
    "option", "p", "source", "td", "th", "tr", "wbr",
];

/// A page as Markdown; if it is nested too deep, only its text.
pub(super) fn markdown(html: &str) -> String {
    let mut end = html.len().min(BYTES);
    while !html.is_char_boundary(end) {
        end -= 1;
    }
    // A space replaces each match, so that the text around it cannot form a tag.
    let without = |pattern: &str, text: &str| match Regex::new(pattern) {
        Ok(pattern) => pattern.replace_all(text, " ").into_owned(),
        Err(_) => String::new(),
    };
    let plain = without(FORMATTING, &without(RAW, &html[..end]));
    let converter = HtmlToMarkdown::builder()
        .skip_tags(SKIPPED.to_vec())
        .build();
    let text = match nests_deep(&plain) {
        true => without(TAG, &plain),
        false => converter
            .convert(&plain)
            .unwrap_or_else(|_| without(TAG, &plain)),
    };
    without_gaps(&text)
}

/// Whether so many elements may be open at once that the page must not be parsed.
fn nests_deep(html: &str) -> bool {
    let Ok(tags) = Regex::new(TAG) else {
        return true;
    };
    let (mut open, mut depth) = (HashMap::<String, usize>::new(), 0);
    for tag in tags.captures_iter(html) {
        let name = tag[2].to_ascii_lowercase();
        if FLAT.contains(&name.as_str()) {
            continue;
        }
        let of_name = open.entry(name).or_default();
        match tag[1].is_empty() {
            true => (*of_name, depth) = (*of_name + 1, depth + 1),
            false if *of_name > 0 => (*of_name, depth) = (*of_name - 1, depth - 1),
            false => {}
        }
        if depth > DEPTH {
            return true;
        }
    }
    false
}

/// The text with at most one empty line in a row.
fn without_gaps(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines() {
        let line = line.trim_end();
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty < 2 {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept.truncate(kept.trim_end().len());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_markdown_without_what_is_no_content() {
        let page = "<html><head><title>T</title></head><body><h1>A</h1><script>bad()</script>\
                    <p>b <a href='/c'>c</a></p><ul><li>d</li></ul></body></html>";
        assert_eq!(markdown(page), "# A\n\nb [c](/c)\n\n*   d");
    }

    #[test]
    fn a_page_that_nests_without_end_is_its_texts() {
        let page = "<div>".repeat(50_000) + "deep" + &"<b>".repeat(50_000) + "er";
        assert!(markdown(&page).contains("deep"));
        assert!(markdown(&("<".repeat(500_000) + "x")).len() < 2 << 20);
    }
}
