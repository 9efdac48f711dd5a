//! One operation of a document as a tool: its description for the model, and the places of its arguments.

use std::collections::BTreeSet;

use ghostlight_actors::vocabulary::{Approval, Effect, ToolDefinition};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::{
    document::{Document, Place, text_of},
    schema::{Schemas, bounded},
    security::{Credentials, Demand},
};

/// The most parameters of an operation.
const PARAMETERS: usize = 128;
/// The longest description, in characters.
const DESCRIPTION: usize = 1_500;
/// The longest name that providers accept.
const NAME: usize = 64;
/// The name of the argument that is the body of the request.
pub(super) const BODY: &str = "body";

/// An operation.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) definition: ToolDefinition,
    pub(super) method: Method,
    /// The path, with its parameters in braces.
    pub(super) path: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    pub(super) demand: Demand,
}

/// A parameter, with the argument that fills it.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    pub(super) argument: String,
    pub(super) name: String,
    pub(super) place: Within,
    pub(super) style: Style,
    pub(super) explode: bool,
    /// Whether its value is sent as JSON.
    pub(super) json: bool,
}

/// The place of a parameter in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Within {
    Path,
    Query,
    Header,
    Cookie,
}

/// The form of lists and objects in a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Simple,
    Label,
    Matrix,
    Form,
    SpaceDelimited,
    PipeDelimited,
    DeepObject,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) media_type: String,
    pub(super) encoding: Encoding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Form,
    Text,
}

/// Turns places of a document into operations.
#[derive(Debug)]
pub(super) struct Operations<'d> {
    document: &'d Document,
    schemas: Schemas<'d>,
    credentials: &'d Credentials,
    /// The names in use.
    names: BTreeSet<String>,
}

impl<'d> Operations<'d> {
    pub(super) fn new(document: &'d Document, credentials: &'d Credentials) -> Self {
        Self {
            document,
            schemas: Schemas::new(document),
            credentials,
            names: BTreeSet::new(),
        }
    }

