//! A question as its answerer sees it at a terminal: everything that takes effect is shown, no line
//! can be taken for another, and long texts are folded until the person asks for them.

use ghostlight_actors::vocabulary::{Digest, Question, ToolCall};
use serde_json::Value;

/// The columns of a line of text.
const WIDTH: usize = 72;
/// The most lines of a text that is not folded.
const LINES: usize = 12;
/// The lines of a folded text that are shown of its beginning, and of its end.
const SHOWN: [usize; 2] = [8, 3];
/// The most lines of a folded call.
const MOST: usize = 120;
/// The deepest indentation of a value.
const DEEP: usize = 12;
/// The lines of a page.
pub(super) const PAGE: usize = 100;

/// How much of a question is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// A long text is shown as its beginning, its end, its size and its digest.
    Long,
    /// Everything.
    Nothing,
}

/// The lines of a question.
#[derive(Debug)]
pub(super) struct Asked {
    /// The question, and the call that it is about. No character in them acts on a terminal.
    pub(super) lines: Vec<String>,
    /// Whether a part of it is folded.
    pub(super) folded: bool,
    /// Whether secrets were left out.
    pub(super) redacted: bool,
}

impl Asked {
    /// The question with the call and the options that it is about.
    pub(super) fn of(question: &Question, fold: Fold) -> Self {
        let mut writer = Writer {
            fold,
            lines: Vec::new(),
            folded: false,
        };
        let options = match question.options.as_slice() {
            [] => String::new(),
            options => {
                let labels = options.iter().map(|option| question.label(option));
                format!(" ({})", labels.collect::<Vec<_>>().join(" / "))
            }
        };
        let fields = question.schema.as_ref().map(fields).unwrap_or_default();
        writer.prompt(&format!("{}{options}{fields}", question.prompt));
        if let Some(call) = &question.call {
            writer.call(call, question.digest);
        }
        let redacted = writer.lines.iter().any(|line| line.contains("⟦redacted "));
        Self {
            lines: writer.lines,
            folded: writer.folded,
            redacted,
        }
    }

    /// All lines as one text.
    pub(super) fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// The fields of a form, each with its schema.
fn fields(schema: &Value) -> String {
    let required = schema.get("required").and_then(Value::as_array);
    let properties = schema.get("properties").and_then(Value::as_object);
    let fields = properties.into_iter().flatten().map(|(name, schema)| {
        let is_required = required.is_some_and(|all| all.iter().any(|one| one == name.as_str()));
        let mark = if is_required {
            ""
        } else {
            " (may be left out)"
        };
        format!("\n- {name}{mark}: {schema}")
    });
    fields.collect()
}

/// The question with no secret left out of the call that it is about.
pub(super) fn revealed(question: &Question, call: &ToolCall) -> Question {
    let mut revealed = question.clone();
    let arguments = match call.arguments.value() {
        Ok(arguments) => ghostlight_safety::visible_value(arguments),
        Err(_) => Value::String(ghostlight_safety::visible(call.arguments.text()).into_owned()),
    };
    revealed.call = Some(ToolCall::new(call.id.clone(), call.name.clone(), arguments));
    revealed
}

struct Writer {
    fold: Fold,
    lines: Vec<String>,
    folded: bool,
}

impl Writer {
    fn line(&mut self, depth: usize, text: &str) {
        let indent = "  ".repeat(depth);
        self.lines
            .push(format!("{indent}{}", ghostlight_safety::printable(text)));
    }

    /// The first line of the question, and the other lines with a mark that they belong to it.
    fn prompt(&mut self, prompt: &str) {
        let mut lines = rows(prompt).into_iter();
        let first = lines.next().map_or_else(String::new, |row| row.text);
        self.line(0, &first);
        let rest: Vec<Row> = lines.collect();
        self.rows(0, &rest, prompt);
    }

