//! The schemas of arguments as providers accept them.

mod keywords;
mod root;
mod schema;

use std::borrow::Cow;

use serde_json::Value;

pub use root::ParametersError;

/// A schema of a tool's arguments as every provider accepts it: at its root an object without alternatives, and below it
/// JSON Schema of draft 2020-12 alone. Words of other drafts and other names of types are repaired, words that mean nothing
/// are left out, and alternatives at the root are folded into one object. It accepts what the given schema accepts, and may accept
/// more, so that a tool still checks its arguments itself.
///
/// # Errors
/// It describes something else than an object, so nothing could call the tool.
pub fn legal_parameters(schema: &Value) -> Result<Cow<'_, Value>, ParametersError> {
    let mut legal = root::legal(schema)?;
    leave_out_dangling(&mut legal);
    Ok(match legal == *schema {
        true => Cow::Borrowed(schema),
        false => Cow::Owned(legal),
    })
}

/// Leaves out each reference to nothing.
fn leave_out_dangling(schema: &mut Value) {
    fn places(schema: &Value, found: &mut Vec<String>) {
        if let Some(place) = schema.get("$ref").and_then(Value::as_str) {
            found.push(place.to_owned());
        }
        keywords::below(schema).for_each(|below| places(below, found));
    }
    fn leave_out(schema: &mut Value, dangling: &[String]) {
        if let Value::Object(fields) = schema
            && let Some(Value::String(place)) = fields.get("$ref")
            && dangling.contains(place)
        {
            fields.remove("$ref");
        }
        keywords::below_mut(schema).for_each(|below| leave_out(below, dangling));
    }
    let mut dangling = Vec::new();
    places(schema, &mut dangling);
    dangling.retain(|place| root::found(schema, place).is_none());
    if !dangling.is_empty() {
        leave_out(schema, &dangling);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
