//! Counts tokens by OpenAI's vocabularies, which are part of the program.

use std::fmt;

use ghostlight_actors::definition::TokenCounting;
use tiktoken_rs::{
    CoreBPE, cl100k_base_singleton, o200k_base_singleton,
    tokenizer::{Tokenizer, get_tokenizer},
};

use super::TokenCounter;

/// The most bytes that are counted at once. The regular expression that finds words overflows its
/// stack on a million spaces.
const PIECE: usize = 16 * 1024;

/// Counts tokens by a vocabulary. A text of more than 16 KiB is counted in pieces of that size,
/// each of which may add a token. The vocabulary is loaded at its first use, which takes a sixth of
/// a second once in a process, and needs no network.
#[derive(Clone, Copy)]
pub struct Vocabulary {
    name: &'static str,
    pairs: &'static CoreBPE,
}

impl Vocabulary {
    /// OpenAI's vocabulary since GPT-4o.
    pub fn o200k_base() -> Self {
        Self {
            name: "o200k_base",
            pairs: o200k_base_singleton(),
        }
    }

    /// OpenAI's vocabulary of GPT-4 and GPT-3.5.
    pub fn cl100k_base() -> Self {
        Self {
            name: "cl100k_base",
            pairs: cl100k_base_singleton(),
        }
    }

    /// The vocabulary of a model, by its name at OpenAI. `None` for other providers' models, which
    /// have their own vocabularies.
    pub fn of_model(model: &str) -> Option<Self> {
        match get_tokenizer(model)? {
            Tokenizer::O200kBase | Tokenizer::O200kHarmony => Some(Self::o200k_base()),
            Tokenizer::Cl100kBase => Some(Self::cl100k_base()),
            _ => None,
        }
    }

    pub(super) fn of(counting: TokenCounting, model: &str) -> Option<Self> {
        match counting {
            TokenCounting::Model => Self::of_model(model),
            TokenCounting::O200kBase => Some(Self::o200k_base()),
            TokenCounting::Cl100kBase => Some(Self::cl100k_base()),
            _ => None,
        }
    }
}

impl TokenCounter for Vocabulary {
    fn name(&self) -> &str {
        self.name
    }

    fn count(&self, text: &str) -> u64 {
        let pieces = pieces(text).map(|piece| self.pairs.count_ordinary(piece) as u64);
        pieces.sum()
    }
}

