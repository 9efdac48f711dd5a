//! From a text to the terms by which it is found.

use std::collections::BTreeSet;

use ghostlight_retrieval::terms as words;

/// How many terms of one text are used.
const MOST: usize = 2_000;

/// The terms of a text, as documents have them: stems of words, and pairs of characters in scripts without spaces
/// between words. Of a long text the first 2,000.
pub(crate) fn terms(text: &str) -> BTreeSet<String> {
    words::terms(text).into_iter().take(MOST).collect()
}

/// The terms of a question, without stop words, unless it has nothing else.
pub(crate) fn query_terms(text: &str) -> BTreeSet<String> {
    let terms = words::content_terms(text);
    terms.into_iter().take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_every_script_are_found() {
        let has = |text: &str, query: &str| query_terms(query).is_subset(&terms(text));
        assert!(has("Ada likes green lamps.", "Which LAMP is green?"));
        assert!(has("我喜欢绿色的灯", "绿色"));
        assert!(has("緑のランプが好きです", "ランプ"));
        assert!(has("אני אוהב מנורות ירוקות", "מנורות"));
        assert!(has("أحب المصابيح الخضراء", "المصابيح"));
        assert!(has("Die Straße in Köln", "KÖLN straße"));
        assert!(!has("我喜欢绿色的灯", "红色"));
        assert!(terms("🙂 👍🏽").is_empty());
    }

    #[test]
    fn a_question_of_stop_words_alone_keeps_them() {
        assert_eq!(query_terms("who are you").len(), 3);
        assert_eq!(query_terms("who are the painters"), terms("painter"));
    }

    #[test]
    fn a_long_text_has_terms_within_bounds() {
        let text: String = (0..10_000).map(|number| format!("w{number} ")).collect();
        assert_eq!(terms(&text).len(), MOST);
    }
}
