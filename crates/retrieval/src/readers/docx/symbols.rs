//! The characters of symbol fonts, which have no encoding but the font's own.

/// A font of symbols. Its glyphs have numbers from 0x20 on, or from 0xF020 on, where Unicode leaves the meaning to the font.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Font {
    Symbol,
    Wingdings,
    Wingdings2,
    Webdings,
    /// Another one, in which only characters of Unicode have a meaning.
    Other,
}

/// The glyphs of Symbol, from 0x20 to 0x7E and from 0xA0 on.
const SYMBOL: [&str; 2] = [
    " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼",
    "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…│─↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪\u{fffd}〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭",
];
/// Glyphs of the other fonts that stand in documents: signs of lists, of forms and of ways.
const WINGDINGS: &str = "\"✂(☎*✉6⌛A✌E☜F☞G☝H☟J☺L☹N☠R☼T❄l●m❍n■o□q❑r❒s⬧t⧫u◆v❖w⬥x⌧\u{9f}•\u{a1}○\u{a4}◉\u{a7}▪\u{a8}☐\
                         \u{ab}★\u{d8}➢\u{df}←\u{e0}→\u{e1}↑\u{e2}↓\u{e8}➔\u{ef}⇦\u{f0}⇨\u{f1}⇧\u{f2}⇩\u{f3}⬄\u{fb}✗\u{fc}✓\u{fd}☒\u{fe}☑";
const WINGDINGS_2: &str = "O✗P✓Q☒R☑S☒T☒\u{96}•\u{97}●\u{98}●\u{a2}■\u{a3}☐";
const WEBDINGS: &str = "a✓c☐g■n●r✗";
/// The sign for a glyph without a known meaning, so that its place is seen.
const UNKNOWN: char = char::REPLACEMENT_CHARACTER;

impl Font {
    pub(super) fn of(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "symbol" => Self::Symbol,
            "wingdings" => Self::Wingdings,
            "wingdings 2" => Self::Wingdings2,
            "webdings" => Self::Webdings,
            _ => Self::Other,
        }
    }

    /// A character of a text in this font.
    pub(super) fn character(self, written: char) -> char {
        let glyph = match u32::from(written) {
            glyph @ 0xf020..=0xf0ff => glyph - 0xf000,
            glyph @ 0x20..=0xff if self != Self::Other => glyph,
            0xe000..=0xf8ff => return UNKNOWN,
            _ => return written,
        };
        let known = match self {
            Self::Symbol if glyph < 0xa0 => SYMBOL[0].chars().nth(glyph as usize - 0x20),
            Self::Symbol => SYMBOL[1].chars().nth(glyph as usize - 0xa0),
            Self::Wingdings => listed(WINGDINGS, glyph),
            Self::Wingdings2 => listed(WINGDINGS_2, glyph),
            Self::Webdings => listed(WEBDINGS, glyph),
            Self::Other => None,
        };
        match written {
            ' ' => ' ',
            _ => known.unwrap_or(UNKNOWN),
        }
    }

    /// The character of an element `sym`, whose attribute `char` is a hexadecimal number.
    pub(super) fn numbered(self, number: &str) -> char {
        let number = u32::from_str_radix(number, 16).ok();
        let written = number.and_then(char::from_u32);
        written.map_or(UNKNOWN, |written| self.character(written))
    }
}

/// The character that follows a glyph in a list of pairs.
fn listed(pairs: &str, glyph: u32) -> Option<char> {
    let mut characters = pairs.chars();
    while let (Some(of), Some(character)) = (characters.next(), characters.next()) {
        if u32::from(of) == glyph {
            return Some(character);
        }
    }
    None
}
