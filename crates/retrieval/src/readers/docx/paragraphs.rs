//! From the body of a document to Markdown.

use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};

use super::{MAX_TEXT_BYTES, ReaderError, malformed, styles, value};

/// The text of a document's body.
pub(super) fn text(xml: &str, styles: &styles::Levels) -> Result<String, ReaderError> {
    let mut reader = Reader::from_str(xml);
    let mut body = Body {
        styles,
        text: String::new(),
        left_out: 0,
        alternatives: Vec::new(),
        in_text: false,
        in_run: false,
        hidden: false,
        heading: None,
        outline: None,
        begun: false,
    };
    loop {
        match reader.read_event().map_err(malformed)? {
            Event::Start(tag) => body.start(&tag),
            Event::Empty(tag) if body.left_out == 0 => body.empty(&tag),
            Event::End(tag) => body.end(tag.local_name().as_ref()),
            Event::Text(said) if body.in_text => body.say(&said.xml10_content()),
            Event::GeneralRef(name) if body.in_text => {
                // XML's five predefined entities and character references; other entities need a definition, which is
                // not read.
                match name.resolve_char_ref().map_err(malformed)? {
                    Some(character) => body.say(character.encode_utf8(&mut [0; 4])),
                    None => {
                        let known = quick_xml::escape::resolve_xml_entity(&name);
                        body.say(known.unwrap_or_default());
                    }
                }
            }
            Event::Eof => return Ok(body.text),
            _ => {}
        }
        if body.text.len() > MAX_TEXT_BYTES {
            return Err(ReaderError::TooLarge(MAX_TEXT_BYTES));
        }
    }
}

struct Body<'s> {
    styles: &'s styles::Levels,
    text: String,
    /// How many elements are open from the one on whose content is left out.
    left_out: usize,
    /// For each open choice between contents, whether one is taken.
    alternatives: Vec<bool>,
    in_text: bool,
    in_run: bool,
    /// Whether the text of this run is hidden.
    hidden: bool,
    /// The level of the paragraph as a heading, by its style and by its own outline level.
    heading: Option<usize>,
    outline: Option<usize>,
    /// Whether the paragraph has some text.
    begun: bool,
}

impl Body<'_> {
    fn start(&mut self, tag: &BytesStart<'_>) {
        let name = tag.local_name();
        let name = name.as_ref();
        if self.left_out > 0 || self.leaves_out(name) {
            self.left_out += 1;
            return;
        }
        match name {
            "p" => (self.heading, self.outline, self.begun) = (None, None, false),
            "r" => (self.in_run, self.hidden) = (true, false),
            "t" => self.in_text = true,
            "AlternateContent" => self.alternatives.push(false),
            _ => self.empty(tag),
        }
    }

    /// Whether the content of this element is not text of the document: it was deleted or moved away, it is a former format,
    /// or the same as another one for other programs.
    fn leaves_out(&mut self, name: &str) -> bool {
        match name {
            "del" | "moveFrom" | "pPrChange" | "rPrChange" => true,
            "Choice" | "Fallback" => {
                let taken = self.alternatives.last_mut();
                taken.is_some_and(|taken| std::mem::replace(taken, true))
            }
            _ => false,
        }
    }

    fn empty(&mut self, tag: &BytesStart<'_>) {
        match tag.local_name().as_ref() {
            "br" | "cr" => self.say("\n"),
            "tab" | "ptab" if self.in_run => self.say("\t"),
            "noBreakHyphen" => self.say("-"),
            "pStyle" => self.heading = value(tag).and_then(|style| self.styles.of(&style)),
            "outlineLvl" => self.outline = value(tag).and_then(|level| styles::outline(&level)),
            "vanish" if self.in_run => {
                let value = value(tag);
                self.hidden = !matches!(value.as_deref(), Some("0" | "false" | "off"));
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if self.left_out > 0 {
            self.left_out -= 1;
            return;
        }
        match name {
            "t" => self.in_text = false,
            "r" => (self.in_run, self.hidden) = (false, false),
            "AlternateContent" => drop(self.alternatives.pop()),
            "p" if !self.text.is_empty() && !self.text.ends_with("\n\n") => {
                self.text.push_str("\n\n");
            }
            _ => {}
        }
    }

    fn say(&mut self, said: &str) {
        if self.hidden || said.is_empty() {
            return;
        }
        let level = self.outline.or(self.heading).unwrap_or(0);
        if !self.begun && level > 0 {
            self.text.push_str(&"#".repeat(level));
            self.text.push(' ');
        }
        self.begun = true;
        self.text.push_str(said);
    }
}
