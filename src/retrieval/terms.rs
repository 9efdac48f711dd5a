//! From text to the terms by which it is found: words in one form.
//!
//! Words are lower-cased runs of letters and digits. English endings are cut off, so that
//! *resume*, *resumes*, *resumed* and *resuming* are one term; words of other languages that use
//! spaces stay whole. Scripts without spaces (Chinese, Japanese, Korean) give overlapping pairs
//! of characters, the usual substitute for a dictionary.

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

/// The shortest word that is left when an ending of several letters is cut off.
const MIN_STEM: usize = 4;

/// All terms of a text, in order.
pub fn terms(text: &str) -> Vec<String> {
    words(text).flat_map(|word| word_terms(&word)).collect()
}

/// The terms of a text that say what it is about: without English stop words. Where nothing
/// else is left, they stay.
pub fn content_terms(text: &str) -> Vec<String> {
    let content = words(text).filter(|word| !is_stop_word(word));
    let content: Vec<String> = content.flat_map(|word| word_terms(&word)).collect();
    match content.is_empty() {
        true => terms(text),
        false => content,
    }
}

/// Whether a word says little about what a text is about. It is expected in lower case.
pub fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// The runs of letters and digits of a text, in lower case; *don't* is `dont`.
fn words(text: &str) -> impl Iterator<Item = String> {
    let text = text.replace(['\'', '’'], "").to_lowercase();
    let words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    words.into_iter()
}

/// The terms of one word: its stem, and pairs where characters of a script without spaces stand.
fn word_terms(word: &str) -> Vec<String> {
    if word.is_ascii() {
        return vec![stem(word)];
    }
    let characters: Vec<char> = word.chars().collect();
    let mut terms = Vec::new();
    for run in characters.chunk_by(|a, b| is_unspaced(*a) == is_unspaced(*b)) {
        match run {
            [first, _, ..] if is_unspaced(*first) => {
                terms.extend(run.windows(2).map(|pair| pair.iter().collect::<String>()));
            }
            run => terms.push(run.iter().collect()),
        }
    }
    terms
}

/// Whether a character belongs to a script that puts no spaces between words.
fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{3040}'..='\u{30ff}' // Hiragana and Katakana
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' // Han
        | '\u{ac00}'..='\u{d7af}' // Hangul
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

/// An English word without its ending. The rules follow the first step of Martin Porter's
/// stemmer (*An algorithm for suffix stripping*, 1980), and bring *-ate*, *-ation* and *-ator*
/// together. Two words of one stem need not mean the same.
fn stem(word: &str) -> String {
    if word.len() < MIN_STEM || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let word = without_inflection(without_plural(word));
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
        _ => word,
    }
}

fn without_plural(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("ies")
        && stem.len() >= 2
    {
        return format!("{stem}y");
    }
    for ending in ["sses", "xes", "ches", "shes", "zes"] {
        if word.ends_with(ending) {
            return word[..word.len() - 2].to_owned();
        }
    }
    let kept = ["ss", "us", "is"]
        .iter()
        .any(|ending| word.ends_with(ending));
    match word.strip_suffix('s') {
        Some(stem) if !kept => stem.to_owned(),
        _ => word.to_owned(),
    }
}

fn without_inflection(word: String) -> String {
    let has_vowel = |stem: &str| stem.bytes().any(|byte| b"aeiouy".contains(&byte));
    let cut = ["ing", "ed"]
        .iter()
        .find_map(|ending| word.strip_suffix(ending));
    let Some(stem) = cut.filter(|stem| stem.len() >= 2 && has_vowel(stem)) else {
        return word;
    };
    match stem.as_bytes() {
        // *running* is *run*, but *falling* is *fall*.
        [.., a, b] if a == b && !b"lsz".contains(b) && !b"aeiou".contains(b) => {
            stem[..stem.len() - 1].to_owned()
        }
        _ => stem.to_owned(),
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
    }
}
