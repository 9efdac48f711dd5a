//! Equations in one line, as they are typed: `x^2`, `(a+b)/c`, `√2`. Without these signs 10⁵ would be read as 105.

/// The longest content that is put into parentheses.
const MAX_GROUP: usize = 1_000;

/// The open elements of an equation.
#[derive(Debug, Default)]
pub(super) struct Equation(Vec<Open>);

#[derive(Debug)]
enum Open {
    Plain,
    Radical,
    /// A sum, a product or an integral, with its sign until it is written.
    Operator(String),
    /// Parts between two marks, with the mark between them, and whether a part has begun.
    Delimited([String; 3], bool),
    /// A part that is one operand: where the sign before it begins, and where it begins itself.
    Operand(usize, usize),
}

impl Equation {
    /// Whether an element is part of an equation.
    pub(super) fn contains(&self, name: &str) -> bool {
        !self.0.is_empty() || name == "oMath"
    }

    /// Begins an element, and writes the sign before it.
    pub(super) fn start(&mut self, name: &str, text: &mut String) {
        let before = text.len();
        let opened = match (name, self.0.last_mut()) {
            ("rad", _) => Open::Radical,
            ("nary", _) => Open::Operator("∫".to_owned()),
            ("d", _) => Open::Delimited(["(", ")", "|"].map(str::to_owned), false),
            ("num" | "deg", _) => Open::Operand(before, before),
            ("den", _) => operand(before, "/", text),
            ("e", Some(Open::Radical)) => operand(before, "√", text),
            ("e", Some(Open::Delimited([begin, _, between], begun))) => {
                let is_next = std::mem::replace(begun, true);
                text.push_str(if is_next { between } else { begin });
                Open::Plain
            }
            ("sub" | "sup" | "e", parent) => {
                if let Some(Open::Operator(sign)) = parent {
                    text.push_str(&std::mem::take(sign));
                }
                match name {
                    "sub" => operand(text.len(), "_", text),
                    "sup" => operand(text.len(), "^", text),
                    _ => Open::Plain,
                }
            }
            _ => Open::Plain,
        };
        self.0.push(opened);
    }

    /// A sign that the properties of an element name; it may be none.
    pub(super) fn sign(&mut self, name: &str, sign: &str) {
        let above = self.0.iter_mut().rev().nth(1);
        match (name, above) {
            ("chr", Some(Open::Operator(own))) => sign.clone_into(own),
            ("begChr", Some(Open::Delimited([own, ..], _)))
            | ("endChr", Some(Open::Delimited([_, own, _], _)))
            | ("sepChr", Some(Open::Delimited([.., own], _))) => sign.clone_into(own),
            _ => {}
        }
    }

    /// Ends the element that began last.
    pub(super) fn end(&mut self, text: &mut String) {
        match self.0.pop() {
            Some(Open::Delimited([_, end, _], true)) => text.push_str(&end),
            // A note within an equation, which no editor writes, takes the text before it away.
            Some(Open::Operand(before, begin))
                if text.is_char_boundary(before) && text.is_char_boundary(begin) =>
            {
                let said = text.get(begin..).unwrap_or_default();
                let is_long = said.chars().nth(1).is_some();
                if said.is_empty() {
                    text.truncate(before);
                } else if is_long && said.len() <= MAX_GROUP {
                    let group = format!("({said})");
                    text.truncate(begin);
                    text.push_str(&group);
                }
            }
            _ => {}
        }
    }
}

fn operand(before: usize, sign: &str, text: &mut String) -> Open {
    text.push_str(sign);
    Open::Operand(before, text.len())
}