    /// The operation at a place, or the reason why it cannot become a tool.
    pub(super) fn make(
        &mut self,
        place: Place<'d>,
        effect: impl Fn(&str) -> Option<Effect>,
    ) -> Result<Operation, &'static str> {
        let Place {
            path,
            method,
            operation,
            ..
        } = place;
        if !path.starts_with('/') || path.len() > 2_048 {
            return Err("its path is none");
        }
        let mut parameters = self.parameters(place)?;
        let mut rest = path.to_owned();
        parameters.retain(|found| {
            let parameter = &found.parameter;
            let before = rest.len();
            if parameter.place == Within::Path {
                rest = rest.replace(&format!("{{{}}}", parameter.name), "");
            }
            parameter.place != Within::Path || rest.len() < before
        });
        if rest.contains(['{', '}']) {
            return Err("a part of its path has no parameter");
        }
        let body = self.body(operation)?;
        let mut schemas: Vec<&Value> = parameters.iter().map(|found| found.schema).collect();
        schemas.extend(body.iter().map(|found| found.schema));
        let translated = self
            .schemas
            .translate(&schemas)
            .ok_or("the document has too many schemas")?;
        let mut properties = Map::new();
        let mut required = Vec::new();
        let mut translated = translated.into_iter();
        let mut kept = Vec::new();
        for (found, mut schema) in parameters.into_iter().zip(&mut translated) {
            describe(&mut schema, found.description);
            if found.required {
                required.push(found.parameter.argument.clone());
            }
            properties.insert(found.parameter.argument.clone(), schema);
            kept.push(found.parameter);
        }
        if let (Some(found), Some(mut schema)) = (&body, translated.next()) {
            describe(&mut schema, found.description);
            if found.required {
                required.push(BODY.to_owned());
            }
            properties.insert(BODY.to_owned(), schema);
        }
        let name = self.name(place);
        let effect = effect(&name).unwrap_or(match method {
            "get" | "head" | "options" => Effect::Read,
            "put" | "delete" => Effect::Idempotent,
            _ => Effect::Once,
        });
        let mut definition = ToolDefinition::new(name, description(place))
            .effect(effect)
            .parameters(json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            }));
        if effect != Effect::Read {
            definition.approval = Approval::Required { prompt: None };
        }
        let security = operation
            .get("security")
            .or_else(|| self.document.root().get("security"));
        Ok(Operation {
            definition,
            method: method
                .to_ascii_uppercase()
                .parse()
                .map_err(|_| "its method is none")?,
            path: path.to_owned(),
            parameters: kept,
            body: body.map(|found| found.body),
            demand: Demand::of(security, self.credentials),
        })
    }

    /// A unique name, of characters that all providers accept.
    fn name(&mut self, place: Place<'_>) -> String {
        let given = place.operation.get("operationId").and_then(Value::as_str);
        let given = given.filter(|given| given.chars().any(|c| c.is_ascii_alphanumeric()));
        let path = format!("{}{}", place.method, place.path);
        let wanted = argument(given.unwrap_or(&path), NAME);
        let wanted = wanted.trim_matches('_');
        unique(&mut self.names, wanted, NAME)
    }

    /// The parameters of the operation and of its path; the operation's own replace those of the path.
    fn parameters(&self, place: Place<'d>) -> Result<Vec<Found<'d>>, &'static str> {
        let of = |fields: &'d Map<String, Value>| {
            let listed = fields.get("parameters").and_then(Value::as_array);
            listed.into_iter().flatten()
        };
        let mut found: Vec<Found<'d>> = Vec::new();
        let mut arguments = BTreeSet::from([BODY.to_owned()]);
        for given in of(place.operation).chain(of(place.item)) {
            let Some(given) = self.document.at(given) else {
                return Err("a reference of a parameter leads nowhere");
            };
            let Some(mut parameter) = Found::read(self.document, given) else {
                continue;
            };
            let is_known = |known: &Found<'_>| {
                (known.parameter.place, known.parameter.name.as_str())
                    == (parameter.parameter.place, parameter.parameter.name.as_str())
            };
            if found.iter().any(is_known) {
                continue;
            }
            if found.len() == PARAMETERS {
                return Err("it has too many parameters");
            }
            let wanted = argument(&parameter.parameter.name, NAME);
            parameter.parameter.argument = unique(&mut arguments, &wanted, NAME);
            found.push(parameter);
        }
        Ok(found)
    }

    fn body(
        &self,
        operation: &'d Map<String, Value>,
    ) -> Result<Option<FoundBody<'d>>, &'static str> {
        let Some(given) = operation.get("requestBody") else {
            return Ok(None);
        };
        let Some(given) = self.document.at(given) else {
            return Err("the reference of its body leads nowhere");
        };
        let required = given.get("required") == Some(&Value::Bool(true));
        let content = given.get("content").and_then(Value::as_object);
        let kinds = content.into_iter().flatten();
        let readable = kinds.filter_map(|(media_type, content)| {
            let essence = media_type.split(';').next().unwrap_or_default();
            let essence = essence.trim().to_ascii_lowercase();
            let encoding = match essence.as_str() {
                "application/json" | "*/*" | "application/*" => Encoding::Json,
                json if json.ends_with("+json") => Encoding::Json,
                "application/x-www-form-urlencoded" => Encoding::Form,
                text if text.starts_with("text/") => Encoding::Text,
                _ => return None,
            };
            Some((encoding, media_type, content))
        });
        // JSON is preferred to forms, and forms to text.
        let best = readable.min_by_key(|(encoding, ..)| *encoding as u8);
        let Some((encoding, media_type, content)) = best else {
            return match required {
                true => Err("its body is not JSON, form or text"),
                false => Ok(None),
            };
        };
        let media_type = match media_type.contains('*') {
            true => "application/json",
            false => media_type.as_str(),
        };
        Ok(Some(FoundBody {
            body: Body {
                media_type: media_type.to_owned(),
                encoding,
            },
            schema: content.get("schema").unwrap_or(&Value::Null),
            description: text_of(given, "description"),
            required,
        }))
    }
}

/// A parameter as the document gives it.
#[derive(Debug)]
struct Found<'d> {
    parameter: Parameter,
    schema: &'d Value,
    description: Option<&'d str>,
    required: bool,
}

#[derive(Debug)]
struct FoundBody<'d> {
    body: Body,
    schema: &'d Value,
    description: Option<&'d str>,
    required: bool,
}

