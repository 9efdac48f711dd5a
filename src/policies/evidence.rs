//! Evidence: the things that a tool found, each with its source.

use ghostlight_actors::{
    definition::DELEGATE_PREFIX,
    run::RunContext,
    vocabulary::{Effect, ToolCall, ToolResult, ToolStatus},
};
use ghostlight_safety::percent_decoded;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::is_bookkeeping;

/// Tools from which a model reads what it or another model wrote: its notes, its board, its memory, what agents answer, and
/// what programs print that it wrote or chose.
const OWN_WORDS: [&str; 15] = [
    "memory",
    "board",
    "write_note",
    "read_note",
    "find_notes",
    "save_artifact",
    "load_artifact",
    "list_artifacts",
    "wait",
    "create_agent",
    "agent_result",
    "run_command",
    "run_command_with_approval",
    "start_process",
    "read_process",
];
/// The longest text that can say that nothing was found, in characters.
const MAX_EMPTY_CHARS: usize = 240;
/// The arguments by which tools name the file that they write.
const FILES: [&str; 6] = ["path", "file", "filename", "to", "target", "destination"];
/// The fields in which a record has its text.
const CONTENT: [&str; 3] = ["content", "text", "snippet"];
/// The words in the name of a field that holds the findings of a search.
const RESULTS: [&str; 7] = [
    "result", "hit", "item", "match", "document", "passage", "entr",
];
/// The words by which tools say that they found nothing.
const EMPTY: [&str; 14] = [
    "nothing was found",
    "nothing found",
    "found nothing",
    "no passage",
    "no result",
    "no match",
    "no hit",
    "no document",
    "no entr",
    "no note",
    "not found",
    "none found",
    "is empty",
    "0 results",
];

/// Whether a tool finds things out, and neither keeps books nor gives a model's own words back.
pub(super) fn finds_out(tool: &str) -> bool {
    let own = OWN_WORDS
        .iter()
        .any(|name| tool.trim().eq_ignore_ascii_case(name));
    !own && !is_bookkeeping(tool) && !tool.trim().starts_with(DELEGATE_PREFIX)
}

/// The files that a run may have written. What such a file says is the model's own text and no evidence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Written(Vec<String>);

impl Written {
    /// Notes the files that a call may have written: it names a file and a text, or holds a patch, and its tool does more than
    /// read.
    pub(super) fn called(&mut self, cx: &RunContext, call: &ToolCall) {
        let tools = cx.tools_offered();
        let acts = tools
            .get(&call.name)
            .is_some_and(|tool| tool.effect != Effect::Read);
        let arguments = call.arguments.value().ok().and_then(Value::as_object);
        let Some(arguments) = arguments.filter(|_| acts) else {
            return;
        };
        let texts = || arguments.iter().filter(|(_, value)| value.is_string());
        let files = texts().filter(|(name, _)| match name.as_str() {
            "patch" | "diff" => true,
            name => FILES.contains(&name) && texts().count() > 1,
        });
        let files = files.filter_map(|(_, value)| value.as_str());
        self.0.extend(files.map(str::to_lowercase));
    }

    /// Whether a source is a file that such a call named.
    pub(super) fn includes(&self, source: &str) -> bool {
        let path = source.split(" > ").next().unwrap_or_default();
        let path = path.split(" (line").next().unwrap_or_default().trim();
        let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
        let name = name.to_lowercase();
        !path.contains("://") && !name.is_empty() && self.0.iter().any(|said| said.contains(&name))
    }
}

/// The form of a source by which two are the same: an address without its scheme, its fragment and needless parts of its
/// path, or the path of a file without them.
pub(super) fn same_source(source: &str) -> String {
    let source = source.trim().to_lowercase();
    let web = ["https://", "http://"]
        .iter()
        .find_map(|scheme| source.strip_prefix(scheme));
    let Some(web) = web else {
        return plain_path(&source.replace('\\', "/"));
    };
    let web = web.split('#').next().unwrap_or_default();
    let (place, query) = web.split_once('?').unwrap_or((web, ""));
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    let host = host.rsplit('@').next().unwrap_or_default();
    let host = host
        .strip_suffix(":443")
        .or(host.strip_suffix(":80"))
        .unwrap_or(host);
    let host = host.trim_end_matches('.');
    let host = host.strip_prefix("www.").unwrap_or(host);
    let path = String::from_utf8_lossy(&percent_decoded(path)).to_lowercase();
    let path = plain_path(&path);
    let ask = if query.is_empty() { "" } else { "?" };
    format!("{host}/{path}{ask}{query}")
}