/// The text in pieces of at most [`PIECE`] bytes, cut between characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(PIECE));
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Vocabulary").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Estimate;

    const ENGLISH: &str = "The longer a conversation is, the more a model has to read, and the higher \
        are cost and delay. So the history is made smaller without losing what matters.";
    const GERMAN: &str = "Je länger ein Gespräch wird, desto mehr muss das Modell lesen, und desto \
        höher sind Kosten und Wartezeit. Größere Ergebnisse fallen zuerst weg.";
    const RUSSIAN: &str = "Чем длиннее разговор, тем больше модель должна прочитать, и тем выше \
        стоимость и задержка. Поэтому историю нужно сжимать.";
    const CHINESE: &str =
        "上下文窗口是有限的资源。对话越长，模型需要读取的内容就越多，费用和延迟也随之增加。";
    const JAPANESE: &str =
        "会話が長くなると、モデルが読む内容も増え、コストと遅延が大きくなります。";
    const KOREAN: &str =
        "대화가 길어질수록 모델이 읽어야 하는 내용이 늘어나고 비용과 지연도 커집니다.";
    const JSON: &str = r#"{"id":"A-1042","customer":{"name":"Ada","city":"London"},"paid":true,"lines":[{"sku":"LAMP-7","count":2,"price":19.90}]}"#;

    #[test]
    fn the_estimate_is_rather_too_high_than_too_low() {
        let code = include_str!("../../crates/models/src/estimate.rs");
        let texts = [
            ENGLISH, GERMAN, RUSSIAN, CHINESE, JAPANESE, KOREAN, JSON, code,
        ];
        for text in texts {
            let (real, estimate) = (Vocabulary::o200k_base().count(text), Estimate.count(text));
            assert!(estimate >= real, "{estimate} of {real} for {text}");
            assert!(
                estimate * 10 <= real * 17,
                "{estimate} of {real} for {text}"
            );
        }
        let quarters = CHINESE.chars().count() as u64 / 4;
        assert!(quarters * 2 < Vocabulary::o200k_base().count(CHINESE));
    }

    /// Characters from this set, in pseudo-random order.
    fn random(of: &str, length: usize) -> String {
        let mut drawn = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            drawn ^= drawn << 13;
            drawn ^= drawn >> 7;
            drawn ^= drawn << 17;
            of.as_bytes()[(drawn >> 11) as usize % of.len()] as char
        };
        (0..length).map(|_| next()).collect()
    }

    /// Data that tools return, with more unusual words than any prose.
    #[test]
    fn the_estimate_is_not_too_low_for_ids_hashes_and_long_runs() {
        const LOWER: &str = "0123456789abcdefghijklmnopqrstuvwxyz";
        const HEX: &str = "0123456789abcdef";
        let base64 = format!("{LOWER}ABCDEFGHIJKLMNOPQRSTUVWXYZ+/");
        let id = |of: &str, lengths: &[usize]| {
            let parts = lengths.iter().map(|length| random(of, *length));
            parts.collect::<Vec<_>>().join("-")
        };
        let all = random(HEX, 3_200);
        let uuids: Vec<String> = (0..90)
            .map(|place| {
                let hex = &all[place * 32..][..32];
                format!(
                    "{}-{}-{}-{}",
                    &hex[..8],
                    &hex[8..12],
                    &hex[12..16],
                    &hex[16..]
                )
            })
            .collect();
        let mut texts = vec![
            random(&base64, 1_500),
            random(HEX, 1_500),
            random(&HEX.to_uppercase(), 1_500),
            random(LOWER, 1_500),
            id(LOWER, &[12, 20, 9, 31]),
            uuids.join("\n"),
            "getElementById setTimeoutForUserName maxOutputTokensPerRequest ".repeat(20),
            "\u{1b}[1mBOLD\u{1b}[0m\u{b}\u{c}\u{0}".repeat(20),
            "\n \n\t\n  \n".repeat(100),
            "\n        x".repeat(100),
            "ውይይቱ ሲረዝም ".repeat(10),
        ];
        for length in [1, 2, 7, 17, 33, 64, 127, 1_000] {
            let runs = ["\n", "\r\n", " ", "\t", "\u{a0}", "\u{3000}", "-", "a"];
            texts.extend(runs.map(|run| run.repeat(length)));
        }
        for text in texts {
            let (real, estimate) = (Vocabulary::o200k_base().count(&text), Estimate.count(&text));
            let begin: String = text.chars().take(40).collect();
            // A single space is part of the word after it.
            assert!(
                estimate >= real || text.len() < 3,
                "{estimate} of {real} for {begin:?}"
            );
        }
    }

    #[test]
    fn a_text_of_any_length_and_make_is_counted() {
        for text in [" ".repeat(1_200_000), format!("x{}", "世".repeat(50_000))] {
            assert!(pieces(&text).all(|piece| piece.len() <= PIECE));
            assert_eq!(pieces(&text).collect::<String>(), text);
        }
        let vocabulary = Vocabulary::o200k_base();
        let (one, blanks) = (" ".repeat(PIECE), " ".repeat(PIECE + 100));
        let (one, both) = (vocabulary.count(&one), vocabulary.count(&blanks));
        assert!(
            one > 100 && (one..one + 10).contains(&both),
            "{one}, {both}"
        );
        assert_eq!(vocabulary.count(""), 0);
    }

    #[test]
    fn a_model_is_counted_by_its_own_vocabulary() {
        let of = |counting, model| Vocabulary::of(counting, model).map(|found| found.name);
        let model = TokenCounting::Model;
        assert_eq!(of(model, "gpt-4o-2024-08-06"), Some("o200k_base"));
        assert_eq!(of(model, "gpt-4-0613"), Some("cl100k_base"));
        assert_eq!(of(model, "llama-3.1-8b"), None);
        assert_eq!(
            of(TokenCounting::Cl100kBase, "llama-3.1-8b"),
            Some("cl100k_base")
        );
        assert_eq!(of(TokenCounting::Estimate, "gpt-4o"), None);
        let (new, old) = (Vocabulary::o200k_base(), Vocabulary::cl100k_base());
        assert!(new.count(CHINESE) < old.count(CHINESE));
    }
}
