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
    let quoted = value
        .strip_prefix('"')
        .and_then(|value| value.split('"').next());
    let value = quoted.or_else(|| value.split_whitespace().next())?;
    let value = value.trim_end_matches(['.', ',', ';', '?', '!']);
    (!value.is_empty()).then_some(value)
}

/// The texts in quotation marks.
pub(super) fn quotes(text: &str) -> Vec<String> {
    let mut quotes = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(['"', '“', '`', '«']) {
        let Some(open) = rest[start..].chars().next() else {
            break;
        };
        let inner = &rest[start + open.len_utf8()..];
        let close = match open {
            '“' => '”',
            '«' => '»',
            other => other,
        };
        let Some(end) = inner.find(close) else {
            break;
        };
        if !inner[..end].trim().is_empty() {
            quotes.push(inner[..end].to_owned());
        }
        rest = &inner[end + close.len_utf8()..];
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