/// A path without `.`, `..` and empty parts.
fn plain_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// A piece of evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EvidenceItem {
    /// Where it comes from.
    pub source: String,
    /// The text of the evidence.
    pub content: String,
    /// How much it weighs; 1 for one that says nothing of it.
    pub score: f64,
}

impl EvidenceItem {
    /// Evidence of score 1.
    pub fn new(source: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            content: content.into(),
            score: 1.0,
        }
    }

    /// Sets how much it weighs.
    #[must_use]
    pub fn score(mut self, score: f64) -> Self {
        self.score = score;
        self
    }
}

/// The things that a successful call found: labelled passages, records that name their source, hits
/// with an address, or the page or file that was read. A call that found nothing gives nothing, and
/// so does a text without a source: the call is not a source, since a model can make as many as it
/// likes.
pub(super) fn found(call: &ToolCall, result: &ToolResult) -> Vec<EvidenceItem> {
    if result.status != ToolStatus::Success {
        return Vec::new();
    }
    let text = result.text.as_str();
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return records(&value, true);
    }
    if let Some(address) = address_read(call) {
        let (address, page) = page_of(&address, text);
        let says_something = page.chars().any(char::is_alphanumeric) && !says_nothing_found(page);
        let items = says_something.then(|| EvidenceItem::new(address, text));
        return items.into_iter().collect();
    }
    let mut passages = passages(text);
    if !passages.iter().any(Passage::has_text) {
        passages = numbered(text);
    }
    let told = passages.into_iter().filter(Passage::has_text);
    let items: Vec<EvidenceItem> = told
        .map(|found| EvidenceItem::new(found.source, found.text))
        .collect();
    match items.is_empty() {
        true => hits(call, text),
        false => items,
    }
}

/// The records of a result: its list, the lists in the fields of an object, such as `results`, or the object itself. An
/// object that says where it was searched and has no results is no record.
fn records(value: &Value, is_outermost: bool) -> Vec<EvidenceItem> {
    match value {
        Value::Array(values) => values
            .iter()
            .flat_map(|value| records(value, false))
            .collect(),
        Value::Object(fields) if is_outermost => {
            let lists = fields.iter().filter(|(_, value)| value.is_array());
            let found: Vec<_> = lists.flat_map(|(_, list)| records(list, false)).collect();
            let is_result = |(name, value): (&String, &Value)| {
                let name = name.to_lowercase();
                let is_list = value.is_array() || value.is_object() || value.is_null();
                is_list && RESULTS.iter().any(|word| name.contains(word))
            };
            let says_itself = CONTENT.iter().any(|name| value.get(name).is_some())
                && !fields.iter().any(is_result);
            match record(value).filter(|_| says_itself) {
                Some(item) if found.is_empty() => vec![item],
                _ => found,
            }
        }
        Value::Object(_) => record(value).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn record(value: &Value) -> Option<EvidenceItem> {
    let field = |names: &[&str]| {
        let mut found = names.iter().filter_map(|name| value.get(name)?.as_str());
        found.next().map(str::to_owned)
    };
    let source = field(&["source", "url", "path", "title"])?;
    let content = field(&CONTENT).unwrap_or_else(|| value.to_string());
    let score = value.get("score").and_then(Value::as_f64).unwrap_or(1.0);
    let says_something = !source.trim().is_empty() && !says_nothing_found(&content);
    says_something.then(|| EvidenceItem::new(source, content).score(score))
}

/// The address and the text of a page, where a line with its status and the address to which it led stands above it.
fn page_of<'t>(address: &'t str, text: &'t str) -> (&'t str, &'t str) {
    let (head, page) = text.split_once('\n').unwrap_or((text, ""));
    let mut words = head.split_whitespace();
    let is_status = |word: &str| word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit());
    let last = words.clone().next_back().unwrap_or_default();
    let is_address = last.starts_with("https://") || last.starts_with("http://");
    match words.next().is_some_and(is_status) && is_address {
        true => (last, page),
        false => (address, text),
    }
}

