//! What may be shown, and what may come in.
//!
//! [`redact`] takes secrets and paths out of what people, logs and traces are shown: one routine
//! for approval questions, dry runs, logging, metrics and audit. [`sanitize`] takes out of what
//! comes in (results of tools, answers of people) what could pass itself off as something else:
//! terminal codes, hidden characters, the marks of chat templates, forged roles.
//!
//! All are pure functions of their input, and never fail; the first two change nothing the second
//! time.
//!
//! Architecture invariant: nothing here knows a run, an actor or a contract.

mod keys;
mod patterns;
mod personal;
mod redaction;
mod sanitizing;

pub use keys::{is_path_key, is_secret_key};
pub use personal::{PersonalData, PersonalKind, personal_data, personal_data_from};
pub(crate) use redaction::SHOWN;
pub use redaction::{
    INVALID_ARGUMENTS, REDACTED, REDACTED_PATH, Redaction, redact, redact_arguments, redact_text,
    restore,
};
pub use sanitizing::{FILTERED, sanitize, sanitize_line};

/// The first characters of a text, so many at most; where some are cut off, `…` is the last.
pub(crate) fn cut(text: &str, characters: usize) -> std::borrow::Cow<'_, str> {
    if text.chars().nth(characters).is_none() {
        return text.into();
    }
    let kept = characters.saturating_sub(1);
    let short: String = text.chars().take(kept).collect();
    if characters == 0 {
        return short.into();
    }
    (short + "…").into()
}
