use std::sync::Arc;

use ghostlight_actors::{
    contract::{Interceptor, ModelContext, ModelError, NextModel},
    vocabulary::{Message, ModelRequest, ModelResponse, Part, Role, Transcript},
};
use serde::Deserialize;

use super::{GUARDED, GuardAction, GuardDecision, GuardedPoint, given_before};

/// Sanitises the words of people and tools before a model reads them: hidden characters, terminal
/// codes and the marks of chat templates are removed, as [`ghostlight_safety::sanitize`] describes.
///
/// Results of tools and answers to questions are always sanitised before they are recorded. This
/// interceptor also covers the user's turns, and the messages of older conversations. The records
/// stay unchanged. A removal is reported by a [`GuardDecision`], once for each message: with the
/// first model call to which the message is new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sanitize {}

impl Sanitize {
    /// Sanitises the words of people and tools.
    pub fn new() -> Self {
        Self {}
    }
}

/// The sanitised message; `None` if nothing changed.
fn sanitized(message: &Message) -> Option<Message> {
    if !matches!(message.role, Role::User | Role::Tool) {
        return None;
    }
    let mut changed: Option<Message> = None;
    for (place, part) in message.parts.iter().enumerate() {
        let text = match part {
            Part::Text(text) => text,
            Part::ToolResult(result) => &result.text,
            _ => continue,
        };
        let std::borrow::Cow::Owned(text) = ghostlight_safety::sanitize(text) else {
            continue;
        };
        let changed = changed.get_or_insert_with(|| message.clone());
        match &mut changed.parts[place] {
            Part::Text(old) => *old = text,
            Part::ToolResult(result) => result.text = text,
            _ => {}
        }
    }
    changed
}

impl Interceptor for Sanitize {
    async fn model(
        &self,
        mut request: ModelRequest,
        cx: ModelContext,
        next: NextModel<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let messages = request.conversation.messages();
        let shown: Vec<Option<Message>> = messages.iter().map(|m| sanitized(m)).collect();
        let new = shown.iter().skip(given_before(&request, &messages));
        let changed = new.flatten().count();
        if changed > 0 {
            let reason = format!("messages with hidden or acting characters: {changed}");
            let (at, did) = (GuardedPoint::Input, GuardAction::Changed);
            next.emit(GUARDED, &GuardDecision::new("sanitize", at, did, reason));
        }
        if shown.iter().any(Option::is_some) {
            let shown = shown.into_iter().zip(messages);
            let shown = shown.map(|(changed, as_said)| changed.map_or(as_said, Arc::new));
            request.conversation = shown.collect::<Transcript>();
        }
        next.respond(request, cx).await
    }
}
