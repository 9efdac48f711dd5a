//! The tolerant reader of one array or object.
//!
//! Its stack is a vector, so that nesting uses memory and never the thread's stack. It never gives
//! up on a value that it has begun. Each step consumes at least one character or closes at least
//! one level, so that every text ends in a value and the cost stays linear.

use serde_json::{Map, Value};

use super::cursor::{Cursor, is_blank};
use super::false_start;
use super::markup;
use super::quoted::{self, Place, Quoted, Role};
use super::reading::{JsonError, MAX_DEPTH, MAX_REPAIRS, ReadOptions, Reading, Repair, RepairKind};
use super::scalar;

/// The result of looking for a value at an opening bracket.
#[derive(Debug)]
pub(super) enum Attempt {
    /// A value; the cursor is after it.
    Value(Reading),
    /// The bracket belongs to prose or code; the search continues at this index.
    Nothing(usize),
}

/// Reads the array or object whose opening bracket the cursor is at.
pub(super) fn read(
    cursor: &mut Cursor<'_>,
    limits: &ReadOptions,
    is_fenced: bool,
) -> Result<Attempt, JsonError> {
    if let Some(resume) = false_start::after_false_start(cursor) {
        return Ok(Attempt::Nothing(resume));
    }
    let start = cursor.at;
    let mut reader = Reader {
        cursor,
        depth: limits.max_depth.min(MAX_DEPTH),
        is_fenced,
        stack: Vec::new(),
        arrays: 0,
        finished: None,
        repairs: Vec::new(),
    };
    reader.open()?;
    while reader.finished.is_none() {
        reader.advance()?;
    }
    let value = reader.finished.unwrap_or_default();
    let mut repairs = reader.repairs;
    // A trailing comma is recognised only after the text behind it was read.
    repairs.sort_by_key(|repair| repair.span.start);
    Ok(Attempt::Value(Reading {
        value,
        repairs,
        span: start..cursor.at,
    }))
}

/// An open level.
#[derive(Debug)]
struct Level {
    content: Content,
    /// The position of the last comma, if nothing came after it.
    comma: Option<usize>,
    /// Whether an element or member is complete, so that a comma or the end must follow.
    is_after_element: bool,
}

#[derive(Debug)]
enum Content {
    Array(Vec<Value>),
    /// The members, and the key whose value comes next.
    Object(Map<String, Value>, Option<String>),
}

struct Reader<'c, 't> {
    cursor: &'c mut Cursor<'t>,
    depth: usize,
    is_fenced: bool,
    stack: Vec<Level>,
    /// How many levels of the stack are arrays.
    arrays: usize,
    finished: Option<Value>,
    repairs: Vec<Repair>,
}

impl Reader<'_, '_> {
    /// Takes the next token, of whatever kind.
    fn advance(&mut self) -> Result<(), JsonError> {
        self.skip_blanks_and_comments();
        let at = self.cursor.at;
        let Some(character) = self.cursor.character(at) else {
            self.close_all(RepairKind::Truncated);
            return Ok(());
        };
        if markup::ends_value(self.cursor, at) {
            self.close_all(RepairKind::MissingClose);
            return Ok(());
        }
        match character {
            '}' | ']' => self.closing_bracket(character),
            ',' => self.comma(),
            '{' | '[' => return self.opening_bracket(),
            _ if self.role() == Role::Key => self.key(character),
            ':' | '=' | '>' | ';' | ')' => self.skip(),
            _ if quoted::opens(character) => self.string(),
            _ => self.word(),
        }
        Ok(())
    }

    /// The role that a token at this position has.
    fn role(&self) -> Role {
        match self.stack.last().map(|level| &level.content) {
            Some(Content::Array(_)) => Role::Item,
            Some(Content::Object(_, None)) => Role::Key,
            Some(Content::Object(_, Some(_))) => Role::Member,
            None => Role::Root,
        }
    }

    fn opening_bracket(&mut self) -> Result<(), JsonError> {
        if self.role() != Role::Key {
            return self.open();
        }
        // No key begins with a bracket. Inside an array the object must have ended here; otherwise
        // the whole value is unfinished and another one begins.
        if self.arrays == 0 {
            self.close_all(RepairKind::MissingClose);
        } else {
            self.note_missing(RepairKind::MissingClose);
            self.close();
        }
        Ok(())
    }

    /// Opens the level of the bracket at the cursor.
    fn open(&mut self) -> Result<(), JsonError> {
        let at = self.cursor.at;
        if self.stack.len() >= self.depth {
            return Err(JsonError::TooDeep {
                at,
                limit: self.depth,
            });
        }
        self.before_element();
        self.cursor.at += 1;
        let content = if self.cursor.peek(at) == Some(b'[') {
            self.arrays += 1;
            Content::Array(Vec::new())
        } else {
            Content::Object(Map::new(), None)
        };
        self.stack.push(Level {
            content,
            comma: None,
            is_after_element: false,
        });
        Ok(())
    }

