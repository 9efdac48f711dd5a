//! The part of a server's words that may be shown.

use std::collections::HashSet;

use ghostlight_actors::vocabulary::{ModelRequest, Part};

/// The most characters of a server's words that are shown.
const LIMIT: usize = 240;
/// A run of at least this many bytes that also occurs in the request counts as copied from it.
const WINDOW: usize = 16;
/// Shorter texts of the request are not searched for: they are single words.
const SHORTEST: usize = 4;
/// A quoted word longer than this many bytes is not shown.
const QUOTATION: usize = 48;
/// How the engine's note of a failure begins. It ends with a bracket.
const NOTE: &str = "[failed: ";

/// Removes from a server's words what repeats a request: prompts, tool results and keys.
#[derive(Default)]
pub(crate) struct Scrub<'a> {
    request: Option<&'a ModelRequest>,
}

impl<'a> Scrub<'a> {
    /// A scrub for the answer to this request.
    pub(crate) fn new(request: &'a ModelRequest) -> Self {
        Self {
            request: Some(request),
        }
    }

    /// The words that may be shown: the first line up to a dump of data, without long quotations,
    /// without anything that looks like a key, and without what is also in the request.
    pub(crate) fn excerpt(&self, words: &str) -> Option<String> {
        let line = words.trim().lines().next()?;
        let line = line.split(['{', '<']).next()?;
        let line: String = line
            .chars()
            .filter(|c| !c.is_control())
            .take(LIMIT)
            .collect();
        let line = without_keys(&without_quotations(&line));
        let line = self.without_request(&line);
        let line = line
            .trim()
            .trim_end_matches(['.', ':', '-', ','])
            .trim_end();
        (!line.is_empty()).then(|| line.to_owned())
    }

    fn without_request(&self, words: &str) -> String {
        let bytes = words.as_bytes();
        let mut taken = vec![false; bytes.len()];
        let windows: HashSet<&[u8]> = bytes.windows(WINDOW).collect();
        self.each_text(&mut |text| {
            let text = text.trim().as_bytes();
            if text.len() < SHORTEST {
                return;
            }
            if text.len() < WINDOW {
                mark(bytes, text, &mut taken);
                return;
            }
            for window in text
                .windows(WINDOW)
                .filter(|window| windows.contains(window))
            {
                mark(bytes, window, &mut taken);
            }
        });
        let mut shown = String::new();
        for (at, c) in words.char_indices() {
            if !taken[at] {
                shown.push(c);
            } else if !shown.ends_with('…') {
                shown.push('…');
            }
        }
        shown
    }

    fn each_text(&self, look: &mut dyn FnMut(&str)) {
        let Some(request) = self.request else { return };
        look(&request.instructions);
        for message in request.conversation.messages() {
            for part in &message.parts {
                match part {
                    Part::Text(text) => without_notes(text).for_each(&mut *look),
                    Part::ToolCall(call) => look(call.arguments.text()),
                    Part::ToolResult(result) => without_notes(&result.text).for_each(&mut *look),
                    Part::Reasoning(reasoning) => look(&reasoning.text),
                    _ => {}
                }
            }
        }
    }
}

/// The pieces of a text around the engine's own notes of earlier failures, which hold the words that the server says again:
/// the end of a turn, or of a member of a workflow in the task of the next one.
fn without_notes(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let note = text.match_indices(NOTE).find_map(|(begin, _)| {
            let length = bracketed(&text[begin..])?;
            Some((begin, begin + length))
        });
        let Some((begin, end)) = note else {
            return Some(text);
        };
        rest = Some(&text[end..]);
        Some(&text[..begin])
    })
}

/// The length of the brackets with which a text begins, and of what is in them, on one line.
fn bracketed(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    let line = text.split('\n').next()?;
    line.bytes().zip(1..).find_map(|(byte, length)| {
        match byte {
            b'[' => open += 1,
            b']' => open = open.saturating_sub(1),
            _ => {}
        }
        (open == 0).then_some(length)
    })
}

/// Marks each occurrence of `text` in `words`.
fn mark(words: &[u8], text: &[u8], taken: &mut [bool]) {
    for (at, window) in words.windows(text.len()).enumerate() {
        if window == text {
            taken[at..at + text.len()].fill(true);
        }
    }
}

/// Replaces each quotation that is longer than a word or has no end.
fn without_quotations(words: &str) -> String {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let mut shown = String::new();
    let mut rest = words;
    while let Some(at) = rest.find(['"', '\'', '`']) {
        let (before, quoted) = rest.split_at(at);
        let (mark, quoted) = quoted.split_at(1);
        shown.push_str(before);
        shown.push_str(mark);
        rest = quoted;
        if mark == "'" && is_word(before.chars().next_back()) {
            // This quote is an apostrophe.
            continue;
        }
        let ends = |(at, _): &(usize, &str)| !is_word(quoted[at + 1..].chars().next());
        let Some((end, _)) = quoted.match_indices(mark).find(ends) else {
            shown.push('…');
            return shown;
        };
        let quotation = &quoted[..end];
        let is_told = quotation.len() <= QUOTATION && !quotation.contains(char::is_whitespace);
        shown.push_str(if is_told { quotation } else { "…" });
        shown.push_str(mark);
        rest = &quoted[end + 1..];
    }
    shown.push_str(rest);
    shown
}