impl<'d> Found<'d> {
    /// Reads a parameter; `None` for one that the caller does not set.
    fn read(document: &'d Document, given: &'d Value) -> Option<Self> {
        let name = text_of(given, "name").filter(|name| name.len() <= 256)?;
        let place = match text_of(given, "in")? {
            "path" => Within::Path,
            "query" => Within::Query,
            "header" => Within::Header,
            "cookie" => Within::Cookie,
            _ => return None,
        };
        // The specification ignores these three headers; the others belong to the connection.
        let of_header = name.to_ascii_lowercase();
        let is_ours = ["accept", "content-type", "authorization", "cookie"]
            .iter()
            .chain(&crate::web::UNSENT)
            .any(|ours| *ours == of_header);
        if place == Within::Header && is_ours {
            return None;
        }
        let style = match (text_of(given, "style"), place) {
            (Some("label"), Within::Path) => Style::Label,
            (Some("matrix"), Within::Path) => Style::Matrix,
            (Some("spaceDelimited"), Within::Query) => Style::SpaceDelimited,
            (Some("pipeDelimited"), Within::Query) => Style::PipeDelimited,
            (Some("deepObject"), Within::Query) => Style::DeepObject,
            (_, Within::Path | Within::Header) => Style::Simple,
            (_, Within::Query | Within::Cookie) => Style::Form,
        };
        let explode = given.get("explode").and_then(Value::as_bool);
        let content = given.get("content").and_then(Value::as_object);
        let content = content.and_then(|content| content.values().next());
        let schema = given
            .get("schema")
            .or_else(|| content?.get("schema"))
            .unwrap_or(&Value::Null);
        let required = given.get("required") == Some(&Value::Bool(true));
        let default = document.at(schema).and_then(|schema| schema.get("default"));
        Some(Self {
            parameter: Parameter {
                argument: String::new(),
                name: name.to_owned(),
                place,
                style,
                explode: explode.unwrap_or(style == Style::Form),
                json: content.is_some(),
            },
            schema,
            description: text_of(given, "description"),
            // A parameter with a default is optional, except in the path, where it cannot be left out.
            required: place == Within::Path || (required && default.is_none()),
        })
    }
}

/// Puts the parameter's description before its schema's.
fn describe(schema: &mut Value, said: Option<&str>) {
    if let (Some(schema), Some(said)) = (schema.as_object_mut(), said) {
        let said = ghostlight_safety::sanitize(bounded(said.trim(), 1_200)).into_owned();
        if !said.is_empty() {
            schema.insert("description".to_owned(), said.into());
        }
    }
}

fn description(place: Place<'_>) -> String {
    let of = |fields: &Map<String, Value>, name| {
        let said = fields.get(name).and_then(Value::as_str).unwrap_or_default();
        bounded(said.trim(), 2 * DESCRIPTION).to_owned()
    };
    let said = |name| Some(of(place.operation, name)).filter(|said| !said.is_empty());
    let summary = said("summary").unwrap_or_else(|| of(place.item, "summary"));
    let mut told = match said("description") {
        Some(description) if description.starts_with(&summary) => description,
        Some(description) => format!("{summary}\n{description}"),
        None => summary,
    };
    if place.operation.get("deprecated") == Some(&Value::Bool(true)) {
        told.insert_str(0, "Deprecated. ");
    }
    let told: String = ghostlight_safety::sanitize(told.trim())
        .chars()
        .take(DESCRIPTION)
        .collect();
    let path = ghostlight_safety::sanitize_line(place.path, 200);
    format!("{told}\n{} {path}", place.method.to_ascii_uppercase())
        .trim()
        .to_owned()
}

/// A name of letters, digits and `_`, of at most this many characters.
fn argument(name: &str, most: usize) -> String {
    let ok = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let mut made: String = name
        .chars()
        .take(most)
        .map(|c| if ok(c) { c } else { '_' })
        .collect();
    if made.is_empty() {
        made.push('_');
    }
    made
}

/// The name, or, if it is in use, the name with a number behind it.
fn unique(names: &mut BTreeSet<String>, wanted: &str, most: usize) -> String {
    let mut name = wanted.to_owned();
    let mut number = 2;
    while !names.insert(name.clone()) {
        let end = format!("_{number}");
        name = format!("{}{end}", &wanted[..wanted.len().min(most - end.len())]);
        number += 1;
    }
    name
}
