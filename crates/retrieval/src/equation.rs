//! Equations in one line, as they are typed: `x^2`, `(a+b)/c`, `√2`. Without these signs 10⁵ would be read as 105. Word processors
//! write them as elements of OMML, whose parts have names, and pages of the web as MathML, whose parts differ by their place.
#![cfg_attr(
    not(feature = "documents"),
    allow(dead_code, reason = "only readers of documents meet OMML")
)]

/// The longest content that is put into parentheses.
const MAX_GROUP: usize = 1_000;

/// The open elements of an equation.
#[derive(Debug, Default)]
pub(crate) struct Equation {
    open: Vec<Element>,
    /// How many open elements take text, of which MathML has some.
    tokens: usize,
    behind: Behind,
}

#[derive(Debug)]
struct Element {
    part: Option<Operand>,
    kind: Kind,
}

/// A part that is one operand.
#[derive(Clone, Copy, Debug)]
struct Operand {
    /// Where the sign before it begins, and where it begins itself.
    before: usize,
    begin: usize,
    /// Where it is put when it ends: the index of a root is written behind it.
    to: Option<usize>,
}

#[derive(Debug)]
enum Kind {
    Plain,
    /// A root, whose operand is a part of its own.
    Radical,
    Fraction(&'static str),
    /// A limit below or above a name, with the sign for it.
    Limit(&'static str),
    /// The name of a function.
    Name,
    /// A mark over what stands in it.
    Accent(String),
    /// A sum, a product or an integral, with its sign until it is written.
    Operator(String),
    /// Parts between two marks, with the mark between them, and whether a part has begun.
    Delimited([String; 3], bool),
    /// One operand.
    Group(Operand),
    /// Parts by their places: the sign before each, the number of the next one, and where the first begins.
    Placed(&'static [&'static str], usize, usize),
    /// Text that is typed, and where it begins.
    Token(Class, usize),
    /// An equation with what it is in other notations, and where it begins.
    Semantics(usize),
    /// The equation in TeX, which takes the place of what begins at the one place; it begins itself at the other.
    Tex(usize, usize),
}

/// The kind of what is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Name,
    Number,
    Sign,
    Text,
}

/// The end of the text, as far as what follows must be kept apart from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Behind {
    #[default]
    Nothing,
    Number,
    /// An operand or a word: what follows is no part of it.
    Whole,
}

/// The sign of a part that is one operand behind no sign.
const GROUP: &str = "(";
/// The sign of a root's index.
const INDEX: &str = "<";

impl Equation {
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether text that stands here is typed: between the elements of MathML it is only layout.
    pub(crate) fn takes_text(&self) -> bool {
        self.tokens > 0
    }

    /// Begins an element of OMML, and writes the sign before it.
    pub(crate) fn start(&mut self, name: &str, text: &mut String) {
        let parent = self.open.last_mut().map(|open| &mut open.kind);
        let part = match (name, parent) {
            ("num" | "deg", _) => Some(apart(text)),
            ("den", Some(Kind::Fraction(sign))) => Some(operand(sign, text)),
            ("lim", Some(Kind::Limit(sign))) => Some(operand(sign, text)),
            ("e", Some(Kind::Radical)) => Some(operand("√", text)),
            ("e" | "mr", Some(Kind::Delimited(marks, begun))) => {
                next_part(marks, begun, text);
                None
            }
            ("sub" | "sup" | "e", parent) => {
                if let Some(Kind::Operator(sign)) = parent {
                    text.push_str(&std::mem::take(sign));
                }
                match name {
                    "sub" => Some(operand("_", text)),
                    "sup" => Some(operand("^", text)),
                    _ => None,
                }
            }
            _ => None,
        };
        let kind = match name {
            "rad" => Kind::Radical,
            "f" => Kind::Fraction("/"),
            "limLow" => Kind::Limit("_"),
            "limUpp" => Kind::Limit("^"),
            "fName" => Kind::Name,
            "acc" => Kind::Accent("\u{302}".to_owned()),
            "nary" => Kind::Operator("∫".to_owned()),
            "d" => Kind::Delimited(["(", ")", "|"].map(str::to_owned), false),
            "m" | "eqArr" => rows(),
            "mr" => cells(),
            _ => Kind::Plain,
        };
        self.open.push(Element { part, kind });
    }

