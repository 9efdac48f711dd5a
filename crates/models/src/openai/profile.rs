//! The abilities of a server with OpenAI's chat completions, as plain data.

use std::collections::BTreeMap;

use ghostlight_actors::{
    contract::ModelError,
    vocabulary::{ErrorKind, ModelRequest},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::profiles;
use crate::http::{CallIds, Inputs};

/// The most tools of a request that OpenAI takes: it refuses one with more, as a whole.
pub(crate) const MAX_TOOLS: u16 = 128;

/// The abilities of a server, and its differences from OpenAI's own. `ghostlight list providers` prints the known ones.
///
/// A profile is chosen by the model's address and name. In a team file, `profile: groq` names one, and its fields
/// correct one: `profile: { like: vllm, images: true }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Profile {
    /// Its name; empty where nothing is known of the server.
    pub name: String,
    /// The address of the server, for a model that names the profile and no address.
    pub base_url: String,
    /// The environment variable with the key for that address. No other server gets this key.
    pub key_variable: String,
    /// Whether models may call tools.
    pub tools: bool,
    /// The most tools of a request. Those after them are left out with a warning.
    pub max_tools: u16,
    /// How an answer that must fit a schema is asked for.
    pub answers: Answers,
    /// Whether it is asked for so beside tools, too; otherwise the schema then stands in the prompt.
    pub answers_beside_tools: bool,
    /// Whether pictures are taken (PNG, JPEG, GIF and WebP).
    pub images: bool,
    /// Whether sound is taken (WAV and MP3).
    pub audio: bool,
    /// Whether PDF files are taken.
    pub files: bool,
    /// The field in which reasoning is taken.
    pub thinking: ThinkingField,
    /// Whether a conversation without the reasoning of past calls is refused, also where another server reasoned.
    pub thinking_required: bool,
    /// How what stands at the beginning of a request is kept from request to request.
    pub caching: Caching,
    /// The ids of calls that are taken.
    pub call_ids: CallIdRule,
    /// Fields of a request that have another name here, or `null` where they are not taken: `{ seed: random_seed }`.
    /// Where `stop` is not taken, answers are cut here.
    pub fields: BTreeMap<String, Option<String>>,
    /// Whether a request without tools over a conversation with calls names the called tools again, which servers want.
    pub names_called_tools: bool,
    /// Whether a message of the model must follow the results of its calls before a person speaks, and nothing of the model may
    /// stand last (Mistral's). A short word then stands between.
    pub strict_turns: bool,
    /// Whether the key goes in the header `api-key`, and not as `authorization: Bearer`.
    pub key_in_api_key: bool,
}

/// How an answer that must fit a schema is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answers {
    /// By the schema, to which the server holds the model.
    #[default]
    Schema,
    /// As JSON, with the schema in the prompt.
    Json,
    /// With the schema in the prompt only.
    Prompt,
}

/// The field in which a message's reasoning goes back to its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ThinkingField {
    /// In that in which it came.
    #[default]
    AsItCame,
    /// `reasoning_content`.
    ReasoningContent,
    /// `reasoning`.
    Reasoning,
    /// Parts of the content.
    Content,
    /// In none: it does not go back.
    None,
}

/// How a server keeps what stands at the beginning of a request, so that the next costs less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Caching {
    /// Nothing is known of it.
    #[default]
    Unknown,
    /// By itself.
    Automatic,
    /// By itself for some models, and for others where a request is marked.
    Marked,
    /// Not at all.
    None,
}

/// Which ids of calls a server takes. An id that it does not take is replaced by one made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CallIdRule {
    /// The most bytes, at least 8.
    pub longest: u16,
    /// Whether only letters, digits, `_` and `-` may stand in it.
    pub plain: bool,
    /// Whether it has exactly this many letters and digits, and nothing else (Mistral's).
    pub exact: bool,
}

impl Default for CallIdRule {
    fn default() -> Self {
        Self {
            longest: 40,
            plain: false,
            exact: false,
        }
    }
}