    fn closing_bracket(&mut self, bracket: char) {
        let closes_array = bracket == ']';
        let is_open = if closes_array {
            self.arrays > 0
        } else {
            self.stack.len() > self.arrays
        };
        if !is_open {
            return self.skip();
        }
        let Some(level) = self.stack.last() else {
            return;
        };
        let fits = matches!(level.content, Content::Array(_)) == closes_array;
        if let Some(comma) = level.comma {
            self.note(RepairKind::TrailingComma, comma, comma + 1);
        }
        if fits {
            self.cursor.at += 1;
        } else {
            self.note_missing(RepairKind::MissingClose);
        }
        self.close();
    }

    fn comma(&mut self) {
        let at = self.cursor.at;
        if self.role() == Role::Member {
            self.note_missing(RepairKind::MissingValue);
            self.place(Value::Null);
        }
        let Some(level) = self.stack.last_mut() else {
            return;
        };
        if std::mem::take(&mut level.is_after_element) {
            level.comma = Some(at);
            self.cursor.at += 1;
        } else {
            self.skip();
        }
    }

    fn key(&mut self, character: char) {
        let start = self.cursor.at;
        if quoted::opens(character) {
            self.before_element();
            let key = self.quoted(Role::Key);
            // A key that is cut off at the end of the text is unknown, and so is its value.
            if key.is_closed {
                self.take_key(key.text);
            }
            return;
        }
        let end = self.cursor.after_run(start, quoted::is_of_name);
        if end == self.cursor.end() {
            self.cursor.at = end;
            return;
        }
        if !quoted::bare_key_follows(self.cursor, start) {
            return self.skip();
        }
        self.before_element();
        self.note(RepairKind::UnquotedKey, start, end);
        self.cursor.at = end;
        self.take_key(self.cursor.slice(start..end).to_owned());
    }

    /// Uses `text` as the key, and takes the colon after it.
    fn take_key(&mut self, text: String) {
        if let Some(Level {
            content: Content::Object(_, key),
            ..
        }) = self.stack.last_mut()
        {
            *key = Some(text);
        }
        self.skip_blanks_and_comments();
        let at = self.cursor.at;
        match self.cursor.character(at) {
            None | Some('}' | ']' | ',') => {}
            Some(':') => self.cursor.at += 1,
            Some('=') => {
                let length = if self.cursor.is_at(at, "=>") { 2 } else { 1 };
                self.cursor.at += length;
                self.note(RepairKind::MissingColon, at, at + length);
            }
            Some(_) => self.note_missing(RepairKind::MissingColon),
        }
    }

    fn string(&mut self) {
        self.before_element();
        let role = self.role();
        let string = self.quoted(role);
        self.place(Value::String(string.text));
    }

    fn quoted(&mut self, role: Role) -> Quoted {
        let objects = self.stack.len() - self.arrays;
        let place = Place {
            role,
            arrays: self.arrays,
            objects,
            is_fenced: self.is_fenced,
        };
        let mut repairs = Vec::new();
        let string = quoted::read(self.cursor, place, &mut repairs);
        for repair in repairs {
            self.note(repair.kind, repair.span.start, repair.span.end);
        }
        string
    }

    /// Takes a literal, a number, or an unquoted text.
    fn word(&mut self) {
        let start = self.cursor.at;
        let end = scalar::end_of_word(self.cursor, start);
        let word = self.cursor.slice(start..end);
        let is_cut = end == self.cursor.end();
        let known = if is_cut {
            scalar::complete(word)
        } else {
            scalar::classify(word)
        };
        if let Some((value, kind)) = known.filter(|_| is_cut || self.stands_alone(end)) {
            return self.place_word(value, kind, end);
        }
        if is_cut && matches!(word, "-" | "+") {
            self.cursor.at = end;
            return;
        }
        let is_element = self
            .stack
            .last()
            .is_some_and(|level| !level.is_after_element);
        if !is_element || !word.chars().any(char::is_alphanumeric) {
            return self.skip();
        }
        let text = self.bare_text(start);
        let end = start + text.len();
        self.place_word(Value::String(text), Some(RepairKind::UnquotedText), end);
    }

    fn place_word(&mut self, value: Value, kind: Option<RepairKind>, end: usize) {
        self.before_element();
        if let Some(kind) = kind {
            self.note(kind, self.cursor.at, end);
        }
        self.cursor.at = end;
        self.place(value);
    }

    /// Whether the literal or number that ends at `end` is the whole value, rather than the first
    /// word of a text (`5 km`).
    fn stands_alone(&self, end: usize) -> bool {
        let next = self.cursor.after_run(end, |c| c != '\n' && is_blank(c));
        match self.cursor.character(next) {
            None | Some(',' | '}' | ']' | '{' | '[' | ';' | ')' | '\n' | '#') => true,
            Some('/') => matches!(self.cursor.peek(next + 1), Some(b'/' | b'*')),
            Some('`' | '<') => markup::ends_value(self.cursor, next),
            Some(character) if quoted::opens(character) => true,
            Some(_) => {
                let word = self
                    .cursor
                    .slice(next..scalar::end_of_word(self.cursor, next));
                word.ends_with(':') || scalar::classify(word).is_some()
            }
        }
    }

