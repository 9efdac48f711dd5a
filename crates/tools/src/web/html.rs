//! HTML as Markdown, within bounds.

use std::collections::HashMap;

use htmd::HtmlToMarkdown;
use regex::{Captures, Regex};

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
/// Elements without content.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// An attribute of an element with its value.
const ATTRIBUTE: &str = r#"([^\s"'>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?"#;
/// Elements without content, or that the next such element closes.
const FLAT: [&str; 20] = [
    "area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta",
    "option", "p", "source", "td", "th", "tr", "wbr",
];

/// A page as Markdown, without what is hidden; if it is nested too deep, only its text. In XHTML each element can end with
/// its own tag.
pub(super) fn markdown(html: &str, is_xhtml: bool) -> String {
    // A space replaces each match, so that the text around it cannot form a tag.
    let without = |pattern: &str, text: &str| match Regex::new(pattern) {
        Ok(pattern) => pattern.replace_all(text, " ").into_owned(),
        Err(_) => String::new(),
    };
    let html = &html[..html.floor_char_boundary(BYTES)];
    let closed = match is_xhtml || says_xhtml(html) {
        true => with_ends(html),
        false => html.to_owned(),
    };
    let shown = without_hidden(&without(RAW, &closed));
    let plain = without(FORMATTING, &shown);
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

/// Whether a page says that it is XHTML.
fn says_xhtml(page: &str) -> bool {
    let head = page.trim_start_matches('\u{feff}').trim_start();
    let end = head.floor_char_boundary(2_000);
    let is_said = ["http://www.w3.org/1999/xhtml", "DTD XHTML"];
    head.starts_with("<?xml") || is_said.iter().any(|said| head[..end].contains(said))
}

/// XHTML with an end tag for each element that its own tag ends, as a parser of HTML wants it.
fn with_ends(page: &str) -> String {
    let Ok(tags) = Regex::new(TAG) else {
        return String::new();
    };
    let ended = tags.replace_all(page, |tag: &Captures<'_>| {
        let (whole, name) = (&tag[0], &tag[2]);
        let is_void = VOID.contains(&name.to_ascii_lowercase().as_str());
        match whole.strip_suffix("/>") {
            Some(begins) if tag[1].is_empty() && !is_void => format!("{begins}></{name}>"),
            _ => whole.to_owned(),
        }
    });
    ended.into_owned()
}

/// A page without the elements that are not shown.
fn without_hidden(page: &str) -> String {
    let (Ok(tags), Ok(attributes)) = (Regex::new(TAG), Regex::new(ATTRIBUTE)) else {
        return String::new();
    };
    let (mut shown, mut from) = (String::with_capacity(page.len()), 0);
    let mut inside: Option<Hidden> = None;
    for found in tags.captures_iter(page) {
        let (Some(tag), name) = (found.get(0), found[2].to_ascii_lowercase()) else {
            continue;
        };
        let begins = found[1].is_empty();
        if let Some(hidden) = &mut inside {
            match hidden.read(&name, begins) {
                Place::Inside => continue,
                Place::Last => {
                    (inside, from) = (None, tag.end());
                    continue;
                }
                Place::Behind => (inside, from) = (None, tag.start()),
            }
        }
        let is_empty = VOID.contains(&name.as_str());
        if begins && !is_empty && is_hidden(tag.as_str(), &attributes) {
            shown.push_str(&page[from..tag.start()]);
            // A space replaces the element, so that the text around it cannot form a tag.
            shown.push(' ');
            inside = Some(Hidden::new(name));
        }
    }
    if inside.is_none() {
        shown.push_str(&page[from..]);
    }
    shown
}

/// A hidden element that is being read.
struct Hidden {
    /// It, and the elements that are open in it.
    open: Vec<String>,
    of_name: HashMap<String, usize>,
}

/// Where a tag stands.
enum Place {
    /// In the hidden element.
    Inside,
    /// It is the element's end tag.
    Last,
    /// The element has ended before it.
    Behind,
}

impl Hidden {
    fn new(name: String) -> Self {
        Self {
            of_name: HashMap::from([(name.clone(), 1)]),
            open: vec![name],
        }
    }

