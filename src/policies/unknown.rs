//! Whether a sentence claims something, or only says that nothing was found.

/// How a sentence says that nothing was found.
const UNKNOWN: [&str; 22] = [
    "could not find",
    "couldn't find",
    "cannot find",
    "can't find",
    "did not find",
    "didn't find",
    "have not found",
    "haven't found",
    "found nothing",
    "found no ",
    "nothing was found",
    "no information",
    "no passage",
    "do not tell",
    "don't tell",
    "does not tell",
    "do not say",
    "don't say",
    "does not say",
    "do not know",
    "don't know",
    "not mention",
];
/// The words before these: who looked, and where.
const LOOKING: [&str; 62] = [
    "a",
    "afraid",
    "all",
    "also",
    "am",
    "and",
    "any",
    "apologies",
    "article",
    "articles",
    "available",
    "base",
    "could",
    "did",
    "do",
    "doc",
    "docs",
    "document",
    "documentation",
    "documents",
    "does",
    "file",
    "files",
    "found",
    "given",
    "have",
    "he",
    "here",
    "i",
    "i'm",
    "in",
    "information",
    "is",
    "it",
    "knowledge",
    "manual",
    "material",
    "my",
    "of",
    "our",
    "page",
    "pages",
    "passage",
    "passages",
    "provided",
    "read",
    "regrettably",
    "results",
    "search",
    "searched",
    "she",
    "sorry",
    "source",
    "sources",
    "text",
    "the",
    "there",
    "these",
    "they",
    "this",
    "unfortunately",
    "we",
];
/// The most of them.
const MAX_LOOKING: usize = 10;
/// The words with which a further clause begins, or which make what follows the one thing that was found.
const JOINING: [&str; 38] = [
    "although",
    "and",
    "apart",
    "as",
    "because",
    "besides",
    "beyond",
    "but",
    "consequently",
    "contradicting",
    "except",
    "given",
    "hence",
    "however",
    "instead",
    "just",
    "meaning",
    "nor",
    "only",
    "other",
    "otherwise",
    "seeing",
    "since",
    "so",
    "than",
    "that",
    "then",
    "therefore",
    "though",
    "thus",
    "unless",
    "until",
    "whereas",
    "which",
    "while",
    "who",
    "whose",
    "yet",
];
/// The signs that begin one.
const APART: [char; 11] = [',', ';', ':', '—', '–', '(', '[', '/', '\n', '…', '='];
/// The most characters of a sentence that says no more than that.
const MAX_UNKNOWN_CHARS: usize = 160;

/// Whether a sentence says that nothing was found, and no more: those who looked, the words that say it, and what was looked
/// for. Other words before them make a claim, and a further clause may make one.
pub(super) fn says_unknown(sentence: &str) -> bool {
    let text = sentence.trim().to_lowercase().replace('’', "'");
    let is_word = |c: char| c.is_alphanumeric() || c == '\'';
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !is_word(c));
        let words = words.map(|word| word.trim_matches('\'').to_owned());
        words.filter(|word| !word.is_empty()).collect()
    };
    let says_it = || {
        UNKNOWN.iter().any(|said| {
            text.split_once(said).is_some_and(|(before, after)| {
                let before = words(before);
                before.len() <= MAX_LOOKING
                    && before.iter().all(|word| LOOKING.contains(&word.as_str()))
                    && !words(after)
                        .iter()
                        .any(|word| JOINING.contains(&word.as_str()))
            })
        })
    };
    text.chars().count() <= MAX_UNKNOWN_CHARS
        && !text
            .chars()
            .any(|c| c.is_ascii_digit() || APART.contains(&c))
        && says_it()
}

#[cfg(test)]
mod tests {
    use super::super::CitedAnswers;

    #[test]
    fn what_claims_something_must_cite_although_nothing_was_found() {
        let policy = CitedAnswers::default().required();
        for claim in [
            "Runs can never be cancelled.",
            "The documents do not say otherwise, so runs can never be cancelled.",
            "I found no exception and runs can never be cancelled.",
            "Runs can never be cancelled because I found nothing against it.",
            "Runs can never be cancelled as the documents do not say otherwise.",
            "Runs can never be cancelled (I found nothing else).",
            "I found nothing since runs can never be cancelled.",
            "I found no exception so runs can never be cancelled.",
            "I found nothing other than runs never being cancelled.",
            "Cancelling runs is something the documents do not tell.",
            "Those who cancel runs do not know runs can never be cancelled.",
        ] {
            assert_eq!(policy.problems(claim).len(), 1, "{claim}");
        }
        for honest in [
            "I could not find anything about zeppelins in the documents.",
            "The documents do not tell how runs are cancelled.",
            "Hello! How can I help?",
            "Unfortunately I couldn’t find anything about zeppelins.",
            "There is no information about zeppelins in the documents.",
            "The documents I searched do not mention zeppelins.",
            "I'm sorry. I don't know how zeppelins are steered.",
            "No passage tells when zeppelins fly.",
        ] {
            assert_eq!(policy.problems(honest), [""; 0], "{honest}");
        }
    }
}
