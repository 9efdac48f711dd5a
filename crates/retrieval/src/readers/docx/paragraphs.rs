//! From the body of a document to Markdown.

use std::collections::HashMap;

use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};

use super::{
    MAX_TEXT_BYTES, ReaderError, attribute, is_on, malformed, styles, symbols::Font, value,
};
use crate::{equation::Equation, scripts::Script};

/// Footnotes and endnotes, by the names of the elements that refer to them and by their ids.
pub(super) type Notes = HashMap<(&'static str, String), String>;

/// The text of a document's body, with each note behind the paragraph that refers to it.
pub(super) fn text(
    xml: &str,
    styles: &styles::Styles,
    notes: Notes,
) -> Result<String, ReaderError> {
    let mut body = Body::new(styles);
    body.notes = notes;
    body.read(xml)?;
    Ok(body.text)
}

/// The notes in a part of the document, as far as it can be read.
pub(super) fn notes(xml: &str, styles: &styles::Styles) -> Notes {
    let mut body = Body::new(styles);
    // Notes that cannot be read are missing, and the document is there.
    let _ = body.read(xml);
    body.notes
}

struct Body<'s> {
    styles: &'s styles::Styles,
    text: String,
    /// How many elements are open from the one on whose content is left out.
    left_out: usize,
    /// For each open choice between contents, whether one is taken.
    alternatives: Vec<bool>,
    in_text: bool,
    /// The open paragraphs: a text box has paragraphs of its own inside of a run.
    paragraphs: Vec<Paragraph>,
    /// How many open runs are hidden.
    hiding: usize,
    equation: Equation,
    /// The text beside the line with which the text ends, and where it begins. Several runs may be one exponent.
    script: Option<(Script, usize)>,
    notes: Notes,
    /// The notes to which the paragraph refers.
    due: Vec<String>,
    /// The note that is read.
    note: Option<(&'static str, String)>,
}

#[derive(Default)]
struct Paragraph {
    /// The level of the paragraph as a heading, by its style and by its own outline level.
    heading: Option<usize>,
    outline: Option<usize>,
    /// Whether its style hides its runs.
    hides: bool,
    /// Whether the paragraph has some text.
    begun: bool,
    /// The open runs: the base of a ruby has runs of its own inside of a run.
    runs: Vec<Run>,
}

#[derive(Default)]
struct Run {
    hidden: bool,
    font: Option<Font>,
    script: Option<Script>,
}

impl Run {
    /// Hides the run or shows it, and counts it among those that are hidden.
    fn hide(&mut self, hides: bool, hiding: &mut usize) {
        let hid = std::mem::replace(&mut self.hidden, hides);
        *hiding = *hiding + usize::from(hides) - usize::from(hid);
    }
}

impl<'s> Body<'s> {
    fn new(styles: &'s styles::Styles) -> Self {
        Self {
            styles,
            text: String::new(),
            left_out: 0,
            alternatives: Vec::new(),
            in_text: false,
            paragraphs: Vec::new(),
            hiding: 0,
            equation: Equation::default(),
            script: None,
            notes: Notes::new(),
            due: Vec::new(),
            note: None,
        }
    }

    fn read(&mut self, xml: &str) -> Result<(), ReaderError> {
        let mut reader = Reader::from_str(xml);
        loop {
            match reader.read_event().map_err(malformed)? {
                Event::Start(tag) => self.start(&tag),
                Event::Empty(tag) if self.left_out == 0 => self.empty(&tag),
                Event::End(tag) => self.end(tag.local_name().as_ref()),
                Event::Text(said) if self.in_text => self.write(&said.xml10_content()),
                Event::GeneralRef(name) if self.in_text => {
                    // XML's five predefined entities and character references; other entities need a definition, which
                    // is not read.
                    match name.resolve_char_ref().map_err(malformed)? {
                        Some(character) => self.write(character.encode_utf8(&mut [0; 4])),
                        None => {
                            let known = quick_xml::escape::resolve_xml_entity(&name);
                            self.write(known.unwrap_or_default());
                        }
                    }
                }
                Event::Eof => return Ok(()),
                _ => {}
            }
            if self.text.len() > MAX_TEXT_BYTES {
                return Err(ReaderError::TooLarge(MAX_TEXT_BYTES));
            }
        }
    }

    fn start(&mut self, tag: &BytesStart<'_>) {
        let name = tag.local_name();
        let name = name.as_ref();
        if self.left_out > 0 || self.leaves_out(name) {
            self.left_out += 1;
            return;
        }
        if self.equation.is_open() || name == "oMath" {
            self.end_script();
            self.begin();
            self.equation.start(name, &mut self.text);
        }
        match name {
            "p" => {
                // What stands in a text box is a paragraph of its own.
                if !self.paragraphs.is_empty() {
                    self.break_off();
                }
                self.paragraphs.push(Paragraph::default());
            }
            "r" => {
                if let Some(paragraph) = self.paragraphs.last_mut() {
                    let hidden = paragraph.hides;
                    paragraph.runs.push(Run {
                        hidden,
                        ..Run::default()
                    });
                    self.hiding += usize::from(hidden);
                }
            }
            "t" => self.in_text = true,
            "AlternateContent" => self.alternatives.push(false),
            "footnote" => self.note = Some(("footnoteReference", id(tag))),
            "endnote" => self.note = Some(("endnoteReference", id(tag))),
            _ => self.empty(tag),
        }
    }

    /// Whether the content of this element is not text of the document: it was deleted or moved away, it is a former format,
    /// or the same as another one for other programs. The reading of a ruby would tear the words apart beside which it stands.
    fn leaves_out(&mut self, name: &str) -> bool {
        match name {
            "del" | "moveFrom" | "pPrChange" | "rPrChange" | "rt" => true,
            "Choice" | "Fallback" => {
                let taken = self.alternatives.last_mut();
                taken.is_some_and(|taken| std::mem::replace(taken, true))
            }
            _ => false,
        }
    }

    fn empty(&mut self, tag: &BytesStart<'_>) {
        let paragraph = self.paragraphs.last_mut();
        let run = paragraph.and_then(|paragraph| paragraph.runs.last_mut());
        match (tag.local_name().as_ref(), run) {
            ("br" | "cr", _) => self.say("\n"),
            ("tab" | "ptab", Some(_)) => self.say("\t"),
            ("noBreakHyphen", _) => self.say("-"),
            ("sym", _) => {
                let font = attribute(tag, "font").unwrap_or_default();
                let number = attribute(tag, "char").unwrap_or_default();
                let character = Font::of(&font).numbered(&number);
                self.say(character.encode_utf8(&mut [0; 4]));
            }
            ("pStyle", _) => {
                let style = value(tag).unwrap_or_default();
                let (level, hides) = (self.styles.of(&style), self.styles.hides(&style));
                self.with_paragraph(|paragraph| {
                    paragraph.heading = level;
                    paragraph.hides = hides == Some(true);
                });
            }
            ("outlineLvl", _) => {
                let level = value(tag).and_then(|level| styles::outline(&level));
                self.with_paragraph(|paragraph| paragraph.outline = level);
            }
            ("rFonts", Some(run)) => {
                let name = attribute(tag, "ascii").or_else(|| attribute(tag, "hAnsi"));
                run.font = name.map(|name| Font::of(&name));
            }
            ("vanish", Some(run)) => {
                run.hide(is_on(tag), &mut self.hiding);
            }
            ("vertAlign", Some(run)) => {
                run.script = value(tag).and_then(|place| styles::script(&place));
            }
            ("rStyle", Some(run)) => {
                let style = value(tag).unwrap_or_default();
                run.script = run.script.or(self.styles.script(&style));
                if let Some(hides) = self.styles.hides(&style) {
                    run.hide(hides, &mut self.hiding);
                }
            }
            ("footnoteReference", _) => self.refer("footnoteReference", tag),
            ("endnoteReference", _) => self.refer("endnoteReference", tag),
            (name, _) => {
                if let Some(sign) = value(tag) {
                    self.equation.sign(name, &sign);
                }
            }
        }
    }

    fn with_paragraph(&mut self, change: impl FnOnce(&mut Paragraph)) {
        if let Some(paragraph) = self.paragraphs.last_mut() {
            change(paragraph);
        }
    }

    /// Notes that the paragraph refers to a note. It is told once, also where several places refer to it.
    fn refer(&mut self, kind: &'static str, tag: &BytesStart<'_>) {
        if self.hiding == 0 {
            self.due.extend(self.notes.remove(&(kind, id(tag))));
        }
    }

    fn end(&mut self, name: &str) {
        if self.left_out > 0 {
            self.left_out -= 1;
            return;
        }
        if self.equation.is_open() {
            self.equation.end(&mut self.text);
        }
        match name {
            "t" => self.in_text = false,
            "r" => {
                let paragraph = self.paragraphs.last_mut();
                let ended = paragraph.and_then(|paragraph| paragraph.runs.pop());
                self.hiding -= usize::from(ended.is_some_and(|run| run.hidden));
            }
            "AlternateContent" => drop(self.alternatives.pop()),
            "p" => {
                self.paragraphs.pop();
                self.break_off();
                if self.paragraphs.is_empty() {
                    for note in std::mem::take(&mut self.due) {
                        self.text.push_str(&note);
                    }
                }
            }
            "footnote" | "endnote" => {
                let text = std::mem::take(&mut self.text);
                if let Some(note) = self.note.take() {
                    self.notes.insert(note, text);
                }
            }
            _ => {}
        }
    }

    fn break_off(&mut self) {
        self.end_script();
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push_str("\n\n");
        }
    }

    /// Writes text of a run, in the run's font.
    fn write(&mut self, said: &str) {
        let paragraph = self.paragraphs.last();
        let run = paragraph.and_then(|paragraph| paragraph.runs.last());
        match run.and_then(|run| run.font) {
            None | Some(Font::Other) => self.say(said),
            Some(font) => {
                let said: String = said
                    .chars()
                    .map(|written| font.character(written))
                    .collect();
                self.say(&said);
            }
        }
    }

    fn say(&mut self, said: &str) {
        if self.hiding > 0 || said.is_empty() {
            return;
        }
        let paragraph = self.paragraphs.last();
        let run = paragraph.and_then(|paragraph| paragraph.runs.last());
        // A line that ends, or a tab, ends what stands beside the line.
        let script = run.and_then(|run| run.script);
        let script = script.filter(|_| !said.trim().is_empty());
        if self.script.map(|(open, _)| open) != script {
            self.end_script();
        }
        self.begin();
        self.equation.before(said, &mut self.text);
        if self.script.is_none() {
            self.script = script.map(|script| (script, self.text.len()));
        }
        self.text.push_str(said);
    }

    /// Writes what stands beside the line so that it is seen.
    fn end_script(&mut self) {
        if let Some((script, begin)) = self.script.take() {
            script.apply(&mut self.text, begin);
        }
    }

    /// Writes the mark of a heading before its text.
    fn begin(&mut self) {
        if let Some(paragraph) = self.paragraphs.last_mut() {
            let level = paragraph.outline.or(paragraph.heading).unwrap_or(0);
            if !paragraph.begun && level > 0 {
                self.text.push_str(&"#".repeat(level));
                self.text.push(' ');
            }
            paragraph.begun = true;
        }
    }
}

fn id(tag: &BytesStart<'_>) -> String {
    attribute(tag, "id").unwrap_or_default()
}