    fn call(&mut self, call: &ToolCall, digest: Option<Digest>) {
        let digest = digest.map_or_else(String::new, |digest| format!(", digest {digest}"));
        let name = named(&ghostlight_safety::visible(&call.name), self.fold);
        match call.arguments.value() {
            Ok(Value::Object(fields)) => {
                let count = match fields.len() {
                    1 => String::from("1 argument"),
                    more => format!("{more} arguments"),
                };
                self.line(1, &format!("{name}: {count}{digest}"));
                let from = self.lines.len();
                for (place, (name, value)) in fields.iter().enumerate() {
                    if self.fold == Fold::Long && self.lines.len() - from >= MOST {
                        self.folded = true;
                        let more = fields.len() - place;
                        self.line(2, &format!("⟦{more} more arguments are not shown here⟧"));
                        return;
                    }
                    self.value(2, &named(name, self.fold), value);
                }
            }
            Ok(other) => {
                self.line(1, &format!("{name}{digest}"));
                self.value(2, "arguments", other);
            }
            Err(_) => {
                self.line(1, &format!("{name}{digest}"));
                self.text(2, "arguments", call.arguments.text());
            }
        }
    }

    fn value(&mut self, depth: usize, name: &str, value: &Value) {
        match value {
            Value::String(text) => self.text(depth, name, text),
            Value::Object(fields) if !fields.is_empty() && depth < DEEP => {
                self.line(depth, &format!("{name}:"));
                let fields = fields
                    .iter()
                    .map(|(name, value)| (named(name, self.fold), value));
                self.items(depth + 1, fields.collect());
            }
            Value::Array(items) if !items.is_empty() && depth < DEEP => {
                self.line(depth, &format!("{name}:"));
                let items = items.iter().enumerate();
                let items = items.map(|(place, item)| (format!("[{place}]"), item));
                self.items(depth + 1, items.collect());
            }
            other => {
                let text = other.to_string();
                match text.len() <= WIDTH {
                    true => self.line(depth, &format!("{name}: {text}")),
                    false => self.text(depth, name, &text),
                }
            }
        }
    }

    fn items(&mut self, depth: usize, items: Vec<(String, &Value)>) {
        let from = self.lines.len();
        let count = items.len();
        for (place, (name, value)) in items.into_iter().enumerate() {
            if self.fold == Fold::Long && self.lines.len() - from >= MOST / 4 {
                self.folded = true;
                let more = count - place;
                self.line(depth, &format!("⟦{more} more are not shown here⟧"));
                return;
            }
            self.value(depth, &name, value);
        }
    }

    /// A short text stands in quotation marks; each line of a longer one begins with a mark.
    fn text(&mut self, depth: usize, name: &str, text: &str) {
        let rows = rows(text);
        if let [row] = rows.as_slice() {
            return self.line(depth, &format!("{name}: \"{}\"", row.text));
        }
        let (characters, lines) = (text.chars().count(), text.split('\n').count());
        let lines = match lines {
            1 => String::from("1 line"),
            more => format!("{more} lines"),
        };
        self.line(depth, &format!("{name}: {characters} characters, {lines}"));
        self.rows(depth, &rows, text);
    }

    fn rows(&mut self, depth: usize, rows: &[Row], whole: &str) {
        let [begin, end] = SHOWN;
        if self.fold == Fold::Nothing || rows.len() <= LINES {
            rows.iter().for_each(|row| self.row(depth, row));
            return;
        }
        self.folded = true;
        let hidden = &rows[begin..rows.len() - end];
        rows[..begin].iter().for_each(|row| self.row(depth, row));
        let characters: usize = hidden.iter().map(|row| row.text.chars().count()).sum();
        let digest = Digest::of(whole.as_bytes()).to_string();
        let note = format!(
            "⟦{characters} characters on {} lines are not shown here; the digest of the whole text is {}⟧",
            hidden.len(),
            &digest[..16]
        );
        self.line(depth, &note);
        rows[rows.len() - end..]
            .iter()
            .for_each(|row| self.row(depth, row));
    }