fn without_keys(words: &str) -> String {
    let is_key = |word: &&str| {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let lower = bare.to_ascii_lowercase();
        let prefixed = ["sk-", "sk_", "gsk_", "xai-", "pk-", "hf_", "aiza"];
        let random = bare.len() >= 24
            && bare.bytes().any(|byte| byte.is_ascii_digit())
            && bare.bytes().any(|byte| byte.is_ascii_uppercase());
        prefixed.iter().any(|prefix| lower.starts_with(prefix)) || random || word.contains("***")
    };
    let shown = words
        .split(' ')
        .map(|word| if is_key(&word) { "…" } else { word });
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ghostlight_actors::vocabulary::{Message, ToolCall, ToolResult, ToolStatus, Transcript};

    use super::*;

    #[test]
    fn what_helps_is_shown() {
        let scrub = Scrub::default();
        assert_eq!(
            scrub.excerpt("Unsupported value: 'temperature' does not support 0.2 with this model."),
            Some("Unsupported value: 'temperature' does not support 0.2 with this model".into())
        );
        assert_eq!(scrub.excerpt("  \n"), None);
        assert_eq!(scrub.excerpt("<html><body>Bad Gateway"), None);
        assert_eq!(
            scrub.excerpt("no route\nx-trace: 1"),
            Some("no route".into())
        );
    }

    #[test]
    fn what_repeats_the_request_is_not() {
        let conversation = Transcript::from_iter([
            Message::user("My PIN is 4711 and the vault is behind the grey painting."),
            Message::user("zebra-77"),
        ]);
        let request = ModelRequest::new(conversation).instructions("You guard the house of Orlok.");
        let scrub = Scrub::new(&request);
        let shown = scrub
            .excerpt(
                "Invalid input: 'My PIN is 4711 and the vault is behind' after You guard the \
                 house of Orlok. and zebra-77, ok",
            )
            .unwrap();
        assert_eq!(shown, "Invalid input: '…' after … and …, ok");
        let shown = scrub
            .excerpt("the model's input My PIN is 4711 and the vault, wrong")
            .unwrap();
        assert_eq!(shown, "the model's input …, wrong");
    }

    #[test]
    fn what_the_engine_noted_of_an_earlier_failure_is_shown_again() {
        let words = "input[0] is no valid value of the field 'size'";
        let note = format!("[failed: the server refused the request: {words}]");
        let result = |text: String| {
            let call = ToolCall::new("c", "writer", "{}");
            Message::results([ToolResult::new(&call, ToolStatus::Error, text)])
        };
        let (call, member) = (
            Message::assistant(&note),
            Message::user(format!(
                "The writers said:\nann: {note}\nbob: Not a word of mine goes on"
            )),
        );
        let result = result(format!("{{\"failed\": \"{note}\"}}"));
        for (message, is_said) in [(call, false), (member, true), (result, false)] {
            let request = ModelRequest::new(Transcript::from_iter([message]));
            assert_eq!(Scrub::new(&request).excerpt(words).unwrap(), words);
            let other = "wrong: Not a word of mine goes on";
            let shown = Scrub::new(&request).excerpt(other).unwrap();
            assert_eq!(shown != other, is_said, "{shown}");
        }
        // What only looks as if a note began is somebody's text.
        let request = ModelRequest::new(Transcript::from_iter([Message::user(format!(
            "[failed: {words}"
        ))]));
        assert_ne!(Scrub::new(&request).excerpt(words).unwrap(), words);
    }

    #[test]
    fn keys_dumps_and_quotations_are_not() {
        let scrub = Scrub::default();
        let long = "x".repeat(60);
        for (words, shown) in [
            ("Incorrect key: sk-proj-abcd.", "Incorrect key: …"),
            ("key AbCdEfGh1234567890AbCdEfGh is bad", "key … is bad"),
            ("bad input {'content': 'hello'}", "bad input"),
            (&*format!("raw \"{long}\" is wrong"), "raw \"…\" is wrong"),
            ("raw='I don't know, he said', err=x", "raw='…', err=x"),
            ("'top_k' and `n`: \"two words\"", "'top_k' and `n`: \"…\""),
            (
                "the server's answer: 'and it goes on",
                "the server's answer: '…",
            ),
        ] {
            assert_eq!(scrub.excerpt(words).unwrap(), shown);
        }
    }
}