    /// A sign that the properties of an element of OMML name; it may be none.
    pub(crate) fn sign(&mut self, name: &str, sign: &str) {
        let above = self.open.iter_mut().rev().nth(1);
        match (name, above.map(|above| &mut above.kind)) {
            ("chr", Some(Kind::Operator(own) | Kind::Accent(own)))
            | ("begChr", Some(Kind::Delimited([own, ..], _)))
            | ("endChr", Some(Kind::Delimited([_, own, _], _)))
            | ("sepChr", Some(Kind::Delimited([.., own], _))) => sign.clone_into(own),
            ("type", Some(Kind::Fraction(own))) if sign == "noBar" => *own = "¦",
            _ => {}
        }
    }

    /// Begins an element of MathML with these attributes, and writes the sign before it.
    pub(crate) fn start_mathml(
        &mut self,
        name: &str,
        attribute: impl Fn(&str) -> Option<String>,
        text: &mut String,
    ) {
        let parent = self.open.last_mut().map(|open| &mut open.kind);
        let (mut part, mut around) = (None, None);
        match parent {
            // It is no part itself.
            Some(Kind::Placed(..)) if name == "mprescripts" => {}
            Some(Kind::Placed(signs, next, begin)) => {
                let sign = signs.get(*next).copied().unwrap_or_default();
                *next += 1;
                part = match sign {
                    "" => None,
                    GROUP => Some(apart(text)),
                    INDEX => Some(Operand {
                        to: Some(*begin),
                        ..operand("", text)
                    }),
                    sign => Some(operand(sign, text)),
                };
            }
            Some(Kind::Delimited(marks, begun)) => next_part(marks, begun, text),
            Some(Kind::Semantics(begin)) => around = Some(*begin),
            _ => {}
        }
        if part.is_some() {
            // Its sign keeps it apart.
            self.behind = Behind::Nothing;
        }
        let begin = text.len();
        let given = |name: &str, usual: &str| attribute(name).unwrap_or_else(|| usual.to_owned());
        let kind = match name {
            // What stands in text is text.
            _ if self.takes_text() => Kind::Plain,
            "mi" => Kind::Token(Class::Name, begin),
            "mn" => Kind::Token(Class::Number, begin),
            "mo" => Kind::Token(Class::Sign, begin),
            "mtext" | "ms" => Kind::Token(Class::Text, begin),
            "msqrt" => Kind::Group(operand("√", text)),
            "mroot" => Kind::Placed(&["√", INDEX], 0, begin),
            "mfrac" if is_nothing(&given("linethickness", "1")) => {
                Kind::Placed(&[GROUP, "¦"], 0, begin)
            }
            "mfrac" => Kind::Placed(&[GROUP, "/"], 0, begin),
            "msup" | "mover" => Kind::Placed(&["", "^"], 0, begin),
            "msub" | "munder" => Kind::Placed(&["", "_"], 0, begin),
            "msubsup" | "munderover" => Kind::Placed(&["", "_", "^"], 0, begin),
            "mmultiscripts" => Kind::Placed(&["", "_", "^", "_", "^", "_", "^"], 0, begin),
            "mfenced" => {
                let between = given("separators", ",").trim().chars().take(1).collect();
                Kind::Delimited([given("open", "("), given("close", ")"), between], false)
            }
            "mtable" => rows(),
            "mtr" | "mlabeledtr" => cells(),
            "semantics" => Kind::Semantics(begin),
            "annotation" => around.map_or(Kind::Plain, |from| Kind::Tex(from, begin)),
            "mspace" => {
                self.behind = Behind::Whole;
                Kind::Plain
            }
            _ => Kind::Plain,
        };
        self.tokens += usize::from(kind.takes_text());
        self.open.push(Element { part, kind });
    }

    /// Keeps what is written next apart from what stands before it.
    pub(crate) fn before(&mut self, said: &str, text: &mut String) {
        if std::mem::take(&mut self.behind) == Behind::Whole {
            keep_apart(said, text);
        }
    }

    /// Ends the element that began last.
    pub(crate) fn end(&mut self, text: &mut String) {
        let Some(Element { part, kind }) = self.open.pop() else {
            return;
        };
        self.tokens -= usize::from(kind.takes_text());
        match kind {
            Kind::Delimited([_, end, _], true) => text.push_str(&end),
            Kind::Accent(mark) => text.push_str(&mark),
            Kind::Name => self.behind = Behind::Whole,
            Kind::Group(operand) => self.end_operand(operand, text),
            Kind::Token(class, begin) => self.end_token(class, begin, text),
            Kind::Tex(from, begin) => end_tex(from, begin, text),
            _ => {}
        }
        if let Some(part) = part {
            self.end_operand(part, text);
        }
        if self.open.is_empty() {
            self.behind = Behind::Nothing;
        }
    }

