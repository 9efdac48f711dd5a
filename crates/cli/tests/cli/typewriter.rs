//! A model that says its text piece by piece.

use std::{path::PathBuf, time::Duration};

use ghostlight_actors::{
    contract::{Model, ModelContext, ModelError},
    vocabulary::{Delta, ModelRequest, ModelResponse},
};
use serde_json::{Map, Value};

/// Says half of its text, waits for the file `gate`, and says the rest, word by word with a pause between them.
pub(crate) struct Typewriter {
    text: String,
    gate: PathBuf,
    pause: Duration,
}

impl Typewriter {
    pub(crate) fn of(settings: &Map<String, Value>) -> Self {
        let text = |name: &str| settings[name].as_str().unwrap_or_default().to_owned();
        Self {
            text: text("text"),
            gate: text("gate").into(),
            pause: Duration::from_millis(settings["pause_ms"].as_u64().unwrap_or_default()),
        }
    }
}

impl Model for Typewriter {
    async fn respond(
        &self,
        request: ModelRequest,
        cx: ModelContext,
    ) -> Result<ModelResponse, ModelError> {
        let (begin, end) = self.text.split_at(self.text.len() / 2);
        let say = |text: &str| {
            if request.stream {
                cx.delta(Delta::Text(text.to_owned()));
            }
        };
        say(begin);
        while !self.gate.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for word in end.split_inclusive(' ') {
            say(word);
            if !self.pause.is_zero() {
                tokio::time::sleep(self.pause).await;
            }
        }
        Ok(ModelResponse::text(self.text.clone()))
    }
}