    /// The unquoted text that begins at `start`, up to the end of the element or line.
    fn bare_text(&self, start: usize) -> String {
        let mut at = start;
        while let Some(character) = self.cursor.character(at) {
            let is_end = match character {
                ',' | '}' | ']' | '\n' => true,
                '`' | '<' => markup::ends_value(self.cursor, at),
                '"' => quoted::key_follows(self.cursor, at),
                _ => false,
            };
            if is_end {
                break;
            }
            at += character.len_utf8();
        }
        self.cursor.slice(start..at).trim_end().to_owned()
    }

    /// Skips text that fits nowhere, up to the next character that could fit.
    fn skip(&mut self) {
        let start = self.cursor.at;
        let mut at = start + self.cursor.character(start).map_or(1, char::len_utf8);
        while let Some(character) = self.cursor.character(at) {
            let is_structure = matches!(character, ',' | '}' | ']' | '{' | '[' | '\n');
            if is_structure || markup::ends_value(self.cursor, at) {
                break;
            }
            let is_in_word = self
                .cursor
                .slice(start..at)
                .ends_with(char::is_alphanumeric);
            let begins_word = character.is_alphanumeric() && !self.skips_words();
            if !is_in_word && (begins_word || quoted::opens(character)) {
                break;
            }
            at += character.len_utf8();
        }
        self.cursor.at = at;
        self.note(RepairKind::Skipped, start, at);
    }

    /// Whether words are skipped here, too: where a comma or key must follow, but not before a
    /// value.
    fn skips_words(&self) -> bool {
        let is_value_due = self.role() == Role::Member
            || self.stack.last().is_some_and(|level| {
                matches!(level.content, Content::Array(_)) && !level.is_after_element
            });
        !is_value_due
    }

    fn skip_blanks_and_comments(&mut self) {
        loop {
            let start = self.cursor.after_blanks(self.cursor.at);
            self.cursor.at = start;
            let end = match self.cursor.peek(start) {
                Some(b'#') => self.end_of_line(start),
                Some(b'/') if self.cursor.peek(start + 1) == Some(b'/') => self.end_of_line(start),
                Some(b'/') if self.cursor.peek(start + 1) == Some(b'*') => {
                    let is_end = |at: &usize| self.cursor.is_at(*at, "*/");
                    let end = self.cursor.end();
                    (start + 2..end).find(is_end).map_or(end, |at| at + 2)
                }
                _ => return,
            };
            self.cursor.at = end;
            self.note(RepairKind::Comment, start, end);
        }
    }

    fn end_of_line(&self, start: usize) -> usize {
        self.cursor.after_run(start, |character| character != '\n')
    }

    /// Notes a missing comma before the element that begins here.
    fn before_element(&mut self) {
        let Some(level) = self.stack.last_mut() else {
            return;
        };
        level.comma = None;
        if std::mem::take(&mut level.is_after_element) {
            self.note_missing(RepairKind::MissingComma);
        }
    }

    /// Puts a value where it belongs.
    fn place(&mut self, value: Value) {
        let Some(level) = self.stack.last_mut() else {
            self.finished = Some(value);
            return;
        };
        match &mut level.content {
            Content::Array(items) => items.push(value),
            Content::Object(members, key) => {
                if let Some(key) = key.take() {
                    members.insert(key, value);
                }
            }
        }
        level.is_after_element = true;
    }

    /// Closes the innermost level and puts it into its parent.
    fn close(&mut self) {
        if self.role() == Role::Member {
            self.note_missing(RepairKind::MissingValue);
            self.place(Value::Null);
        }
        match self.stack.pop().map(|level| level.content) {
            Some(Content::Array(items)) => {
                self.arrays -= 1;
                self.place(Value::Array(items));
            }
            Some(Content::Object(members, _)) => self.place(Value::Object(members)),
            None => {}
        }
    }

    /// Closes everything because the value ends here, and drops a key that has no value yet.
    fn close_all(&mut self, kind: RepairKind) {
        let at = self.cursor.at;
        self.repairs.push(Repair { kind, span: at..at });
        while !self.stack.is_empty() {
            if let Some(Level {
                content: Content::Object(_, key),
                ..
            }) = self.stack.last_mut()
            {
                *key = None;
            }
            self.close();
        }
    }

    fn note_missing(&mut self, kind: RepairKind) {
        self.note(kind, self.cursor.at, self.cursor.at);
    }

    fn note(&mut self, kind: RepairKind, start: usize, end: usize) {
        if self.repairs.len() < MAX_REPAIRS {
            self.repairs.push(Repair {
                kind,
                span: start..end,
            });
        }
    }
}
