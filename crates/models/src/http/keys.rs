//! The names of arguments as Anthropic's models take them.
//!
//! They take letters, digits, `_`, `.` and `-`, and at most 64 of them. An interface such as Microsoft's has others
//! (`$filter`), so these are sent under legal names, and what the model gives comes back under the tool's own.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use ghostlight_actors::vocabulary::{ModelResponse, Part, ToolCall, ToolSet, legal_parameters};
use serde_json::{Map, Value};

/// The most characters of a name.
const LONGEST: usize = 64;

/// The schema under whose names the arguments are sent. The provider looks at the arguments themselves, and not below them.
pub(crate) fn with_sent_keys(schema: &Value) -> Cow<'_, Value> {
    let own = own_keys(schema);
    let Some(fields) = schema.as_object().filter(|_| !own.is_empty()) else {
        return Cow::Borrowed(schema);
    };
    let sent: BTreeMap<&str, &str> = own.iter().map(|(sent, own)| (&**own, &**sent)).collect();
    let name = |own: &str| sent.get(own).copied().unwrap_or(own).to_owned();
    let mut fields = fields.clone();
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        let named = std::mem::take(properties).into_iter();
        *properties = named.map(|(own, schema)| (name(&own), schema)).collect();
    }
    if let Some(Value::Array(required)) = fields.get_mut("required") {
        let names = required.iter().filter_map(Value::as_str);
        *required = names.map(|own| Value::from(name(own))).collect();
    }
    Cow::Owned(Value::Object(fields))
}

/// The answer in which the arguments of each call have the tool's own names.
pub(crate) fn with_own_keys(mut answer: ModelResponse, tools: &ToolSet) -> ModelResponse {
    let named = |call: &ToolCall| {
        let legal = legal_parameters(&tools.get(&call.name)?.parameters).ok()?;
        let own = own_keys(&legal);
        let Ok(Value::Object(given)) = call.arguments.value() else {
            return None;
        };
        let is_renamed = given.keys().any(|key| own.contains_key(key));
        is_renamed.then(|| {
            let given = given.iter();
            let renamed =
                given.map(|(key, value)| (own.get(key).unwrap_or(key).clone(), value.clone()));
            Value::Object(renamed.collect::<Map<_, _>>())
        })
    };
    let renamed: Vec<Option<Value>> = answer.message.tool_calls().map(named).collect();
    if renamed.iter().all(Option::is_none) {
        return answer;
    }
    let mut renamed = renamed.into_iter();
    for part in &mut Arc::make_mut(&mut answer.message).parts {
        if let Part::ToolCall(call) = part
            && let Some(Some(arguments)) = renamed.next()
        {
            call.arguments = arguments.into();
        }
    }
    answer
}

/// The tool's own names of those arguments that are sent under other ones, by the names under which they are sent.
fn own_keys(schema: &Value) -> BTreeMap<String, String> {
    let mut own: BTreeMap<String, String> = BTreeMap::new();
    let Some(properties) = schema["properties"].as_object() else {
        return own;
    };
    for name in properties.keys().filter(|name| !is_key(name)) {
        let plain = |c: char| if is_plain(c) { c } else { '_' };
        let legal: String = name.chars().map(plain).collect();
        let numbers = (1..).map(|number| match number {
            1 => String::new(),
            number => format!("_{number}"),
        });
        let mut names = numbers.map(|number| {
            let kept: String = legal.chars().take(LONGEST - number.len()).collect();
            kept + &number
        });
        let is_free = |sent: &String| {
            is_key(sent) && !properties.contains_key(sent) && !own.contains_key(sent)
        };
        if let Some(sent) = names.find(is_free) {
            own.insert(sent, name.clone());
        }
    }
    own
}

fn is_key(name: &str) -> bool {
    (1..=LONGEST).contains(&name.len()) && name.chars().all(is_plain)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}
