//! Texts that are shown to people, and texts that come in from outside. Showing never changes what is executed.
//!
//! - [`redact`] removes secrets and paths from logs, traces and audits.
//! - [`visible`] shows a text to the person who decides about it: nothing is taken out, and each character
//!   that cannot be seen is an escape. [`printable`] is for whatever else a terminal shows, and [`deciding`] shows whole
//!   calls and takes the person's edits back.
//! - [`sanitize`] is for models: it takes out of what comes in (results of tools, answers of people) what
//!   could pass itself off as something else: terminal codes, hidden characters, the marks of chat
//!   templates, forged roles.
//! - [`personal_data`] finds data about people.
//! - Forms that several packages read have their one reader here: `${NAME}` ([`references()`]), percent-encoding
//!   ([`percent_decoded`]), event streams ([`EventParser`]), front matter ([`front_matter()`]), and JSON in which no name stands
//!   twice ([`unambiguous_json`]).
//!
//! ```
//! use ghostlight_safety::{redact_text, sanitize, visible};
//!
//! let logged = redact_text("the key is sk-proj-4f9Q2mZx8LrT6vWc1BnHdKpYs3uEaGjR");
//! assert_eq!(logged, "the key is [redacted]");
//! assert_eq!(visible("pay\u{202e}100"), "pay\\u{202e}100");
//! assert_eq!(sanitize("fine \u{1b}[31mred"), "fine red");
//! ```
//!
//! All are pure functions of their input, and never fail but where they read a form. Redacting and sanitising change
//! nothing the second time.

pub mod deciding;
mod event_stream;
mod folding;
mod front_matter;
mod keys;
mod metrics;
#[cfg(test)]
mod naming;
mod patterns;
mod percent;
mod personal;
mod redaction;
mod references;
mod sanitizing;
mod secrets;
mod showing;
#[cfg(test)]
mod tries;
mod unambiguous;
mod unseen;

pub use deciding::visible_value;
pub use event_stream::{EventParser, ServerEvent};
pub use front_matter::front_matter;
pub use keys::{is_path_key, is_secret_key};
pub use metrics::{metric_head, metric_histogram, metric_line};
pub use percent::{percent_decoded, percent_encoded};
pub use personal::{PersonalData, PersonalKind, personal_data, personal_data_from};
pub use redaction::{
    REDACTED, Redaction, log_line, redact, redact_arguments, redact_definition, redact_json,
    redact_text, without_secrets,
};
pub use references::{Reference, ReferenceError, TextPiece, references, revealed, sole_reference};
pub use sanitizing::{sanitize, sanitize_line};
pub use showing::{printable, printable_line, screened, visible};
pub use unambiguous::unambiguous_json;

/// Whether the host of an address is this machine: `localhost` or a name below it, or an address of the loopback interface. One of
/// IPv6 may stand in brackets.
pub fn is_loopback_host(host: &str) -> bool {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let bare = bare.unwrap_or(host);
    match bare.parse::<std::net::IpAddr>() {
        Ok(ip) => ip.is_loopback(),
        Err(_) => bare == "localhost" || bare.ends_with(".localhost"),
    }
}

/// The first characters of a text, at most this many; where some are cut off, `…` is the last.
pub fn cut(text: &str, characters: usize) -> std::borrow::Cow<'_, str> {
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

/// Cuts a text to this many characters for a model, which is told how many were cut off. Returns that number too.
pub fn cut_off(mut text: String, characters: usize) -> (String, u64) {
    // A text has no more characters than bytes.
    if text.len() <= characters {
        return (text, 0);
    }
    let Some((end, _)) = text.char_indices().nth(characters) else {
        return (text, 0);
    };
    let more = text[end..].chars().count() as u64;
    text.truncate(end);
    text.push_str(&format!("\n[{more} more characters were cut off]"));
    (text, more)
}

#[cfg(test)]
mod tests {
    use super::{cut, cut_off};

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("größer", 4), "grö…");
        assert_eq!(cut("größer", 6), "größer");
        assert_eq!(cut("größer", 0), "");
    }

    #[test]
    fn a_text_for_a_model_says_how_much_was_cut_off() {
        assert_eq!(cut_off("héllo".into(), 5), ("héllo".into(), 0));
        let (text, more) = cut_off("世界世界".into(), 3);
        assert!(text.starts_with("世界世\n"), "{text}");
        assert_eq!(more, 1);
    }
}
