//! `.env` files.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use ghostlight::{environment, files};

use super::{exit::Failure, plain_text};

/// The file that is read when no other is named.
const FOUND: &str = ".env";
/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// How many lines that do not fit are told one by one.
const TOLD_FAULTS: usize = 3;
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
///
/// # Errors
/// When the named file, or a line of it, cannot be read. A `.env` that nobody named may belong to another program: what
/// does not fit is left out of it.
pub(super) fn load(named: Option<&PathBuf>) -> Result<Option<String>, Failure> {
    static LOADED: AtomicBool = AtomicBool::new(false);
    // It is read once, whoever needs its variables first.
    if LOADED.swap(true, Ordering::Relaxed) {
        return Ok(None);
    }
    let path = named.map_or(Path::new(FOUND), PathBuf::as_path);
    let text = match files::read_text(path, MAX_BYTES) {
        Ok(text) => text,
        Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) if named.is_none() => {
            return Ok(Some(format!("{FOUND} is not used: {error}")));
        }
        Err(error) => return Err(Failure::Usage(format!("{}: {error}", path.display()))),
    };
    let (mut variables, faults) = read(&text);
    if let (Some(_), Some((line, fault))) = (named, faults.first()) {
        let place = path.display();
        return Err(Failure::Usage(format!("{place}:{line}: {fault}")));
    }
    let mut told = left_out(&faults);
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

/// A note about each of the first lines that do not fit, and how many more there are. Their texts may be secrets.
fn left_out(faults: &[(usize, String)]) -> Vec<String> {
    let first = faults.iter().take(TOLD_FAULTS);
    let mut told: Vec<String> = first
        .map(|(line, _)| format!("{FOUND}:{line}: this is not a NAME=value and is left out"))
        .collect();
    if faults.len() > TOLD_FAULTS {
        let more = faults.len() - TOLD_FAULTS;
        told.push(format!(
            "{FOUND}: {more} more lines are none and are left out"
        ));
    }
    told
}

/// Whether a file that nobody named, possibly in a folder of somebody else's, would send the user's
/// own key to an address that the file sets.
fn sends_away(variables: &BTreeMap<String, String>, address: &str, key: &str) -> bool {
    variables.contains_key(address) && !environment::is_set(address) && environment::is_set(key)
}

/// `NAME=value` on each line, with or without `export` and quotation marks; and each line that is none, with its fault.
fn read(text: &str) -> (BTreeMap<String, String>, Vec<(usize, String)>) {
    let (mut variables, mut faults) = (BTreeMap::new(), Vec::new());
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match pair(line) {
            Ok((name, value)) => {
                variables.insert(name, value);
            }
            Err(fault) => faults.push((number, fault)),
        }
    }
    (variables, faults)
}

fn pair(line: &str) -> Result<(String, String), String> {
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=').ok_or("expected NAME=value")?;
    let name = name.trim();
    let mut letters = name.chars();
    let first = letters.next();
    let is_name = first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return Err(format!(
            "`{}` is not a name of a variable",
            plain_text::line(name, 40)
        ));
    }
    Ok((name.to_owned(), value_of(value.trim())?))
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
                    false => Err(format!("something stands behind the closing {quote}")),
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
        assert_eq!(read(text), (BTreeMap::from(expected), Vec::new()));
    }

    #[test]
    fn a_fault_is_told_with_its_line_and_without_the_value() {
        for (text, line, part) in [
            ("A=1\nsk-secret", 2, "NAME=value"),
            ("1A=x", 1, "`1A`"),
            ("A=\"open", 1, "closing"),
            ("A='x' y", 1, "behind"),
        ] {
            let (found, fault) = read(text).1.remove(0);
            assert_eq!(found, line, "{text}");
            assert!(fault.contains(part) && !fault.contains("secret"), "{fault}");
        }
    }
}