impl Default for Profile {
    /// A server about which nothing is known: it gets what most servers take, and refuses what it does not.
    fn default() -> Self {
        Self {
            name: String::new(),
            base_url: String::new(),
            key_variable: String::new(),
            tools: true,
            max_tools: MAX_TOOLS,
            answers: Answers::default(),
            answers_beside_tools: true,
            images: true,
            audio: true,
            files: true,
            thinking: ThinkingField::default(),
            thinking_required: false,
            caching: Caching::default(),
            call_ids: CallIdRule::default(),
            fields: BTreeMap::new(),
            names_called_tools: true,
            strict_turns: false,
            key_in_api_key: false,
        }
    }
}

impl Profile {
    /// The known profiles, in the order of their names.
    pub fn all() -> Vec<Self> {
        profiles::all()
    }

    /// The profile of this name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = profiles::all().into_iter();
        all.find(|profile| profile.name == name)
    }

    /// The profile of the server at this address, for the model of this name; the default where the address is none that
    /// is known.
    pub fn of(base_url: &str, model: &str) -> Self {
        let name = profiles::name_at(base_url);
        let profile = name.and_then(Self::named).unwrap_or_default();
        profiles::for_model(profile, model)
    }

    /// Its description, in a few words for a person.
    pub fn summary(&self) -> String {
        let mut can = Vec::new();
        can.extend(self.tools.then_some("tools"));
        can.push(match self.answers {
            Answers::Schema => "schemas",
            Answers::Json => "JSON without schemas",
            Answers::Prompt => "schemas in the prompt only",
        });
        can.extend(self.images.then_some("pictures"));
        can.extend(self.audio.then_some("sound"));
        can.extend(self.files.then_some("PDF"));
        let mut text = can.join(", ");
        let differing = self.fields.iter().map(|(name, here)| match here {
            Some(here) => format!("{name} is {here}"),
            None => format!("no {name}"),
        });
        let differing = differing.collect::<Vec<_>>().join(", ");
        if !differing.is_empty() {
            text.push_str("; ");
            text.push_str(&differing);
        }
        text
    }

    /// The files that its models take.
    pub(super) fn inputs(&self) -> Inputs {
        if self.name.is_empty() && self.images && self.audio && self.files {
            return Inputs::UNKNOWN;
        }
        let of = |taken: bool, kinds: &'static [&'static str]| {
            kinds.iter().copied().filter(move |_| taken)
        };
        let images = of(
            self.images,
            &["image/png", "image/jpeg", "image/gif", "image/webp"],
        );
        let audio = of(
            self.audio,
            &[
                "audio/wav",
                "audio/x-wav",
                "audio/wave",
                "audio/mpeg",
                "audio/mp3",
            ],
        );
        let files = of(self.files, &["application/pdf"]);
        Inputs::of(images.chain(audio).chain(files))
            .corrected_by("say so in its profile (`images`, `audio`, `files`)")
    }

    /// The rule for ids of calls.
    pub(super) fn ids(&self) -> CallIds {
        let CallIdRule {
            longest,
            plain,
            exact,
        } = self.call_ids;
        CallIds::of(longest.max(8).into(), plain, exact)
    }

    /// The name of a field here; `None` if it is not taken.
    pub(super) fn field<'n>(&'n self, name: &'n str) -> Option<&'n str> {
        match self.fields.get(name) {
            Some(here) => here.as_deref(),
            None => Some(name),
        }
    }

    /// How the answer to this request is asked for.
    pub(super) fn answers_to(&self, request: &ModelRequest) -> Answers {
        let beside_tools = !request.tools.is_empty();
        match beside_tools && !self.answers_beside_tools {
            true => Answers::Prompt,
            false => self.answers,
        }
    }

    /// Changes a request to what the server takes: a schema that it does not take moves to the prompt.
    ///
    /// # Errors
    /// Tools for a model that has none.
    pub(super) fn fit(
        &self,
        request: &mut std::borrow::Cow<'_, ModelRequest>,
        model: impl FnOnce() -> String,
    ) -> Result<(), ModelError> {
        if !self.tools && !request.tools.is_empty() {
            let model = model();
            return Err(ModelError::new(
                ErrorKind::InvalidInput,
                format!(
                    "{model} is not asked: it calls no tools, and the agent has some; take them from the agent, choose \
                     another model, or, if it does call tools, say so in its profile (`tools: true`)"
                ),
            ));
        }
        if let Some(output) = request.output.clone()
            && self.answers_to(request) != Answers::Schema
        {
            let before = request.instructions.trim_end();
            let gap = if before.is_empty() { "" } else { "\n\n" };
            let text = format!(
                "{before}{gap}Answer with nothing but JSON that fits this JSON Schema:\n{}",
                output.schema
            );
            request.to_mut().instructions = text.into();
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::borrow::Cow;

    use ghostlight_actors::vocabulary::{
        Data, Message, OutputSchema, Role, ToolDefinition, Transcript,
    };
    use serde_json::json;

    use super::*;

    #[test]
    fn every_profile_has_an_address_that_chooses_it_or_is_on_this_machine() {
        let all = Profile::all();
        assert!(all.is_sorted_by(|one, next| one.name < next.name));
        for profile in all {
            let json = serde_json::to_value(&profile).unwrap();
            assert_eq!(serde_json::from_value::<Profile>(json).unwrap(), profile);
            assert!(!profile.summary().is_empty());
            if profile.base_url.starts_with("https") {
                assert_eq!(Profile::of(&profile.base_url, "m").name, profile.name);
                assert!(!profile.key_variable.is_empty());
            }
        }
    }

    #[test]
    fn a_request_is_fitted_to_its_server() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let request = ModelRequest::new(Transcript::from_iter([Message::user("hi")]))
            .instructions("Be brief.")
            .output(OutputSchema {
                name: "a".to_owned(),
                schema,
                strict: true,
            });
        let fit = |name: &str, request: &ModelRequest| {
            let mut fitted = Cow::Owned(request.clone());
            Profile::named(name)
                .unwrap()
                .fit(&mut fitted, || "m at h".to_owned())
                .map(|()| fitted.into_owned())
        };
        let groq = fit("groq", &request).unwrap();
        assert!(
            groq.instructions.starts_with("Be brief.\n\nAnswer with"),
            "{}",
            groq.instructions
        );
        let openai = fit("openai", &request).unwrap();
        assert_eq!(&*openai.instructions, "Be brief.");
        let mut toolless = Profile::named("ollama").unwrap();
        toolless.tools = false;
        let tool = ToolDefinition::new("f", "does");
        let mut asked = Cow::Owned(ModelRequest::default().tools([tool].into_iter().collect()));
        let error = toolless
            .fit(&mut asked, || "m at h".to_owned())
            .unwrap_err();
        assert!(
            error.message.contains("m at h") && error.message.contains("tools: true"),
            "{error}"
        );
    }

    #[test]
    fn what_a_server_does_not_take_is_refused_with_the_way_to_correct_it() {
        let mut voice = Data::from_bytes("a.wav", "x").unwrap();
        voice.media_type = "audio/wav".to_owned();
        let said = Message::text(Role::User, "hear").attach(voice);
        let request = ModelRequest::new(Transcript::from_iter([said]));
        let fitted = |profile: Profile| {
            let inputs = profile.inputs();
            inputs.fitted(&request, || "m at h".to_owned()).map(drop)
        };
        let error = fitted(Profile::of(super::super::OpenAiSpec::OPENAI, "gpt-5-mini"));
        let error = error.unwrap_err().message;
        assert!(
            error.contains("profile") && error.contains("audio"),
            "{error}"
        );
        fitted(Profile::of(
            super::super::OpenAiSpec::OPENAI,
            "gpt-4o-audio-preview",
        ))
        .unwrap();
        fitted(Profile::default()).unwrap();
    }
}
