//! From text to normalised terms.
//!
//! Words are lower-cased runs of letters and digits. English endings are cut off, so that
//! *resume*, *resumes*, *resumed* and *resuming* are one term; words of other languages that use
//! spaces stay whole. Scripts without spaces (Chinese, Japanese, Thai and others) and Korean give overlapping pairs
//! of characters, the usual substitute for a dictionary. A word is one term however its characters are encoded: with an
//! accent of its own, in full width, with or without the vowel points of Hebrew and Arabic.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;

/// English words that say little about what a text is about.
const STOP_WORDS: &[&str] = &[
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "been", "before", "but", "by", "can", "could", "did", "do", "does", "doing", "for", "from",
    "get", "had", "has", "have", "he", "her", "him", "his", "how", "i", "if", "in", "into", "is",
    "it", "its", "just", "let", "may", "me", "might", "must", "my", "no", "not", "of", "on", "one",
    "only", "or", "our", "out", "over", "please", "shall", "she", "should", "so", "some", "such",
    "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those",
    "to", "too", "up", "us", "use", "very", "was", "we", "were", "what", "when", "where",
    "whether", "which", "while", "who", "whom", "whose", "why", "will", "with", "would", "you",
    "your",
];

/// The shortest stem after an ending of several letters is cut off.
const MIN_STEM: usize = 4;

/// All terms of a text, in order.
pub fn terms(text: &str) -> Vec<String> {
    let text = plain(text);
    terms_of(words(&text))
}

/// The terms of a text without English stop words, unless it has no other terms.
pub fn content_terms(text: &str) -> Vec<String> {
    let text = plain(text);
    let content = terms_of(words(&text).filter(|word| !is_stop_word(word)));
    match content.is_empty() {
        true => terms_of(words(&text)),
        false => content,
    }
}

/// Whether a lower-case word is an English stop word.
pub fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// A text in lower case and without apostrophes: *don't* is `dont`. Its characters have their compatible composed form.
fn plain(text: &str) -> String {
    if text.is_ascii() {
        return text.replace('\'', "").to_lowercase();
    }
    // At the end of a line the rest of the word stands in the next one.
    let whole = match text.contains("\u{ad}\n") || text.contains("\u{ad}\r\n") {
        true => Cow::Owned(text.replace("\u{ad}\r\n", "").replace("\u{ad}\n", "")),
        false => Cow::Borrowed(text),
    };
    let composed: String = whole.nfkc().collect();
    let mut plain = composed.to_lowercase();
    plain.retain(|c| !is_left_out(c));
    plain
}

/// Whether a character does not count in a word: apostrophes, invisible marks such as a soft hyphen, accents that no letter
/// is composed with, and what Hebrew and Arabic are written with or without.
fn is_left_out(character: char) -> bool {
    matches!(character,
        '\'' | '’'
        | '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}' // where a word can be broken, and joined
        | '\u{0300}'..='\u{036f}' // accents
        | '\u{0591}'..='\u{05bd}' | '\u{05bf}' | '\u{05c1}' | '\u{05c2}' | '\u{05c4}' | '\u{05c5}' | '\u{05c7}' // Hebrew
        | '\u{0610}'..='\u{061a}' | '\u{0640}' | '\u{064b}'..='\u{065f}' | '\u{0670}' // Arabic
        | '\u{06d6}'..='\u{06dc}' | '\u{06df}'..='\u{06e8}' | '\u{06ea}'..='\u{06ed}')
}

/// The runs of letters and digits of a text.
fn words(plain: &str) -> impl Iterator<Item = &str> {
    let words = plain.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.is_empty())
}

/// The terms of these words: their stems, and character pairs for scripts without spaces.
fn terms_of<'t>(words: impl Iterator<Item = &'t str>) -> Vec<String> {
    let mut terms = Vec::new();
    for word in words {
        if word.is_ascii() {
            terms.push(stem(word));
            continue;
        }
        let characters: Vec<char> = word.chars().collect();
        for run in characters.chunk_by(|a, b| is_unspaced(*a) == is_unspaced(*b)) {
            match run {
                [first, _, ..] if is_unspaced(*first) => {
                    terms.extend(run.windows(2).map(|pair| pair.iter().collect::<String>()));
                }
                run => terms.push(run.iter().collect()),
            }
        }
    }
    terms
}

/// Whether a character belongs to a script that puts no spaces between words, or to one whose words have endings (Korean).
fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{0e00}'..='\u{0eff}' // Thai and Lao
        | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' // Myanmar, Khmer
        | '\u{3040}'..='\u{30ff}' // Hiragana and Katakana
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' // Han
        | '\u{ac00}'..='\u{d7af}' // Hangul
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

