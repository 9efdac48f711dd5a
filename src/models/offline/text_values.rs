//! Quotations, names, paths and dates in a text.

/// The word behind `name:`, `name=` or `name is`.
pub(super) fn keyed<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    if name.is_empty() {
        return None;
    }
    let at = text.to_ascii_lowercase().find(&name.to_ascii_lowercase())?;
    let before = text[..at].chars().next_back();
    if before.is_some_and(char::is_alphanumeric) {
        return None;
    }
    let rest = text[at + name.len()..].trim_start();
    let signs = [":", "=", "is "];
    let value = signs
        .iter()
        .find_map(|sign| rest.strip_prefix(sign))?
        .trim_start();
    let value = quotation(value).or_else(|| value.split_whitespace().next())?;
    let value = value.trim_end_matches(['.', ',', ';', '?', '!']);
    (!value.is_empty()).then_some(value)
}

/// What stands in the quotation marks with which a text begins. An apostrophe closes nothing.
fn quotation(text: &str) -> Option<&str> {
    let open = text.chars().next()?;
    let close = match open {
        '"' | '`' | '\'' => open,
        '“' => '”',
        '«' => '»',
        '‘' => '’',
        _ => return None,
    };
    let inner = &text[open.len_utf8()..];
    let mut marks = inner.match_indices(close);
    let in_word = |behind: &str| behind.starts_with(char::is_alphanumeric);
    let (end, _) = marks
        .find(|(at, mark)| !matches!(close, '\'' | '’') || !in_word(&inner[at + mark.len()..]))?;
    Some(&inner[..end])
}

/// The texts in quotation marks.
pub(super) fn quotes(text: &str) -> Vec<String> {
    let mut quotes = Vec::new();
    let mut end = 0;
    for (at, mark) in text.char_indices() {
        let apostrophe = mark == '\'' && text[..at].ends_with(char::is_alphanumeric);
        if at < end || apostrophe {
            continue;
        }
        if let Some(inner) = quotation(&text[at..]) {
            end = at + mark.len_utf8() + inner.len() + 1;
            if !inner.trim().is_empty() {
                quotes.push(inner.to_owned());
            }
        }
    }
    quotes
}

/// Runs of capitalised words that do not begin the text, such as the name of a city.
pub(super) fn proper_names(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut continues = false;
    for word in text.split_whitespace().skip(1) {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let capital = bare.chars().next().is_some_and(char::is_uppercase) && bare != "I";
        match names.last_mut() {
            Some(name) if capital && continues => {
                name.push(' ');
                name.push_str(bare);
            }
            _ if capital => names.push(bare.to_owned()),
            _ => {}
        }
        continues = capital && word.ends_with(bare);
    }
    names
}

/// The first word of a text that is of this kind, without punctuation around it.
pub(super) fn word(text: &str, is: impl Fn(&str) -> bool) -> Option<String> {
    let around = [
        '"', '\'', '`', ',', ';', '?', '!', '(', ')', '<', '>', '“', '”',
    ];
    let words = text
        .split_whitespace()
        .map(|word| word.trim_matches(around));
    let mut words = words.map(|word| word.trim_end_matches(['.', ':']));
    words.find(|word| is(word)).map(str::to_owned)
}

pub(super) fn is_path(word: &str) -> bool {
    if word.contains("://") || is_date(word) {
        return false;
    }
    let slashes = word.len() > 1 && word.contains(['/', '\\']);
    let extension = word.rsplit_once('.').is_some_and(|(stem, extension)| {
        let letters = extension.bytes().any(|byte| byte.is_ascii_alphabetic());
        let short = (1..=8).contains(&extension.len());
        let plain = extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
        !stem.is_empty() && letters && short && plain
    });
    (slashes || extension) && word.chars().any(char::is_alphabetic) && !word.contains('@')
}

pub(super) fn is_date(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    let lengths = parts.iter().map(|part| part.len());
    let digits = parts
        .iter()
        .all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    digits && lengths.eq([4, 2, 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_taken_whole_in_all_marks_and_with_its_apostrophes() {
        let text = "Publish an event: 'two of Ada's chairs', don't wait";
        assert_eq!(keyed(text, "event"), Some("two of Ada's chairs"));
        assert_eq!(quotes(text), ["two of Ada's chairs"]);
        for text in [
            "a \"b c\" d",
            "a “b c” d",
            "a «b c» d",
            "a ‘b c’ d",
            "a `b c` d",
        ] {
            assert_eq!(quotes(text), ["b c"], "{text}");
        }
        assert_eq!(quotes("the users' names and Ada's, 5\" wide"), [""; 0]);
        assert_eq!(keyed("name: Ada, please", "name"), Some("Ada"));
        assert_eq!(keyed("name: \"Ada", "name"), Some("\"Ada"));
    }
}