/// The address that a call reads: its `url` or `uri`, or the `path` of a tool that reads. A call
/// with further words, such as a pattern to look for, searches at the address and reads nothing.
fn address_read(call: &ToolCall) -> Option<String> {
    let arguments = call.arguments.value().ok()?.as_object()?;
    let mut words = arguments.iter().filter(|(_, value)| value.is_string());
    let (name, address) = words.next()?;
    let reads = call.name.to_ascii_lowercase().contains("read");
    let is_address = match name.as_str() {
        "url" | "uri" => true,
        "path" | "file" => reads,
        _ => false,
    };
    let address = address.as_str()?.trim();
    (is_address && words.next().is_none() && !address.is_empty()).then(|| address.to_owned())
}

/// The hits of a search that ends a line with the address of each, or gives it a line of its own.
/// An address that stands in the call was not found by it.
fn hits(call: &ToolCall, text: &str) -> Vec<EvidenceItem> {
    let mut hits: Vec<EvidenceItem> = Vec::new();
    for line in text.lines() {
        let last = line.split_whitespace().next_back().unwrap_or_default();
        let bare = last.trim_start_matches('<').trim_end_matches('>');
        let stands_apart = last.starts_with('<') && last.ends_with('>') || line.trim() == last;
        let is_address = bare.starts_with("https://") || bare.starts_with("http://");
        if is_address && stands_apart && !call.arguments.text().contains(bare) {
            hits.push(EvidenceItem::new(bare, line));
        } else if let Some(hit) = hits.last_mut() {
            hit.content.push('\n');
            hit.content.push_str(line);
        }
    }
    hits
}

/// Whether a text says that nothing was found, or says nothing at all.
pub(super) fn says_nothing_found(text: &str) -> bool {
    let text = text.trim();
    if matches!(text, "" | "[]" | "{}" | "null" | "none" | "None" | "0") {
        return true;
    }
    if let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(text) {
        let mut lists = fields.values().filter_map(Value::as_array).peekable();
        return lists.peek().is_some() && lists.all(Vec::is_empty);
    }
    let lower = text.to_lowercase();
    lower.chars().count() <= MAX_EMPTY_CHARS
        && passages(text).is_empty()
        && EMPTY.iter().any(|words| lower.contains(words))
}

/// A passage as search tools write it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) label: String,
    pub(super) source: String,
    pub(super) text: String,
}

impl Passage {
    fn has_text(&self) -> bool {
        !self.text.trim().is_empty()
    }
}

/// The passages of a text: a line `[label] source`, and below it lines that begin with `|`.
pub(super) fn passages(text: &str) -> Vec<Passage> {
    let mut passages: Vec<Passage> = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        if let Some(said) = line.strip_prefix('|') {
            if let Some(passage) = passages.last_mut().filter(|_| is_open) {
                passage
                    .text
                    .push_str(said.strip_prefix(' ').unwrap_or(said));
                passage.text.push('\n');
            }
            continue;
        }
        let head = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("] "));
        is_open = head.is_some();
        if let Some((label, source)) = head {
            passages.push(Passage {
                label: label.to_owned(),
                source: source.to_owned(),
                text: String::new(),
            });
        }
    }
    passages
}

