//! The elements that are open at a place of a page, and whether text can be seen there.

use std::collections::HashMap;

use html5ever::{LocalName, tokenizer::Tag};

use crate::scripts::Script;

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
/// Elements whose content is not text of the page, the readings of a ruby, which would tear its words apart, and equations in
/// other notations.
const INVISIBLE: [&str; 20] = [
    "annotation",
    "annotation-xml",
    "audio",
    "button",
    "canvas",
    "datalist",
    "iframe",
    "mphantom",
    "noscript",
    "object",
    "rp",
    "rt",
    "rtc",
    "script",
    "select",
    "style",
    "svg",
    "template",
    "textarea",
    "video",
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

    /// How many elements are open.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Begins an element, of MathML if `in_equation`, and says whether it stays open.
    pub(super) fn begin(&mut self, tag: &Tag, in_equation: bool) -> bool {
        let name = local(&tag.name);
        let is_tex = attribute(tag, "encoding").is_some_and(|encoding| is_tex(&encoding));
        let is_invisible = INVISIBLE.contains(&name) && !(in_equation && is_tex);
        let is_foreign = in_equation || name == "math";
        let can_end_at_once = self.xml || is_foreign || (is_invisible && !RAW.contains(&name));
        if VOID.contains(&name) || (tag.self_closing && can_end_at_once) {
            return false;
        }
        let hides = is_invisible || is_hidden(tag);
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
    pub(super) fn end_implied(&mut self, name: &str) {
        if self.xml {
            return;
        }
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

/// The name of an element without the prefix that MathML has in XHTML.
pub(super) fn local(name: &str) -> &str {
    let local = name
        .strip_prefix("mml:")
        .or_else(|| name.strip_prefix("m:"));
    local.unwrap_or(name)
}

/// Whether a name is one of an element of MathML, as far as such elements stand in pages.
pub(super) fn is_of_mathml(name: &str) -> bool {
    let is_of_html = matches!(name, "main" | "map" | "mark" | "menu" | "meta" | "meter");
    let is_other = matches!(name, "annotation" | "annotation-xml" | "none" | "semantics");
    is_other || (name.starts_with('m') && !is_of_html)
}

/// The value of an attribute of this name.
pub(super) fn attribute(tag: &Tag, name: &str) -> Option<String> {
    let mut all = tag.attrs.iter();
    let found = all.find(|attribute| &*attribute.name.local == name)?;
    Some(found.value.trim().to_owned())
}

fn is_tex(encoding: &str) -> bool {
    let encoding = encoding.to_ascii_lowercase();
    matches!(encoding.as_str(), "application/x-tex" | "tex" | "latex")
}

/// The declarations of an element's own style: names with their values.
fn declared(tag: &Tag) -> Vec<(String, String)> {
    let style = attribute(tag, "style")
        .unwrap_or_default()
        .to_ascii_lowercase();
    let declared = style.split(';').map(|declared| {
        let (name, value) = declared.split_once(':').unwrap_or_default();
        let value = value.split('!').next().unwrap_or_default();
        (name.trim().to_owned(), value.trim().to_owned())
    });
    declared.collect()
}

/// Where the text of an element stands beside its line, if it does.
pub(super) fn script(tag: &Tag) -> Option<Script> {
    let of = |place: &str| match place {
        "sup" | "super" => Some(Script::Raised),
        "sub" => Some(Script::Lowered),
        _ => None,
    };
    let is_in_line = matches!(
        &*tag.name,
        "a" | "b" | "em" | "font" | "i" | "small" | "span" | "strong"
    );
    let aligned = || {
        let mut declared = declared(tag).into_iter().filter(|_| is_in_line);
        declared.find(|(name, _)| name == "vertical-align")
    };
    of(&tag.name).or_else(|| of(aligned()?.1.as_str()))
}

/// Whether an element is not shown. One that is hidden until it is found is meant to be found.
fn is_hidden(tag: &Tag) -> bool {
    let value = |name: &str| attribute(tag, name).map(|value| value.to_ascii_lowercase());
    let hides = |(name, value): &(String, String)| {
        matches!(
            (name.as_str(), value.as_str()),
            ("display", "none") | ("visibility", "hidden" | "collapse")
        )
    };
    let is_closed = &*tag.name == "dialog" && value("open").is_none();
    is_closed
        || value("popover").is_some()
        || value("hidden").is_some_and(|value| value != "until-found")
        || value("aria-hidden").is_some_and(|value| value == "true")
        || declared(tag).iter().any(hides)
}
