//! The request that a call's arguments give.

pub(super) use ghostlight_safety::percent_encoded as encoded;
use reqwest::{
    Url,
    header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Map, Value};

use super::operation::{BODY, Encoding, Operation, Parameter, Style, Within};

/// The longest address, in bytes.
const ADDRESS: usize = 8_192;

/// A request under construction. Names and values of `query` and `cookies` are encoded.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) query: Vec<(String, String)>,
    pub(super) cookies: Vec<(String, String)>,
    pub(super) body: Option<String>,
}

impl Draft {
    /// Fills an operation with arguments that match its schema.
    pub(super) fn fill(
        operation: &Operation,
        base: &Url,
        arguments: &Map<String, Value>,
    ) -> Result<Self, String> {
        let mut draft = Self {
            url: base.clone(),
            headers: HeaderMap::new(),
            query: Vec::new(),
            cookies: Vec::new(),
            body: None,
        };
        draft.headers.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, */*;q=0.5"),
        );
        let mut path = operation.path.clone();
        for parameter in &operation.parameters {
            let given = arguments
                .get(&parameter.argument)
                .filter(|value| !value.is_null());
            let Some(value) = given else {
                if parameter.place == Within::Path {
                    return Err(format!("the argument {} is missing", parameter.argument));
                }
                continue;
            };
            match parameter.place {
                Within::Path => {
                    let text = in_path(parameter, value);
                    if text.is_empty() {
                        return Err(format!("the argument {} is empty", parameter.argument));
                    }
                    path = path.replace(&format!("{{{}}}", parameter.name), &text);
                }
                Within::Query => draft.query.extend(in_query(parameter, value)),
                Within::Cookie => draft.cookies.extend(in_query(parameter, value)),
                Within::Header => draft.header(parameter, value)?,
            }
        }
        draft.put_path(base, &path)?;
        draft.put_body(operation, arguments.get(BODY))?;
        Ok(draft)
    }

    /// Joins a path to the base address, and ensures that the result stays below it.
    fn put_path(&mut self, base: &Url, path: &str) -> Result<(), String> {
        // Many servers decode a path before they resolve it, so an encoded separator is one.
        let plain = path.to_ascii_lowercase().replace("%2e", ".");
        let plain = plain.replace("%2f", "/").replace("%5c", "/");
        let leads_up = |segment: &str| matches!(segment, "." | "..");
        if plain.split(['/', '\\']).any(leads_up) {
            return Err("a part of the path is `.` or `..`".to_owned());
        }
        let root = base.path().trim_end_matches('/');
        self.url.set_path(&format!("{root}{path}"));
        if self.url.origin() != base.origin() || !self.url.path().starts_with(root) {
            return Err("the path leads out of the address of the API".to_owned());
        }
        Ok(())
    }

    fn header(&mut self, parameter: &Parameter, value: &Value) -> Result<(), String> {
        let fault = || format!("the argument {} cannot be a header", parameter.argument);
        let name = HeaderName::try_from(&parameter.name).map_err(|_| fault())?;
        let text = listed(parameter, value, ",", &|text| text.to_owned());
        let value = HeaderValue::try_from(text).map_err(|_| fault())?;
        self.headers.insert(name, value);
        Ok(())
    }

    fn put_body(&mut self, operation: &Operation, given: Option<&Value>) -> Result<(), String> {
        let (Some(body), Some(given)) = (&operation.body, given) else {
            return Ok(());
        };
        self.body = Some(match (body.encoding, given) {
            (Encoding::Json, given) => given.to_string(),
            (Encoding::Text, given) => plain(given),
            (Encoding::Form, Value::Object(fields)) => {
                let pairs = fields.iter().flat_map(|(name, value)| match value {
                    Value::Array(items) => items.iter().map(|item| (name, item)).collect(),
                    value => vec![(name, value)],
                });
                let pairs = pairs.filter(|(_, value)| !value.is_null());
                let pairs = pairs
                    .map(|(name, value)| format!("{}={}", encoded(name), encoded(&plain(value))));
                pairs.collect::<Vec<_>>().join("&")
            }
            (Encoding::Form, _) => return Err("the body of a form is an object".to_owned()),
        });
        let media_type = HeaderValue::try_from(&body.media_type)
            .map_err(|_| "the document names no type of the body".to_owned())?;
        self.headers.insert(CONTENT_TYPE, media_type);
        Ok(())
    }

    /// Sets a header whose value is marked as sensitive.
    pub(super) fn secret_header(&mut self, name: HeaderName, secret: &str) -> Result<(), String> {
        let mut value = HeaderValue::try_from(secret)
            .map_err(|_| format!("the credential for the header {name} cannot be sent"))?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(())
    }

    /// The complete address, headers and body.
    pub(super) fn complete(mut self) -> Result<(Url, HeaderMap, Option<String>), String> {
        let joined = |pairs: &[(String, String)], between: &str| {
            let pairs = pairs.iter().map(|(name, value)| format!("{name}={value}"));
            pairs.collect::<Vec<_>>().join(between)
        };
        if !self.query.is_empty() {
            self.url.set_query(Some(&joined(&self.query, "&")));
        }
        if !self.cookies.is_empty() {
            let cookies = joined(&self.cookies, "; ");
            self.secret_header(COOKIE, &cookies)?;
        }
        if self.url.as_str().len() > ADDRESS {
            return Err(format!("the address would have more than {ADDRESS} bytes"));
        }
        Ok((self.url, self.headers, self.body))
    }
}

/// A value as text: a text as it is, anything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The value of a parameter as one text: the parts of lists and objects, each passed through `encode`, with `between`
/// between them.
fn listed(
    parameter: &Parameter,
    value: &Value,
    between: &str,
    encode: &dyn Fn(&str) -> String,
) -> String {
    if parameter.json {
        return encode(&value.to_string());
    }
    let parts: Vec<String> = match value {
        Value::Array(items) => items.iter().map(|item| encode(&plain(item))).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| {
                let (name, value) = (encode(name), encode(&plain(value)));
                match parameter.explode {
                    true => format!("{name}={value}"),
                    false => format!("{name}{between}{value}"),
                }
            });
            fields.collect()
        }
        other => return encode(&plain(other)),
    };
    parts.join(between)
}

fn in_path(parameter: &Parameter, value: &Value) -> String {
    let between = |exploded| if parameter.explode { exploded } else { "," };
    match parameter.style {
        Style::Label => format!(".{}", listed(parameter, value, between("."), &encoded)),
        Style::Matrix => {
            let name = encoded(&parameter.name);
            match value {
                Value::Array(items) if parameter.explode => items
                    .iter()
                    .map(|item| format!(";{name}={}", encoded(&plain(item))))
                    .collect(),
                Value::Object(_) if parameter.explode => {
                    format!(";{}", listed(parameter, value, ";", &encoded))
                }
                value => format!(";{name}={}", listed(parameter, value, ",", &encoded)),
            }
        }
        _ => listed(parameter, value, ",", &encoded),
    }
}

fn in_query(parameter: &Parameter, value: &Value) -> Vec<(String, String)> {
    let name = encoded(&parameter.name);
    if parameter.json {
        return vec![(name, encoded(&value.to_string()))];
    }
    let whole = |between: &str| vec![(name.clone(), listed(parameter, value, between, &encoded))];
    match (parameter.style, value) {
        (Style::DeepObject, Value::Object(_)) => {
            let mut pairs = Vec::new();
            deep(&name, value, &mut pairs);
            pairs
        }
        (Style::Form | Style::DeepObject, Value::Array(items)) if parameter.explode => {
            let items = items
                .iter()
                .map(|item| (name.clone(), encoded(&plain(item))));
            items.collect()
        }
        (Style::Form, Value::Object(fields)) if parameter.explode => {
            let fields = fields
                .iter()
                .map(|(name, value)| (encoded(name), encoded(&plain(value))));
            fields.collect()
        }
        (Style::SpaceDelimited, _) => whole("%20"),
        (Style::PipeDelimited, _) => whole("%7C"),
        _ => whole(","),
    }
}

/// `name[a][b]=c`. The depth of values is bounded by the JSON parser.
fn deep(name: &str, value: &Value, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                deep(&format!("{name}%5B{}%5D", encoded(field)), value, pairs);
            }
        }
        Value::Array(items) => {
            for item in items {
                pairs.push((format!("{name}%5B%5D"), encoded(&plain(item))));
            }
        }
        other => pairs.push((name.to_owned(), encoded(&plain(other)))),
    }
}