    fn row(&mut self, depth: usize, row: &Row) {
        let mark = if row.begins { '|' } else { '+' };
        self.line(depth, &format!("{mark} {}", row.text));
    }
}

/// A piece of a text that fits a terminal's line.
struct Row {
    text: String,
    /// Whether a line of the text begins here; if not, this row continues one that was too long.
    begins: bool,
}

fn rows(text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for line in text.split('\n') {
        let (mut row, mut columns, mut begins) = (String::new(), 0, true);
        for c in line.chars() {
            // A character outside ASCII may take two columns, so it counts as two. A tab is written
            // as an escape.
            let width = match c {
                '\t' => 5,
                c if c.is_ascii() => 1,
                _ => 2,
            };
            if columns + width > WIDTH {
                let text = std::mem::take(&mut row);
                rows.push(Row { text, begins });
                (columns, begins) = (0, false);
            }
            match c {
                // The width of a tab depends on the terminal.
                '\t' => row.push_str("\\u{9}"),
                c => row.push(c),
            }
            columns += width;
        }
        rows.push(Row { text: row, begins });
    }
    rows
}

/// A name on one line, in quotation marks where it could be taken for something else.
fn named(name: &str, fold: Fold) -> String {
    let name = ghostlight_safety::printable(name)
        .replace('\n', "\\u{a}")
        .replace('\t', "\\u{9}");
    let count = name.chars().count();
    if count > WIDTH && fold == Fold::Long {
        let begin: String = name.chars().take(WIDTH / 2).collect();
        return format!("\"{begin}\"⟦the first {} of {count} characters⟧", WIDTH / 2);
    }
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$' | '@');
    match !name.is_empty() && name.chars().all(plain) {
        true => name,
        false => format!("\"{name}\""),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(arguments: Value, fold: Fold) -> Vec<String> {
        let call = ToolCall::new("1", "shell", arguments);
        let question = Question::approval("May it?", call);
        Asked::of(&question, fold).lines
    }

    #[test]
    fn each_argument_has_lines_of_its_own_and_none_looks_like_another() {
        let arguments = json!({
            "a": "# all is well\nb: \"x\"", "b": "rm \\u{1b}", "n": 3, "list": [true, { "x y": "" }],
            "wide": format!("{}c: \"x\"", " ".repeat(WIDTH)),
        });
        let expected = [
            "May it?",
            "  shell: 5 arguments",
            "    a: 20 characters, 2 lines",
            "    | # all is well",
            "    | b: \"x\"",
            "    b: \"rm \\u{1b}\"",
            "    list:",
            "      [0]: true",
            "      [1]:",
            "        \"x y\": \"\"",
            "    n: 3",
            "    wide: 78 characters, 1 line",
            &format!("    | {}", " ".repeat(WIDTH)),
            "    + c: \"x\"",
        ];
        assert_eq!(lines(arguments, Fold::Long), expected);
    }

    #[test]
    fn a_long_argument_is_folded_with_its_size_and_hides_no_other() {
        let long = (0..1000).map(|n| format!("line {n}\n")).collect::<String>();
        let arguments = json!({ "a": long, "z": "rm -rf ~" });
        let shown = lines(arguments.clone(), Fold::Long);
        assert!(shown.len() < 20, "{shown:#?}");
        let fold = shown.iter().find(|line| line.contains('⟦')).unwrap();
        assert!(fold.contains("on 990 lines are not shown here"), "{fold}");
        assert_eq!(shown.last().unwrap(), "    z: \"rm -rf ~\"");
        let all = lines(arguments, Fold::Nothing);
        assert_eq!(all.len(), 2 + 1 + 1001 + 1);
        let many: serde_json::Map<String, Value> =
            (0..5000).map(|n| (format!("n{n}"), json!(n))).collect();
        let shown = lines(Value::Object(many), Fold::Long);
        let last = shown.last().unwrap();
        assert_eq!(last, "    ⟦4880 more arguments are not shown here⟧");
    }

    #[test]
    fn a_question_is_one_line_where_it_can_be() {
        let question = Question::choice("Which colour?", ["red", "blue"]);
        let asked = Asked::of(&question, Fold::Long);
        assert_eq!(asked.lines, ["Which colour? (red / blue)"]);
        assert!(!asked.folded && !asked.redacted);
        let question = Question::new("one\n[yes / no] \u{1b}[2J");
        let asked = Asked::of(&question, Fold::Long);
        assert_eq!(asked.lines, ["one", "| [yes / no] \\u{1b}[2J"]);
    }
}
