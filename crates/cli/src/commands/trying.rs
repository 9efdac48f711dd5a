//! `ghostlight doctor --try`: what each model of a team can do, found by asking it.

use std::time::Duration;

use ghostlight_actors::{
    contract::{ModelContext, ModelHandle},
    vocabulary::{
        Data, DataSource, Message, ModelRequest, ModelResponse, OutputSchema, ToolDefinition,
        ToolSet, Transcript,
    },
};
use serde_json::{Value, json};

use crate::plain_text;

/// How long a model has for each attempt.
const PATIENCE: Duration = Duration::from_secs(60);
/// A picture of eight by eight red points.
const RED: &str = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mP4z8CAFTEMLQkAKP8/wc53yE8AAAAASUVORK5CYII=";

/// A question with which a model is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ability {
    /// It calls a tool.
    Tools,
    /// It answers as JSON that fits a schema.
    Answers,
    /// It sees a picture.
    Images,
    /// Its answer comes in pieces.
    Streams,
}

impl Ability {
    pub(super) const ALL: [Self; 4] = [Self::Tools, Self::Answers, Self::Images, Self::Streams];

    /// Its name, which is that of the profile's field where there is one.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Answers => "answers",
            Self::Images => "images",
            Self::Streams => "streams",
        }
    }

    fn request(self) -> ModelRequest {
        let ask = |message: Message| ModelRequest::new(Transcript::from_iter([message]));
        match self {
            Self::Tools => {
                let tool = ToolDefinition::new("ready", "Says that you are ready.");
                ask(Message::user("Call the tool `ready` now.")).tools(ToolSet::from_iter([tool]))
            }
            Self::Answers => ask(Message::user("Are you ready?")).output(OutputSchema {
                name: "readiness".to_owned(),
                schema: json!({
                    "type": "object",
                    "properties": { "ready": { "type": "boolean" } },
                    "required": ["ready"],
                    "additionalProperties": false,
                }),
                strict: true,
            }),
            Self::Images => {
                let picture = Data {
                    media_type: "image/png".to_owned(),
                    name: Some("a.png".to_owned()),
                    source: DataSource::Base64(RED.to_owned()),
                };
                let question = "Which colour is this picture? Answer with one word.";
                ask(Message::user(question).attach(picture))
            }
            Self::Streams => ask(Message::user("Say the word: ready")).streaming(),
        }
    }

    /// The ability that the answer shows.
    fn shown(self, answer: &ModelResponse) -> String {
        let text = answer.message.content();
        let said = plain_text::line(text.trim(), 60);
        match self {
            Self::Tools if answer.message.tool_calls().next().is_some() => "yes".to_owned(),
            Self::Tools => format!("no call came, but {said:?}"),
            Self::Answers => match serde_json::from_str::<Value>(text.trim()) {
                Ok(value) if value["ready"].is_boolean() => "yes".to_owned(),
                _ => format!("no JSON that fits, but {said:?}"),
            },
            Self::Images if text.to_lowercase().contains("red") => "yes".to_owned(),
            Self::Images => format!("it took a red picture for {said:?}"),
            Self::Streams => "yes".to_owned(),
        }
    }
}

/// Tries an ability of a model, and says what came of it in a line.
pub(super) async fn tried(model: &ModelHandle, ability: Ability) -> String {
    let asked = model.respond(ability.request(), ModelContext::detached());
    let found = match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(answer)) => ability.shown(&answer),
        Ok(Err(error)) => format!("no: {error}"),
        Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
    };
    format!("{}: {found}", ability.name())
}
