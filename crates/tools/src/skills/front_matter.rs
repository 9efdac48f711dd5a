//! The front matter of a `SKILL.md`.

/// A value of front matter.
pub(super) enum Value {
    Text(String),
    List(Vec<String>),
}

impl Value {
    pub(super) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::List(items) => items.join(", "),
        }
    }

    /// Words separated by spaces or commas; brackets, as in `Bash(git:*)`, keep a word together.
    pub(super) fn words(self) -> Vec<String> {
        let text = match self {
            Self::List(items) => return items,
            Self::Text(text) => text,
        };
        let (mut words, mut depth) = (vec![String::new()], 0_usize);
        for c in text.chars() {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            match words.last_mut() {
                Some(word) if depth > 0 || !(c == ',' || c.is_whitespace()) => word.push(c),
                _ => words.push(String::new()),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }
}

/// The keys of front matter with their values. Of YAML it reads the forms that skills use: texts (plain, quoted or over
/// several lines), and lists of texts. Deeper mappings, such as `metadata`, are skipped.
pub(super) fn front_matter(text: &str) -> Result<Vec<(String, Value)>, String> {
    let mut found: Vec<(String, Value)> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            return Err(format!("the line {:?} belongs to no key", line.trim()));
        }
        let Some((key, rest)) = line.split_once(':') else {
            return Err(format!("the line {line:?} is no `key: value`"));
        };
        let (key, rest) = (key.trim().to_owned(), rest.trim());
        let mut below = Vec::new();
        while let Some(next) = lines.peek() {
            if !(next.trim().is_empty() || next.starts_with([' ', '\t']) || next.starts_with("- "))
            {
                break;
            }
            below.push(*next);
            lines.next();
        }
        if found.iter().any(|(other, _)| *other == key) {
            return Err(format!("the key `{key}` stands there twice"));
        }
        found.push((key, value(rest, &below)));
    }
    Ok(found)
}

fn value(rest: &str, below: &[&str]) -> Value {
    let joined = |with: &str| {
        let lines: Vec<&str> = below.iter().map(|line| line.trim()).collect();
        lines.join(with).trim().to_owned()
    };
    if let Some(style) = rest.chars().next().filter(|c| matches!(c, '|' | '>')) {
        return Value::Text(joined(if style == '|' { "\n" } else { " " }));
    }
    let items: Vec<&str> = below
        .iter()
        .map(|line| line.trim())
        .filter(|line| !line.is_empty())
        .collect();
    if rest.is_empty() && !items.is_empty() && items.iter().all(|item| item.starts_with("- ")) {
        return Value::List(
            items
                .iter()
                .map(|item| unquoted(item[2..].trim()))
                .collect(),
        );
    }
    if let Some(list) = rest
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        let items = list.split(',').map(|item| unquoted(item.trim()));
        return Value::List(items.filter(|item| !item.is_empty()).collect());
    }
    let whole = match items.is_empty() {
        true => rest.to_owned(),
        // The text continues in the next lines.
        false => format!("{rest} {}", joined(" ")),
    };
    Value::Text(unquoted(whole.trim()))
}

/// A text without its quotes, or without the comment behind it.
fn unquoted(text: &str) -> String {
    let within = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(text) = within('\'') {
        return text.replace("''", "'");
    }
    if let Some(text) = within('"') {
        let read: Result<String, _> = serde_json::from_str(&format!("\"{text}\""));
        return read.unwrap_or_else(|_| text.to_owned());
    }
    text.split(" #")
        .next()
        .unwrap_or_default()
        .trim_end()
        .to_owned()
}
