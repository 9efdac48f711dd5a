//! An OpenAPI document as plain JSON.
//!
//! Documents in use break the specification in small ways, and 3.0 and 3.1 define schemas differently. Typed models of
//! either version refuse such a document as a whole, and do not resolve its references. So a document stays JSON here:
//! a fault in one operation leaves out only that operation.

use ghostlight_safety::percent_decoded;
use serde_json::{Map, Value};

use super::OpenApiError;

/// The largest document that is read, in bytes.
pub(super) const DOCUMENT_BYTES: usize = 16 << 20;
/// The deepest nesting of mappings and lists; serde_json has the same bound.
const DEPTH: usize = 128;
/// The longest chain of references.
const HOPS: usize = 16;
/// The most nodes of YAML: aliases can multiply a short text.
const NODES: usize = 2_000_000;

/// The methods whose operations become tools.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// A parsed document.
#[derive(Debug)]
pub(super) struct Document {
    root: Value,
    /// Whether its schemas are those of 3.0, which differ from JSON Schema.
    pub(super) is_3_0: bool,
}

/// The place of one operation in the document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'d> {
    pub(super) path: &'d str,
    pub(super) method: &'static str,
    /// The fields that apply to all operations of the path.
    pub(super) item: &'d Map<String, Value>,
    pub(super) operation: &'d Map<String, Value>,
}

impl Document {
    /// Reads a document in JSON or YAML.
    pub(super) fn read(text: &str) -> Result<Self, OpenApiError> {
        if text.len() > DOCUMENT_BYTES {
            return Err(OpenApiError::TooLarge);
        }
        let root = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| OpenApiError::Syntax(error.to_string()))?
        } else {
            yaml(text)?
        };
        let version = |name| text_of(&root, name).map(str::trim);
        let is_3_0 = match (version("openapi"), version("swagger")) {
            (Some(known), _) if known.starts_with("3.0") => true,
            (Some(known), _) if known.starts_with("3.") => false,
            (Some(other), _) | (None, Some(other)) => {
                return Err(OpenApiError::Version(ghostlight_safety::sanitize_line(
                    other, 40,
                )));
            }
            (None, None) => return Err(OpenApiError::NoDocument),
        };
        Ok(Self { root, is_3_0 })
    }

    /// The whole document.
    pub(super) fn root(&self) -> &Value {
        &self.root
    }

    /// The value, or the value to which it refers within the document. `None` for a reference that is dangling,
    /// circular, or leads out of the document: nothing is ever fetched.
    pub(super) fn at<'d>(&'d self, mut value: &'d Value) -> Option<&'d Value> {
        for _ in 0..HOPS {
            let Some(reference) = text_of(value, "$ref") else {
                return Some(value);
            };
            value = self.find(reference)?;
        }
        None
    }

    /// The value that a reference such as `#/components/schemas/Pet` names.
    pub(super) fn find(&self, reference: &str) -> Option<&Value> {
        let pointer = reference.strip_prefix('#')?;
        let decoded = percent_decoded(pointer);
        self.root.pointer(str::from_utf8(&decoded).ok()?)
    }

    /// The operations, in the order of their paths.
    pub(super) fn operations(&self) -> impl Iterator<Item = Place<'_>> {
        let paths = self.root.get("paths").and_then(Value::as_object);
        paths.into_iter().flatten().flat_map(|(path, item)| {
            let item = self.at(item).and_then(Value::as_object);
            item.into_iter().flat_map(move |item| {
                METHODS.iter().filter_map(move |&method| {
                    let operation = item.get(method)?.as_object()?;
                    Some(Place {
                        path,
                        method,
                        item,
                        operation,
                    })
                })
            })
        })
    }

    /// The address of the first server that the document names, with the defaults of its variables.
    pub(super) fn server(&self) -> Option<String> {
        let server = self.root.get("servers")?.get(0)?;
        let mut address = text_of(server, "url")?.to_owned();
        let variables = server.get("variables").and_then(Value::as_object);
        for (name, variable) in variables.into_iter().flatten().take(32) {
            let default = text_of(variable, "default").unwrap_or_default();
            if default.len() <= 2_048 && address.len() <= 8_192 {
                address = address.replace(&format!("{{{name}}}"), default);
            }
        }
        Some(address)
    }
}

/// A text field.
pub(super) fn text_of<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str)
}

fn yaml(text: &str) -> Result<Value, OpenApiError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH,
            max_nodes: NODES,
            max_events: 2 * NODES,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: NODES },
        // The last one wins, as in JSON.
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let told = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
        let first = told.lines().next().unwrap_or_default();
        OpenApiError::Syntax(ghostlight_safety::sanitize_line(first, 300))
    })
}
