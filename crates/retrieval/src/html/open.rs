//! The elements that are open at a place of a page, and whether text can be seen there.

use std::collections::HashMap;

use html5ever::{Attribute, LocalName, tokenizer::Tag};

/// Elements that begin a paragraph.
pub(super) const BLOCKS: [&str; 27] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "details",
    "div",
    "dl",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hr",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "tbody",
    "tfoot",
    "thead",
    "ul",
];
/// Elements whose content is not text of the page, and the readings of a ruby, which would tear its words apart.
const INVISIBLE: [&str; 14] = [
    "button", "iframe", "math", "noscript", "object", "rp", "rt", "rtc", "script", "select",
    "style", "svg", "template", "textarea",
];
/// Elements without content.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// Elements whose content is not read as tags, also where a page that is not XHTML ends them at once.
const RAW: [&str; 6] = ["iframe", "noscript", "script", "style", "textarea", "title"];
/// How many open elements are looked at for one that another one ends.
const LOOKED_AT: usize = 32;

/// The open elements.
#[derive(Debug, Default)]
pub(super) struct Elements {
    /// Whether the page is XHTML.
    xml: bool,
    /// The names, and whether each of them hides what is in it.
    open: Vec<(LocalName, bool)>,
    /// How many of each name are open. An end tag of none of them is ignored, whatever it costs to look for one.
    of_name: HashMap<LocalName, usize>,
    hiding: usize,
}

impl Elements {
    pub(super) fn new(xml: bool) -> Self {
        let none = Self::default();
        Self { xml, ..none }
    }

    pub(super) fn is_visible(&self) -> bool {
        self.hiding == 0
    }

    /// Begins an element, and says whether it stays open.
    pub(super) fn begin(&mut self, tag: &Tag) -> bool {
        let name = &*tag.name;
        if !self.xml {
            self.end_implied(name);
        }
        let is_invisible = INVISIBLE.contains(&name);
        let can_end_at_once = self.xml || (is_invisible && !RAW.contains(&name));
        if VOID.contains(&name) || (tag.self_closing && can_end_at_once) {
            return false;
        }
        let hides = is_invisible || is_hidden(&tag.attrs);
        self.open.push((tag.name.clone(), hides));
        *self.of_name.entry(tag.name.clone()).or_default() += 1;
        self.hiding += usize::from(hides);
        true
    }

    /// Ends the last open element of this name with all that is open in it.
    pub(super) fn end(&mut self, name: &LocalName) {
        if self.of_name.get(name).is_none_or(|open| *open == 0) {
            return;
        }
        while let Some((ended, hid)) = self.open.pop() {
            self.hiding -= usize::from(hid);
            if let Some(open) = self.of_name.get_mut(&ended) {
                *open -= 1;
            }
            if ended == *name {
                return;
            }
        }
    }

    /// Ends the element whose end tag is left out before an element of this name.
    fn end_implied(&mut self, name: &str) {
        let (ended, but): (&[&str], &[&str]) = match name {
            "li" => (&["li"], &["ul", "ol"]),
            "dt" | "dd" => (&["dt", "dd"], &["dl"]),
            "tr" => (&["tr"], &["table"]),
            "td" | "th" => (&["td", "th"], &["tr", "table"]),
            "option" => (&["option"], &["select"]),
            "rb" | "rp" | "rt" | "rtc" => (&["rb", "rp", "rt", "rtc"], &["ruby"]),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => (&["p"], &["table", "td", "th", "button"]),
            _ if BLOCKS.contains(&name) => (&["p"], &["table", "td", "th", "button"]),
            _ => return,
        };
        for (open, _) in self.open.iter().rev().take(LOOKED_AT) {
            if ended.contains(&&**open) {
                let open = open.clone();
                return self.end(&open);
            }
            if but.contains(&&**open) {
                return;
            }
        }
    }
}

/// Whether an element with these attributes is not shown. One that is hidden until it is found is meant to be found.
fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let value = attribute.value.trim().to_ascii_lowercase();
        match &*attribute.name.local {
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
