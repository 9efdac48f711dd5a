//! Documents that leave this machine, without the secrets in them.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use ghostlight_actors::vocabulary::Digest;
use ghostlight_safety::{redact_definition, redact_json};
use serde_json::{Map, Value};

use super::arguments::Secrets;

impl Secrets {
    /// A document of lines of JSON in the form in which it may leave this machine.
    ///
    /// # Errors
    /// When it holds what looks like a secret, and neither option was given.
    pub(super) fn leaving(self, document: String) -> Result<String, String> {
        let mut leaving = self.leaving_lines();
        if leaving.is_to_look() {
            document.lines().for_each(|line| leaving.look(line));
        }
        leaving.may_print()?;
        if !leaving.seen.differs {
            return Ok(document);
        }
        let shown = document.lines().map(|line| leaving.shown(line.to_owned()));
        Ok(shown.collect::<Vec<String>>().join("\n"))
    }

    /// The same for a document that is read twice, line by line: all of it is looked at before any of
    /// it is printed.
    pub(super) fn leaving_lines(self) -> LeavingLines {
        LeavingLines {
            secrets: self,
            seen: Leaving::default(),
        }
    }
}

/// The lines of a document that leaves this machine.
pub(super) struct LeavingLines {
    secrets: Secrets,
    seen: Leaving,
}

impl LeavingLines {
    /// Whether the document is looked at first.
    pub(super) fn is_to_look(&self) -> bool {
        !self.secrets.with_secrets
    }

    /// Looks at a line of it.
    pub(super) fn look(&mut self, line: &str) {
        self.seen.line(line);
    }

    /// Whether it may be printed, as far as it was looked at.
    ///
    /// # Errors
    /// When it holds what looks like a secret, and neither option was given.
    pub(super) fn may_print(&self) -> Result<(), String> {
        match self.seen.differs && !self.secrets.redact {
            false => Ok(()),
            true => Err(String::from(
                "it holds what looks like secrets: give --with-secrets to print them, or --redact to leave \
                 them out",
            )),
        }
    }

    /// A line of it as it is printed.
    pub(super) fn shown(&self, line: String) -> String {
        match self.seen.differs {
            false => line,
            true => self.seen.renamed_in(Leaving::default().line(&line)),
        }
    }
}

/// The parts of a document that were left out.
#[derive(Default)]
struct Leaving {
    /// Whether anything was.
    differs: bool,
    /// The hashes of contents that differ, before and after. A content is named by its hash.
    renamed: Vec<(Digest, Digest)>,
}

impl Leaving {
    fn line(&mut self, line: &str) -> String {
        let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(line) else {
            return line.to_owned();
        };
        let shown = fields.iter().map(|(name, value)| {
            let shown = match name.as_str() {
                "definition" => redact_definition(value),
                "content" | "contents" => self.contents(value),
                _ => redact_json(value),
            };
            (name.clone(), shown)
        });
        let shown: Map<String, Value> = shown.collect();
        // What did not change stays as it was written, byte for byte.
        if shown == fields {
            return line.to_owned();
        }
        self.differs = true;
        Value::Object(shown).to_string()
    }

    /// Contents in base64, under their hashes or beside them. Those that are text are searched.
    fn contents(&mut self, value: &Value) -> Value {
        match value {
            Value::String(encoded) => self.content(encoded).into(),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| match name.as_str() {
                    "hash" => (name.clone(), value.clone()),
                    _ => (name.clone(), self.contents(value)),
                });
                Value::Object(fields.collect())
            }
            other => other.clone(),
        }
    }

    fn content(&mut self, encoded: &str) -> String {
        let bytes = BASE64.decode(encoded).unwrap_or_default();
        let Ok(text) = std::str::from_utf8(&bytes) else {
            return encoded.to_owned();
        };
        // A text that is JSON is read as such.
        match redact_json(&Value::from(text)).as_str() {
            Some(shown) if shown != text => {
                self.renamed
                    .push((Digest::of(&bytes), Digest::of(shown.as_bytes())));
                BASE64.encode(shown)
            }
            _ => encoded.to_owned(),
        }
    }

    fn renamed_in(&self, document: String) -> String {
        self.renamed
            .iter()
            .fold(document, |document, (before, after)| {
                document.replace(&before.to_string(), &after.to_string())
            })
    }
}