/// An English word without its ending. The rules follow the first step of Martin Porter's stemmer (*An algorithm for
/// suffix stripping*, 1980), and map *-ate*, *-ation* and *-ator* to one stem. Two words with the same stem may differ
/// in meaning.
fn stem(word: &str) -> String {
    if word.len() < MIN_STEM || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let word = without_plural(word);
    let word = without_inflection(&word);
    for ending in ["ations", "ation", "ators", "ator", "ate", "at", "ly"] {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.len() >= MIN_STEM
        {
            return stem.to_owned();
        }
    }
    for (ending, kept) in [("tion", "t"), ("sion", "s")] {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.len() + 1 >= MIN_STEM
        {
            return format!("{stem}{kept}");
        }
    }
    match word.strip_suffix('e') {
        Some(stem) if stem.len() >= 3 => stem.to_owned(),
        _ => word.to_owned(),
    }
}

fn without_plural(word: &str) -> Cow<'_, str> {
    if let Some(stem) = word.strip_suffix("ies")
        && stem.len() >= 2
    {
        return format!("{stem}y").into();
    }
    for ending in ["sses", "xes", "ches", "shes", "zes"] {
        if word.ends_with(ending) {
            return word[..word.len() - 2].into();
        }
    }
    let kept = ["ss", "us", "is"]
        .iter()
        .any(|ending| word.ends_with(ending));
    match word.strip_suffix('s') {
        Some(stem) if !kept => stem.into(),
        _ => word.into(),
    }
}

fn without_inflection(word: &str) -> &str {
    let has_vowel = |stem: &str| stem.bytes().any(|byte| b"aeiouy".contains(&byte));
    let cut = ["ing", "ed"]
        .iter()
        .find_map(|ending| word.strip_suffix(ending));
    let Some(stem) = cut.filter(|stem| stem.len() >= 2 && has_vowel(stem)) else {
        return word;
    };
    match stem.as_bytes() {
        // *running* becomes *run*, but *falling* becomes *fall*.
        [.., a, b] if a == b && !b"lsz".contains(b) && !b"aeiou".contains(b) => {
            &stem[..stem.len() - 1]
        }
        _ => stem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_one_word_are_one_term() {
        for group in [
            "resume resumes resumed resuming",
            "crash crashes crashed crashing",
            "calculate calculates calculated calculating calculation calculations calculator",
            "document documents documented documentation",
            "run runs running",
            "query queries querying",
            "store stored storing stores",
            "locate located location",
            "exact exactly",
            "don't dont",
        ] {
            let terms = terms(group);
            assert!(terms.windows(2).all(|pair| pair[0] == pair[1]), "{terms:?}");
        }
        assert_eq!(
            terms("class bus this is red sing"),
            ["class", "bus", "this", "is", "red", "sing"]
        );
    }

    #[test]
    fn stop_words_go_unless_nothing_else_is_there() {
        assert_eq!(content_terms("How do I resume a run?"), ["resum", "run"]);
        assert_eq!(
            content_terms("To be or not to be"),
            ["to", "be", "or", "not", "to", "be"]
        );
        assert!(STOP_WORDS.is_sorted());
    }

    #[test]
    fn scripts_without_spaces_give_pairs() {
        assert_eq!(
            terms("再開方法 v2 Straße"),
            ["再開", "開方", "方法", "v2", "straße"]
        );
        assert_eq!(terms("run実行"), ["run", "実行"]);
        // A Thai word is found inside of a sentence.
        let said = terms("ลูกค้าชอบโคมไฟสีเขียว");
        assert!(terms("โคมไฟ").iter().all(|pair| said.contains(pair)));
        assert!(!terms("กาแฟ").iter().all(|pair| said.contains(pair)));
    }

    #[test]
    fn a_word_is_one_term_however_its_characters_are_encoded() {
        for [one, other] in [
            ["Köln", "Ko\u{308}ln"],
            ["Việt Nam", "Vie\u{323}\u{302}t Nam"],
            ["ABC 12", "ＡＢＣ　１２"],
            ["ランプ", "ﾗﾝﾌﾟ"],
            ["ガラス", "カ\u{3099}ラス"],
            ["한국", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}"],
            ["istanbul", "İSTANBUL"],
            ["كتاب", "كِتَابٌ"],
            ["كتاب", "كـتـاب"],
            ["מנורה", "מְנוֹרָה"],
            ["office", "oﬃce"],
            ["Zahlungsbedingungen", "Zahlungs\u{ad}bedin\u{ad}gungen"],
            ["Zahlungsbedingungen", "Zahlungs\u{ad}\nbedingungen"],
            ["نمیخواهم", "نمی\u{200c}خواهم"],
            ["parcel", "\u{feff}par\u{2060}cel"],
        ] {
            assert_eq!(terms(one), terms(other), "{one} {other}");
            assert_eq!(terms(one).concat().is_empty(), one.is_empty());
        }
        // A mark that makes another letter counts.
        assert_ne!(terms("カラス"), terms("ガラス"));
        assert_ne!(terms("schon"), terms("schön"));
    }
}
