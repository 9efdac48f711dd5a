//! `.env` files.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use super::exit::Failure;
use crate::{environment, files};

/// The file that is read when no other is named.
const FOUND: &str = ".env";
/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// For each server, the variables of its addresses, and the variables of the keys that are sent there. A provider receives
/// the prompts, and a collector of OpenTelemetry the traces.
const ADDRESSES_AND_KEYS: [(&[&str], &[&str]); 4] = [
    (&["OPENAI_BASE_URL"], &["OPENAI_API_KEY"]),
    (&["ANTHROPIC_BASE_URL"], &["ANTHROPIC_API_KEY"]),
    (&["GEMINI_BASE_URL"], &["GEMINI_API_KEY"]),
    (
        &[
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        ],
        &[
            "OTEL_EXPORTER_OTLP_HEADERS",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
        ],
    ),
];

/// Reads the named file, or `.env` in the current folder if there is one. It sets only variables
/// that the environment leaves unset. Returns a note about it for the user.
pub(super) fn load(named: Option<&PathBuf>) -> Result<Option<String>, Failure> {
    let path = named.map_or(Path::new(FOUND), PathBuf::as_path);
    let text = match files::read_text(path, MAX_BYTES) {
        Ok(text) => text,
        Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(Failure::Usage(format!("{}: {error}", path.display()))),
    };
    let read = read(&text)
        .map_err(|(line, fault)| Failure::Usage(format!("{}:{line}: {fault}", path.display())));
    let mut variables = read?;
    let mut told = Vec::new();
    if named.is_none() {
        for (addresses, keys) in ADDRESSES_AND_KEYS {
            for address in addresses {
                let sent = keys.iter().find(|key| sends_away(&variables, address, key));
                if let Some(key) = sent {
                    variables.remove(*address);
                    told.push(format!(
                        "{FOUND} sets {address}, and {key} is not from there: the address is not used; name the file \
                         with --env-file to use it"
                    ));
                }
            }
        }
    }
    environment::supply(variables);
    Ok((!told.is_empty()).then(|| told.join("\n")))
}

/// Whether a file that nobody named, possibly in a folder of somebody else's, would send the user's
/// own key to an address that the file sets.
fn sends_away(variables: &BTreeMap<String, String>, address: &str, key: &str) -> bool {
    variables.contains_key(address) && !environment::is_set(address) && environment::is_set(key)
}

/// `NAME=value` on each line, with or without `export` and quotation marks.
fn read(text: &str) -> Result<BTreeMap<String, String>, (usize, String)> {
    let mut variables = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let pair = line.split_once('=');
        let (name, value) = pair.ok_or_else(|| (number, String::from("expected NAME=value")))?;
        let name = name.trim();
        let is_name = |name: &str| {
            let mut letters = name.chars();
            let first = letters.next();
            first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
                && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if !is_name(name) {
            return Err((number, format!("`{name}` is no name of a variable")));
        }
        let value = value_of(value.trim()).map_err(|fault| (number, fault))?;
        variables.insert(name.to_owned(), value);
    }
    Ok(variables)
}

fn value_of(text: &str) -> Result<String, String> {
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        // A comment begins after a blank, so that an address may contain a `#`.
        let end = text.find(" #").unwrap_or(text.len());
        return Ok(text[..end].trim_end().to_owned());
    };
    let mut value = String::new();
    let mut letters = text[1..].chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if quote == '"' => value.push(match letters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(other) => other,
                None => break,
            }),
            end if end == quote => {
                let rest = letters.as_str().trim();
                return match rest.is_empty() || rest.starts_with('#') {
                    true => Ok(value),
                    false => Err(format!("`{rest}` stands behind the closing {quote}")),
                };
            }
            other => value.push(other),
        }
    }
    Err(format!("the closing {quote} is missing"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_read_as_a_shell_would() {
        let text = "# a comment\n\nA=1\nexport B = two words # and why\nC='a # $b'\nD=\"x\\ny\\\"\"\nE=\nF=h#1\r\n";
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "a # $b"),
            ("D", "x\ny\""),
            ("E", ""),
            ("F", "h#1"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read(text).unwrap(), BTreeMap::from(expected));
    }

    #[test]
    fn a_fault_is_told_with_its_line_and_without_the_value() {
        for (text, line, part) in [
            ("A=1\nsk-secret", 2, "NAME=value"),
            ("1A=x", 1, "`1A`"),
            ("A=\"open", 1, "closing"),
            ("A='x' y", 1, "behind"),
        ] {
            let (found, fault) = read(text).unwrap_err();
            assert_eq!(found, line, "{text}");
            assert!(fault.contains(part) && !fault.contains("secret"), "{fault}");
        }
    }
}