    fn end_operand(&mut self, operand: Operand, text: &mut String) {
        let Operand { before, begin, to } = operand;
        // A note within an equation, which no editor writes, takes the text before it away.
        let Some(said) = text.get(begin..).filter(|_| text.is_char_boundary(before)) else {
            return;
        };
        if said.is_empty() {
            text.truncate(before);
            return;
        }
        self.behind = Behind::Whole;
        if said.len() > MAX_GROUP {
            return;
        }
        let said = match said.chars().nth(1) {
            Some(_) => format!("({said})"),
            None => said.to_owned(),
        };
        text.truncate(begin);
        let is_near = |to: &usize| (*to..*to + MAX_GROUP).contains(&begin);
        match to.filter(|to| is_near(to) && text.is_char_boundary(*to)) {
            Some(to) => {
                let rest = text.split_off(to);
                keep_apart(&said, text);
                text.push_str(&said);
                text.push_str(&rest);
            }
            None => text.push_str(&said),
        }
    }

    fn end_token(&mut self, class: Class, begin: usize, text: &mut String) {
        let said = text.get(begin..).unwrap_or_default();
        let words: Vec<&str> = said.split_whitespace().collect();
        let said: String = words.join(" ").chars().filter_map(shown).collect();
        text.truncate(begin);
        let is_word = class == Class::Text || (class == Class::Name && said.chars().count() > 1);
        if said.is_empty() {
            if is_word {
                self.behind = Behind::Whole;
            }
            return;
        }
        let is_number = class == Class::Number;
        if is_word || (is_number && self.behind == Behind::Number) {
            self.behind = Behind::Whole;
        }
        self.before(&said, text);
        text.push_str(&said);
        self.behind = match (is_word, is_number) {
            (true, _) => Behind::Whole,
            (_, true) => Behind::Number,
            _ => Behind::Nothing,
        };
    }
}

impl Kind {
    fn takes_text(&self) -> bool {
        matches!(self, Self::Token(..) | Self::Tex(..))
    }
}

/// Whether a width is 0, in whatever unit.
fn is_nothing(width: &str) -> bool {
    width.trim_end_matches(|c: char| c.is_alphabetic() || c == '%') == "0"
}

fn rows() -> Kind {
    Kind::Delimited(["", "", "; "].map(str::to_owned), false)
}

fn cells() -> Kind {
    Kind::Delimited(["", "", ", "].map(str::to_owned), false)
}

fn next_part([begin, _, between]: &[String; 3], begun: &mut bool, text: &mut String) {
    let is_next = std::mem::replace(begun, true);
    text.push_str(if is_next { between } else { begin });
}

fn operand(sign: &str, text: &mut String) -> Operand {
    let before = text.len();
    text.push_str(sign);
    Operand {
        before,
        begin: text.len(),
        to: None,
    }
}

/// An operand behind no sign, which is kept apart from a number or a name before it: 3 and ½ are not 31/2.
fn apart(text: &mut String) -> Operand {
    let before = text.len();
    keep_apart("0", text);
    Operand {
        before,
        ..operand("", text)
    }
}

fn keep_apart(said: &str, text: &mut String) {
    if said.starts_with(char::is_alphanumeric) && text.ends_with(char::is_alphanumeric) {
        text.push(' ');
    }
}

/// A character as it is typed: operators that are not seen have a sign where one is needed.
fn shown(character: char) -> Option<char> {
    match character {
        '\u{2061}' => None,
        '\u{2062}' => Some('·'),
        '\u{2063}' => Some(','),
        '\u{2064}' => Some('+'),
        other => Some(other),
    }
}

fn end_tex(from: usize, begin: usize, text: &mut String) {
    let said = text.get(begin..).unwrap_or_default();
    let words: Vec<&str> = said.split_whitespace().collect();
    let tex = words.join(" ");
    // As MediaWiki writes it.
    let inside = tex.strip_prefix("{\\displaystyle ");
    let tex = inside.and_then(|tex| tex.strip_suffix('}')).unwrap_or(&tex);
    if text.is_char_boundary(from) && text.is_char_boundary(begin) {
        text.truncate(if tex.is_empty() { begin } else { from });
        text.push_str(tex.trim());
    }
}
