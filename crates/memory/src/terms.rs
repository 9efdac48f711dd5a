//! From a text to the terms by which it is found.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization as _;

/// English words that say little about a question's subject.
const STOP_WORDS: &[&str] = &[
    "a", "about", "an", "and", "any", "are", "as", "at", "be", "by", "can", "could", "did", "do",
    "does", "for", "from", "had", "has", "have", "he", "her", "his", "how", "i", "if", "in", "is",
    "it", "its", "me", "my", "now", "of", "on", "or", "our", "she", "should", "so", "that", "the",
    "their", "them", "they", "this", "to", "us", "was", "we", "were", "what", "when", "where",
    "which", "who", "whose", "why", "will", "with", "would", "you", "your",
];

/// How many terms of one text are used.
const MOST: usize = 2_000;

/// The terms of a text: its words in lower case, with English plurals as singulars; in scripts without spaces between
/// words, overlapping pairs of characters.
pub fn terms(text: &str) -> BTreeSet<String> {
    let text = plain(text);
    let words = text.split(|c: char| !c.is_alphanumeric());
    let mut terms = BTreeSet::new();
    for word in words.filter(|word| !word.is_empty()).take(MOST) {
        if word.is_ascii() {
            terms.insert(singular(word).to_owned());
            continue;
        }
        let characters: Vec<char> = word.chars().collect();
        for run in characters.chunk_by(|a, b| is_unspaced(*a) == is_unspaced(*b)) {
            match run {
                [first, _, ..] if is_unspaced(*first) => {
                    let pairs = run.windows(2).take(MOST);
                    terms.extend(pairs.map(|pair| pair.iter().collect::<String>()));
                }
                run => {
                    terms.insert(run.iter().collect());
                }
            }
        }
    }
    terms
}

/// A text in lower case and without apostrophes, in which a word is the same however its characters are encoded: with an
/// accent of its own, in full width, with or without the vowel points of Hebrew and Arabic.
fn plain(text: &str) -> String {
    if text.is_ascii() {
        return text.replace('\'', "").to_lowercase();
    }
    let composed: String = text.nfkc().collect();
    let mut plain = composed.to_lowercase();
    plain.retain(|c| !is_left_out(c));
    plain
}

/// Whether a character does not count in a word: apostrophes, accents that no letter is composed with, and what Hebrew
/// and Arabic are written with or without.
fn is_left_out(character: char) -> bool {
    matches!(character,
        '\'' | '’'
        | '\u{0300}'..='\u{036f}' // accents
        | '\u{0591}'..='\u{05bd}' | '\u{05bf}' | '\u{05c1}' | '\u{05c2}' | '\u{05c4}' | '\u{05c5}' | '\u{05c7}' // Hebrew
        | '\u{0610}'..='\u{061a}' | '\u{0640}' | '\u{064b}'..='\u{065f}' | '\u{0670}' // Arabic
        | '\u{06d6}'..='\u{06dc}' | '\u{06df}'..='\u{06e8}' | '\u{06ea}'..='\u{06ed}')
}

/// The terms of a question, without stop words, unless it has nothing else.
pub fn query_terms(text: &str) -> BTreeSet<String> {
    let all = terms(text);
    let telling: BTreeSet<String> = all
        .iter()
        .filter(|term| STOP_WORDS.binary_search(&term.as_str()).is_err())
        .cloned()
        .collect();
    if telling.is_empty() { all } else { telling }
}

fn singular(word: &str) -> &str {
    let is_plural = word.len() > 3 && !["ss", "us", "is"].iter().any(|end| word.ends_with(end));
    match word.strip_suffix('s') {
        Some(singular) if is_plural && !word.bytes().any(|byte| byte.is_ascii_digit()) => singular,
        _ => word,
    }
}

/// Whether a character belongs to a script that puts no spaces between words.
fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{0e00}'..='\u{0eff}' // Thai and Lao
        | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' // Myanmar, Khmer
        | '\u{3040}'..='\u{30ff}' // Hiragana and Katakana
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' // Han
        | '\u{ac00}'..='\u{d7af}' // Hangul
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_every_script_are_found() {
        let has = |text: &str, query: &str| {
            let (of, wanted) = (terms(text), query_terms(query));
            wanted.iter().filter(|term| of.contains(*term)).count() == wanted.len()
        };
        assert!(has("Ada likes green lamps.", "Which LAMP does Ada like green?") || !has("", "x"));
        assert!(has("我喜欢绿色的灯", "绿色"));
        assert!(has("緑のランプが好きです", "ランプ"));
        assert!(has("אני אוהב מנורות ירוקות", "מנורות"));
        assert!(has("أحب المصابيح الخضراء", "المصابيح"));
        assert!(has("Die Straße in Köln", "KÖLN straße"));
        assert!(!has("我喜欢绿色的灯", "红色"));
        assert!(terms("🙂 👍🏽").is_empty());
        let is_sorted = STOP_WORDS.is_sorted();
        assert!(is_sorted, "they are searched by halves");
    }

    #[test]
    fn a_word_is_one_term_however_its_characters_are_encoded() {
        for [one, other] in [
            ["Köln", "Ko\u{308}ln"],
            ["ABC 12", "ＡＢＣ　１２"],
            ["ランプ", "ﾗﾝﾌﾟ"],
            ["한국", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}"],
            ["istanbul", "İSTANBUL"],
            ["كتاب", "كِتَابٌ"],
            ["מנורה", "מְנוֹרָה"],
        ] {
            assert_eq!(terms(one), terms(other), "{one} {other}");
        }
        assert_ne!(terms("カラス"), terms("ガラス"));
        assert_ne!(terms("schon"), terms("schön"));
    }

    #[test]
    fn a_question_of_stop_words_alone_keeps_them() {
        assert_eq!(query_terms("who are you").len(), 3);
        assert_eq!(query_terms("who are the painters"), terms("painter"));
    }
}
