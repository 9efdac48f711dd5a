//! The text of a model's answer, from previews and from the record.

use super::event::Event;

/// The pieces of one model call that were shown before its end was recorded.
#[derive(Clone, Debug, Default)]
pub(super) struct Speech {
    /// The attempt of the model call, from 1.
    pub(super) attempt: u32,
    text: Shown,
    reasoning: Shown,
}

/// Text under one id.
#[derive(Clone, Debug, Default)]
struct Shown {
    text: String,
    is_open: bool,
}

/// How the end of a model call fits what was shown of it.
#[derive(Debug, PartialEq)]
pub(super) enum Fit {
    /// Its text was shown, or none was.
    Same,
    /// Other text was shown, under this id: it does not count.
    Void(String),
}

impl Speech {
    /// The first piece of an attempt.
    pub(super) fn new(attempt: u32) -> Self {
        Self {
            attempt,
            ..Self::default()
        }
    }

    /// Shows a piece of reasoning.
    pub(super) fn reason(&mut self, id: &str, delta: &str, told: &mut Vec<Event>) {
        let message_id = reasoning_id(id);
        if !std::mem::replace(&mut self.reasoning.is_open, true) {
            told.push(Event::ReasoningStart {
                message_id: message_id.clone(),
            });
            told.push(Event::ReasoningMessageStart {
                message_id: message_id.clone(),
                role: "reasoning",
            });
        }
        self.reasoning.text.push_str(delta);
        let delta = delta.to_owned();
        told.push(Event::ReasoningMessageContent { message_id, delta });
    }

    /// Shows a piece of text.
    pub(super) fn say(&mut self, id: &str, name: &str, delta: &str, told: &mut Vec<Event>) {
        if !std::mem::replace(&mut self.text.is_open, true) {
            told.push(started(id, name));
        }
        self.text.text.push_str(delta);
        told.push(Event::TextMessageContent {
            message_id: id.to_owned(),
            delta: delta.to_owned(),
        });
    }

    /// Ends what is open.
    pub(super) fn close(&mut self, id: &str, told: &mut Vec<Event>) {
        if std::mem::take(&mut self.reasoning.is_open) {
            let message_id = reasoning_id(id);
            told.push(Event::ReasoningMessageEnd {
                message_id: message_id.clone(),
            });
            told.push(Event::ReasoningEnd { message_id });
        }
        if std::mem::take(&mut self.text.is_open) {
            let message_id = id.to_owned();
            told.push(Event::TextMessageEnd { message_id });
        }
    }

    /// Whether the client waits for the rest of it.
    pub(super) fn is_open(&self) -> bool {
        self.text.is_open || self.reasoning.is_open
    }

    /// Whether any text was shown.
    pub(super) fn has_text(&self) -> bool {
        !self.text.text.is_empty()
    }

    /// Shows the rest of what the model said, and ends it. What was shown is completed where it is the beginning of
    /// what the model said; previews may be lost.
    pub(super) fn finish(
        mut self,
        (id, name): (&str, &str),
        (text, reasoning): (&str, &str),
        told: &mut Vec<Event>,
    ) -> Fit {
        if let Some(rest) = reasoning.strip_prefix(self.reasoning.text.as_str())
            && !rest.is_empty()
        {
            self.reason(id, rest, told);
        }
        if let Some(rest) = text.strip_prefix(self.text.text.as_str()) {
            if !rest.is_empty() {
                self.say(id, name, rest, told);
            }
            self.close(id, told);
            return Fit::Same;
        }
        self.close(id, told);
        Fit::Void(id.to_owned())
    }
}

fn reasoning_id(id: &str) -> String {
    format!("{id}_reasoning")
}

fn started(id: &str, name: &str) -> Event {
    Event::TextMessageStart {
        message_id: id.to_owned(),
        role: "assistant",
        name: Some(name.to_owned()).filter(|name| !name.is_empty()),
    }
}

/// A message that is shown whole.
pub(super) fn whole(id: &str, name: &str, text: &str, told: &mut Vec<Event>) {
    let mut speech = Speech::new(1);
    speech.say(id, name, text, told);
    speech.close(id, told);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn texts(told: &[Event]) -> String {
        let deltas = told.iter().filter_map(|event| match event {
            Event::TextMessageContent { delta, .. } => Some(delta.as_str()),
            _ => None,
        });
        deltas.collect()
    }

    #[test]
    fn lost_pieces_are_told_at_the_end_and_other_text_is_void() {
        let mut told = Vec::new();
        let mut speech = Speech::new(1);
        speech.reason("m", "hm", &mut told);
        speech.say("m", "desk", "Hel", &mut told);
        let fit = speech
            .clone()
            .finish(("m", "desk"), ("Hello", "hm, yes"), &mut told);
        assert_eq!((fit, texts(&told).as_str()), (Fit::Same, "Hello"));
        let ends = told
            .iter()
            .filter(|event| matches!(event, Event::TextMessageEnd { .. }));
        assert_eq!(ends.count(), 1);
        let mut told = Vec::new();
        let fit = speech.finish(("m", "desk"), ("Good day", ""), &mut told);
        assert_eq!(fit, Fit::Void("m".to_owned()));
        assert_eq!(texts(&told), "");
    }
}
