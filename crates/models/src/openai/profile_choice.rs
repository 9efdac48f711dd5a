//! The profile that a model's settings name, and what they change of it.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value};

use super::{profile::Profile, profiles};

/// The fields that a model's own settings replace.
const OF_THE_MODEL: [&str; 3] = ["name", "base_url", "key_variable"];

/// The profile that a model's settings name, and what they change of it.
///
/// In text it is the name of a profile, or fields, with `like` for the profile that they change; without `like` they
/// change the one that the address has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfileChoice {
    like: Option<String>,
    changes: Map<String, Value>,
}

impl ProfileChoice {
    /// The profile of this name.
    ///
    /// # Errors
    /// No profile has this name.
    pub fn like(name: impl Into<String>) -> Result<Self, String> {
        let name = name.into();
        if Profile::named(&name).is_none() {
            return Err(unknown(&name));
        }
        Ok(Self {
            like: Some(name),
            changes: Map::new(),
        })
    }

    /// The same with this field.
    ///
    /// # Errors
    /// No such field, or a value that it does not take.
    pub fn with(
        mut self,
        field: impl Into<String>,
        value: impl Into<Value>,
    ) -> Result<Self, String> {
        self.changes.insert(field.into(), value.into());
        self.over(Profile::default())?;
        Ok(self)
    }

    /// The profile for a model at this address.
    pub(super) fn profile(&self, base_url: &str, model: &str) -> Profile {
        let base = match &self.like {
            Some(name) => {
                let named = Profile::named(name).unwrap_or_default();
                profiles::for_model(named, model)
            }
            None => Profile::of(base_url, model),
        };
        let known = base.clone();
        self.over(base).unwrap_or(known)
    }

    /// The address of the profile that is named.
    pub(super) fn base_url(&self) -> Option<String> {
        let profile = self.profile("", "");
        Some(profile.base_url).filter(|address| !address.is_empty())
    }

    fn over(&self, base: Profile) -> Result<Profile, String> {
        let base = serde_json::to_value(base).map_err(|error| error.to_string())?;
        let Value::Object(mut fields) = base else {
            return Err("a profile has fields".to_owned());
        };
        for (name, change) in &self.changes {
            if OF_THE_MODEL.contains(&name.as_str()) {
                return Err(format!(
                    "{name} is not changed here: give the model its `base_url` and `api_key`"
                ));
            }
            match (fields.get_mut(name), change) {
                (Some(Value::Object(known)), Value::Object(changes)) => {
                    known.extend(changes.clone());
                }
                _ => drop(fields.insert(name.clone(), change.clone())),
            }
        }
        Profile::deserialize(Value::Object(fields)).map_err(|error| error.to_string())
    }
}

fn unknown(name: &str) -> String {
    let names = Profile::all().into_iter().map(|profile| profile.name);
    let names = names.collect::<Vec<_>>().join(", ");
    format!("there is no profile {name:?}; there are: {names}")
}

impl Serialize for ProfileChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (&self.like, self.changes.is_empty()) {
            (Some(name), true) => name.serialize(serializer),
            (like, _) => {
                let mut fields = self.changes.clone();
                if let Some(name) = like {
                    fields.insert("like".to_owned(), name.clone().into());
                }
                fields.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for ProfileChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = |error: String| D::Error::custom(format!("profile: {error}"));
        let mut changes = match Value::deserialize(deserializer)? {
            Value::String(name) => return Self::like(name).map_err(wrong),
            Value::Object(fields) => fields,
            _ => return Err(wrong("it is a name, or fields".to_owned())),
        };
        let like = match changes.remove("like") {
            None => None,
            Some(Value::String(name)) => Self::like(name).map_err(wrong)?.like,
            Some(_) => return Err(wrong("like: it is the name of a profile".to_owned())),
        };
        let choice = Self { like, changes };
        choice.over(Profile::default()).map_err(wrong)?;
        Ok(choice)
    }
}

impl JsonSchema for ProfileChoice {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ProfileChoice".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let fields = generator.subschema_for::<Profile>();
        json_schema!({
            "description": "The name of a profile, or fields of one, with `like` for the profile that they change.",
            "anyOf": [{ "type": "string" }, { "type": "object" }, fields],
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(json: Value) -> Result<ProfileChoice, String> {
        serde_json::from_value(json).map_err(|error| error.to_string())
    }

    #[test]
    fn a_profile_is_chosen_by_address_and_name_and_corrected_by_fields() {
        for (address, name) in [
            ("https://api.openai.com/v1", "openai"),
            ("https://api.groq.com/openai/v1/", "groq"),
            ("https://openrouter.ai/api/v1", "openrouter"),
            ("http://127.0.0.1:11434/v1", "ollama"),
            ("http://localhost:1234/v1", "lm_studio"),
            ("https://desk.openai.azure.com/openai/v1", "azure"),
            ("http://127.0.0.1:8000/v1", ""),
            ("https://api.groq.com.example.com/v1", ""),
            ("no address", ""),
        ] {
            assert_eq!(Profile::of(address, "m").name, name, "{address}");
        }
        let choice = read(
            json!({"like": "mistral", "images": false, "call_ids": {"longest": 12},
            "fields": {"top_p": null}}),
        )
        .unwrap();
        let profile = choice.profile("http://127.0.0.1:1/v1", "m");
        assert_eq!(profile.name, "mistral");
        assert!(!profile.images && profile.call_ids.exact);
        assert_eq!(profile.call_ids.longest, 12);
        assert_eq!(profile.field("seed"), Some("random_seed"));
        assert_eq!(
            (profile.field("top_p"), profile.field("stop")),
            (None, Some("stop"))
        );
        let back = serde_json::to_value(&choice).unwrap();
        assert_eq!(read(back).unwrap(), choice);
        let named = read(json!("groq")).unwrap();
        assert_eq!(serde_json::to_value(&named).unwrap(), "groq");
        assert_eq!(
            named.base_url().as_deref(),
            Some("https://api.groq.com/openai/v1")
        );
        let by_address = read(json!({"audio": true})).unwrap();
        let profile = by_address.profile("https://api.deepseek.com", "m");
        assert_eq!((profile.name.as_str(), profile.audio), ("deepseek", true));
        for (wrong, told) in [
            (json!("grok"), "there are: "),
            (json!({"like": "grok"}), "there are: "),
            (json!({"imagse": true}), "imagse"),
            (json!({"images": 3}), "boolean"),
            (
                json!({"base_url": "http://a/v1"}),
                "`base_url` and `api_key`",
            ),
            (json!(3), "a name, or fields"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
