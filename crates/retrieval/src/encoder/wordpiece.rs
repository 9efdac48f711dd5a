//! Dividing a text into the pieces of a model's vocabulary, as BERT does.

use std::collections::HashMap;

use regex::Regex;
use serde::Deserialize;
use unicode_normalization::UnicodeNormalization as _;

/// The most bytes of a piece that a word is searched for, with its prefix.
const MAX_PIECE_BYTES: usize = 256;

/// A tokenizer of the kind WordPiece (Wu and others, *Google's Neural Machine Translation System*, 2016) with BERT's
/// rules for words. Text that looks like a special token, such as `[SEP]`, is text like any other.
#[derive(Debug)]
pub(super) struct WordPiece {
    vocabulary: HashMap<String, u32>,
    prefix: String,
    longest: usize,
    begins: u32,
    ends: u32,
    unknown: u32,
    strips_accents: bool,
    lowercases: bool,
    words: Regex,
    invisible: Regex,
    accents: Regex,
}

/// The parts of a `tokenizer.json` that matter here.
#[derive(Deserialize)]
struct File {
    model: Model,
    #[serde(default)]
    normalizer: Option<Normalizer>,
}

#[derive(Deserialize)]
struct Model {
    // Older files leave it out.
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    vocab: serde_json::Value,
    #[serde(default = "unknown")]
    unk_token: Option<String>,
    #[serde(default = "prefix")]
    continuing_subword_prefix: String,
    #[serde(default = "longest")]
    max_input_chars_per_word: usize,
}

#[derive(Deserialize)]
struct Normalizer {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    strip_accents: Option<bool>,
    #[serde(default = "yes")]
    lowercase: bool,
}

fn unknown() -> Option<String> {
    Some(String::from("[UNK]"))
}

fn prefix() -> String {
    String::from("##")
}

fn longest() -> usize {
    100
}

fn yes() -> bool {
    true
}

/// Ideographs, each a word of its own, as in BERT's first tokenizer.
const IDEOGRAPHS: &str = r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}";
/// Punctuation of Unicode, and the symbols of ASCII.
const PUNCTUATION: &str = r"\p{P}$+<=>^`|~";

impl WordPiece {
    /// Reads a `tokenizer.json`.
    pub(super) fn read(json: &[u8]) -> Result<Self, String> {
        let file: File = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let kind = file.model.kind.as_deref().unwrap_or("WordPiece");
        if kind != "WordPiece" {
            return Err(format!(
                "its tokenizer is of the kind {kind}, not WordPiece"
            ));
        }
        let normalizer = file.normalizer.ok_or("its normalizer is missing")?;
        if normalizer.kind != "BertNormalizer" {
            return Err(format!(
                "its normalizer is a {}, not a BertNormalizer",
                normalizer.kind
            ));
        }
        let vocabulary: HashMap<String, u32> =
            serde_json::from_value(file.model.vocab).map_err(|error| error.to_string())?;
        let token = |name: &str| {
            let token = vocabulary.get(name).copied();
            token.ok_or_else(|| format!("its vocabulary has no {name}"))
        };
        let (begins, ends) = (token("[CLS]")?, token("[SEP]")?);
        let unknown = token(file.model.unk_token.as_deref().unwrap_or("[UNK]"))?;
        let regex = |pattern: &str| Regex::new(pattern).map_err(|error| error.to_string());
        Ok(Self {
            begins,
            ends,
            unknown,
            prefix: file.model.continuing_subword_prefix,
            longest: file.model.max_input_chars_per_word,
            strips_accents: normalizer.strip_accents.unwrap_or(normalizer.lowercase),
            lowercases: normalizer.lowercase,
            words: regex(&format!(
                r"[{IDEOGRAPHS}{PUNCTUATION}]|[^\s{IDEOGRAPHS}{PUNCTUATION}]+"
            ))?,
            invisible: regex(r"[\p{C}\x{FFFD}&&[^\t\n\r]]+")?,
            accents: regex(r"\p{Mn}+")?,
            vocabulary,
        })
    }

    /// The greatest number of a piece.
    pub(super) fn greatest(&self) -> u32 {
        self.vocabulary.values().copied().max().unwrap_or_default()
    }

    /// The pieces of a text in windows of at most `size` pieces, each between the tokens that begin and end a text;
    /// at least one window, and at most `windows`.
    pub(super) fn windows(&self, text: &str, size: usize, windows: usize) -> Vec<Vec<u32>> {
        let size = size.saturating_sub(2).max(1);
        let mut pieces = Vec::new();
        let clean = self.clean(text);
        for word in self.words.find_iter(&clean) {
            if pieces.len() >= size * windows {
                break;
            }
            self.divide(word.as_str(), &mut pieces);
        }
        pieces.truncate(size * windows);
        let framed = |pieces: &[u32]| {
            let mut window = Vec::with_capacity(pieces.len() + 2);
            window.push(self.begins);
            window.extend_from_slice(pieces);
            window.push(self.ends);
            window
        };
        match pieces.is_empty() {
            true => vec![framed(&[])],
            false => pieces.chunks(size).map(framed).collect(),
        }
    }

    fn clean(&self, text: &str) -> String {
        let visible = self.invisible.replace_all(text, "");
        let stripped = match self.strips_accents && !visible.is_ascii() {
            true => {
                let parts: String = visible.nfd().collect();
                self.accents.replace_all(&parts, "").into_owned()
            }
            false => visible.into_owned(),
        };
        match self.lowercases {
            // Letter by letter: `str::to_lowercase` would write a sigma at the end of a word in another way.
            true => stripped.chars().flat_map(char::to_lowercase).collect(),
            false => stripped,
        }
    }

    /// Adds the pieces of a word: each is the longest in the vocabulary that the rest of the word begins with. A word
    /// with a part that is in no piece is unknown as a whole.
    fn divide(&self, word: &str, pieces: &mut Vec<u32>) {
        let before = pieces.len();
        if word.chars().count() > self.longest {
            pieces.push(self.unknown);
            return;
        }
        let mut rest = word;
        let mut piece = String::new();
        while !rest.is_empty() {
            let ends = rest
                .char_indices()
                .map(|(at, letter)| at + letter.len_utf8());
            let ends: Vec<usize> = ends.take_while(|end| *end <= MAX_PIECE_BYTES).collect();
            let found = ends.iter().rev().find_map(|end| {
                let (begin, rest) = rest.split_at(*end);
                piece.clear();
                if pieces.len() > before {
                    piece.push_str(&self.prefix);
                }
                piece.push_str(begin);
                Some((*self.vocabulary.get(&piece)?, rest))
            });
            let Some((number, after)) = found else {
                pieces.truncate(before);
                pieces.push(self.unknown);
                return;
            };
            pieces.push(number);
            rest = after;
        }
    }
}