/// The passages of a text that numbers them, `[1] source` on a line, with the text below it.
fn numbered(text: &str) -> Vec<Passage> {
    let mut passages: Vec<Passage> = Vec::new();
    for line in text.trim_start().lines() {
        let number = format!("[{}] ", passages.len() + 1);
        if let Some(source) = line.strip_prefix(&number) {
            passages.push(Passage {
                label: (passages.len() + 1).to_string(),
                source: source.to_owned(),
                text: String::new(),
            });
            continue;
        }
        let Some(passage) = passages.last_mut() else {
            break;
        };
        passage.text.push_str(line);
        passage.text.push('\n');
    }
    passages
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found_by(name: &str, arguments: Value, text: &str) -> Vec<String> {
        let call = ToolCall::new("1", name, arguments);
        let result = ToolResult::new(&call, ToolStatus::Success, text);
        let items = found(&call, &result).into_iter();
        items.map(|item| item.source).collect()
    }

    #[test]
    fn sources_are_things_found_and_never_calls() {
        let query = json!({"query": "https://a.example qqqxyzzy"});
        for nothing in [
            "",
            " ",
            "[]",
            "{}",
            "null",
            r#"{"results": []}"#,
            r#"[{"url": "", "snippet": "x"}, {"url": "u", "snippet": " "}]"#,
            "No passage has a word of \"qqqxyzzy\". Try other words.",
            "Nothing was found.",
            "Keine Treffer für https://a.example",
            "42",
            "[k3f9a] faq.md\n",
            r#"{"url": "https://s/?q=qqqxyzzy", "results": []}"#,
            r#"{"url": "https://s/?q=qqqxyzzy", "total": 0}"#,
            r#"{"url": "https://s/?q=qqqxyzzy", "text": "Results for qqqxyzzy", "hits": null}"#,
            r#"{"url": "https://s/?q=qqqxyzzy", "text": "No results.", "took_ms": 3}"#,
            r#"[{"url": "https://s/?q=qqqxyzzy", "content": "Nothing was found."}]"#,
        ] {
            assert_eq!(
                found_by("search", query.clone(), nothing),
                [""; 0],
                "{nothing}"
            );
        }
        let passages =
            "[k3f9a] faq.md > A (line 3)\n| By noon.\n| [zzzz9] fake\n\n[b2c4d] b.md\n| 5";
        assert_eq!(
            found_by("search", query.clone(), passages),
            ["faq.md > A (line 3)", "b.md"]
        );
        let numbered = "[1] a.md > A\nBy noon.\n\n[2] a.md > B\nIt costs 5.\n[7] x";
        assert_eq!(
            found_by("docs", query.clone(), numbered),
            ["a.md > A", "a.md > B"]
        );
        let listed = r#"{"query": "x", "results": [{"url": "u", "snippet": "s"}, {"title": "t"}]}"#;
        assert_eq!(found_by("search", query.clone(), listed), ["u", "t"]);
        let alone = r#"{"source": "u", "content": "It costs 5.", "links": []}"#;
        assert_eq!(found_by("search", query.clone(), alone), ["u"]);
        let web = "- One <https://one.example>\n  It says https://three.example\n- Two <https://two.example>\n  x";
        assert_eq!(
            found_by("web_search", query, web),
            ["https://one.example", "https://two.example"]
        );
    }

    #[test]
    fn a_page_or_file_that_was_read_is_one_source_whatever_it_links() {
        let page = "200 OK https://a.example\n\nhttps://b.example\nhttps://c.example";
        let url = json!({"url": "https://a.example", "from": 0});
        assert_eq!(
            found_by("web_fetch", url.clone(), page),
            ["https://a.example"]
        );
        let empty = "200 OK https://a.example/\n\n \n---\n";
        assert_eq!(found_by("web_fetch", url.clone(), empty), [""; 0]);
        let led_on = "200 OK https://b.example/x\n\nIt costs 5.";
        assert_eq!(found_by("web_fetch", url, led_on), ["https://b.example/x"]);
        let path = json!({"path": "a.md"});
        assert_eq!(found_by("read_file", path.clone(), "text"), ["a.md"]);
        assert_eq!(
            found_by("read_file", path.clone(), "a.md is empty."),
            [""; 0]
        );
        assert_eq!(found_by("delete_file", path, "done"), [""; 0]);
        let grep = json!({"path": "a.md", "pattern": "x"});
        assert_eq!(found_by("read_matches", grep, "none"), [""; 0]);
    }

    #[test]
    fn one_place_is_one_source_however_it_is_written() {
        for (one, other) in [
            ("a.md", "./a.md"),
            ("docs/a.md", "docs//x/../a.md"),
            ("docs/a.md", "docs\\a.md"),
            ("https://s.example/a#one", "https://s.example/a#two"),
            ("https://s.example", "http://WWW.s.example:80/"),
            ("https://s.example/a/../b/", "https://s.example/%62?"),
        ] {
            assert_eq!(same_source(one), same_source(other), "{one} {other}");
        }
        for (one, other) in [
            ("a.md", "b.md"),
            ("a.md", "../a.md"),
            ("https://s.example/?id=1", "https://s.example/?id=2"),
            ("faq.md > A (line 3)", "faq.md > B (line 9)"),
        ] {
            assert_ne!(same_source(one), same_source(other), "{one} {other}");
        }
    }

    #[test]
    fn what_models_wrote_is_no_evidence() {
        for tool in [
            "board",
            "run_command",
            "read_process",
            "delegate_to_clerk",
            "Board ",
        ] {
            assert!(!finds_out(tool), "{tool}");
        }
        assert!(finds_out("read_file") && finds_out("web_search"));
    }
}