    fn read(&mut self, name: &str, begins: bool) -> Place {
        let may_be_unended = self.open.len() == 1 && FLAT.contains(&self.open[0].as_str());
        if begins {
            if may_be_unended && self.open[0] == name {
                return Place::Behind;
            }
            if !VOID.contains(&name) {
                self.open.push(name.to_owned());
                *self.of_name.entry(name.to_owned()).or_default() += 1;
            }
            return Place::Inside;
        }
        if self.of_name.get(name).is_none_or(|open| *open == 0) {
            // The end of what it stands in.
            return match may_be_unended {
                true => Place::Behind,
                false => Place::Inside,
            };
        }
        while let Some(ended) = self.open.pop() {
            let is_it = ended == name;
            self.of_name.entry(ended).and_modify(|open| *open -= 1);
            if is_it {
                break;
            }
        }
        match self.open.is_empty() {
            true => Place::Last,
            false => Place::Inside,
        }
    }
}

/// Whether an element is not shown, by its own tag. One that is hidden until it is found is meant to be found.
fn is_hidden(tag: &str, attributes: &Regex) -> bool {
    attributes.captures_iter(tag).skip(1).any(|attribute| {
        let value = (2..5).find_map(|place| attribute.get(place));
        let value = value.map_or("", |value| value.as_str().trim());
        let value = value.to_ascii_lowercase();
        match attribute[1].to_ascii_lowercase().as_str() {
            "hidden" => value != "until-found",
            "aria-hidden" => value == "true",
            "style" => value.split(';').any(|declared| {
                let (name, value) = declared.split_once(':').unwrap_or_default();
                let value = value.split('!').next().unwrap_or_default();
                let hides = (name.trim(), value.trim());
                matches!(hides, ("display", "none") | ("visibility", "hidden"))
            }),
            _ => false,
        }
    })
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
        assert_eq!(markdown(page, false), "# A\n\nb [c](/c)\n\n*   d");
    }

    #[test]
    fn what_a_page_hides_is_not_read() {
        for hidden in [
            "<div hidden>x<div>x</div>x</div>",
            "<p hidden=''>x</p>",
            "<span class=a aria-hidden=\"true\">x</span>",
            "<p style='color: red; display : none !important'>x</p>",
            "<p style=\"visibility:hidden;\">x</p>",
            "<td style=display:none>x</td>",
        ] {
            let page = format!("<body><p>before</p>{hidden}<p>after</p></body>");
            assert_eq!(markdown(&page, false), "before\n\nafter", "{hidden}");
        }
        for shown in [
            "<p hidden=until-found>x</p>",
            "<p aria-hidden=false>x</p>",
            "<p style='display: block'>x</p>",
            "<p data-hidden=1 title=' hidden '>x</p>",
        ] {
            assert!(markdown(shown, false).contains('x'), "{shown}");
        }
        let implied = "<ul><li hidden>x<li>one<li hidden>x</ul><p hidden>x<p>two";
        assert_eq!(markdown(implied, false), "*   one\n\ntwo");
        let unended = "<p>before</p><input hidden><p>seen</p><div hidden><p>x";
        assert_eq!(markdown(unended, false), "before\n\nseen");
    }

    #[test]
    fn an_element_of_xhtml_ends_with_its_own_tag() {
        let page = "<html xmlns=\"http://www.w3.org/1999/xhtml\"><head><title/><script src=\"a.js\"/></head>\
                    <body><p>one</p><script src='b.js' /><a id='c'/><p>two<br/>three</p></body></html>";
        let read = markdown(page, false);
        assert!(read.contains("one") && read.contains("two"), "{read}");
        assert!(read.contains("three") && !read.contains("js"), "{read}");
    }

    #[test]
    fn a_page_that_nests_without_end_is_its_texts() {
        let page = "<div>".repeat(50_000) + "deep" + &"<b>".repeat(50_000) + "er";
        assert!(markdown(&page, false).contains("deep"));
        assert!(markdown(&("<".repeat(500_000) + "x"), true).len() < 2 << 20);
    }
}
