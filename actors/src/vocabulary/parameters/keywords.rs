//! The words of JSON Schema, and the kind of value under each.

use serde_json::Value;

/// The kind of value under a word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// A schema.
    Schema,
    /// A list of one or more schemas.
    Schemas,
    /// Schemas by name.
    Named,
    /// A list of names.
    Names,
    /// Lists of names by name.
    NamesByName,
    /// A list of one or more values.
    Values,
    /// A list of values.
    Examples,
    /// A number.
    Number,
    /// A number above 0.
    Positive,
    /// A number of things.
    Count,
    Text,
    YesOrNo,
    /// Nothing that a provider wants to know.
    Nothing,
}

/// The words that providers check. Others are notes for them.
pub(super) const KEYWORDS: [(&str, Holds); 55] = [
    ("$schema", Holds::Nothing),
    ("$vocabulary", Holds::Nothing),
    ("$ref", Holds::Text),
    ("$dynamicRef", Holds::Text),
    // References within the schema do not need it, and one with a fragment is refused.
    ("$id", Holds::Nothing),
    ("$anchor", Holds::Text),
    ("$dynamicAnchor", Holds::Text),
    ("$comment", Holds::Text),
    ("$defs", Holds::Named),
    ("definitions", Holds::Named),
    ("properties", Holds::Named),
    ("patternProperties", Holds::Named),
    ("dependentSchemas", Holds::Named),
    ("anyOf", Holds::Schemas),
    ("oneOf", Holds::Schemas),
    ("allOf", Holds::Schemas),
    ("prefixItems", Holds::Schemas),
    ("items", Holds::Schema),
    ("contains", Holds::Schema),
    ("additionalProperties", Holds::Schema),
    ("unevaluatedProperties", Holds::Schema),
    ("unevaluatedItems", Holds::Schema),
    ("propertyNames", Holds::Schema),
    ("not", Holds::Schema),
    ("if", Holds::Schema),
    ("then", Holds::Schema),
    ("else", Holds::Schema),
    ("contentSchema", Holds::Schema),
    ("required", Holds::Names),
    ("dependentRequired", Holds::NamesByName),
    ("enum", Holds::Values),
    ("examples", Holds::Examples),
    ("minimum", Holds::Number),
    ("maximum", Holds::Number),
    ("exclusiveMinimum", Holds::Number),
    ("exclusiveMaximum", Holds::Number),
    ("multipleOf", Holds::Positive),
    ("minLength", Holds::Count),
    ("maxLength", Holds::Count),
    ("minItems", Holds::Count),
    ("maxItems", Holds::Count),
    ("minContains", Holds::Count),
    ("maxContains", Holds::Count),
    ("minProperties", Holds::Count),
    ("maxProperties", Holds::Count),
    ("title", Holds::Text),
    ("description", Holds::Text),
    ("pattern", Holds::Text),
    ("format", Holds::Text),
    ("contentEncoding", Holds::Text),
    ("contentMediaType", Holds::Text),
    ("uniqueItems", Holds::YesOrNo),
    ("readOnly", Holds::YesOrNo),
    ("writeOnly", Holds::YesOrNo),
    ("deprecated", Holds::YesOrNo),
];

/// The schemas right below this one.
pub(super) fn below(schema: &Value) -> impl Iterator<Item = &Value> {
    let fields = schema.as_object().into_iter().flatten();
    fields.flat_map(|(word, value)| {
        let below: Vec<&Value> = match (holds(word), value) {
            (Some(Holds::Schema), value) => vec![value],
            (Some(Holds::Schemas), Value::Array(list)) => list.iter().collect(),
            (Some(Holds::Named), Value::Object(named)) => named.values().collect(),
            _ => Vec::new(),
        };
        below
    })
}

/// The schemas right below this one.
pub(super) fn below_mut(schema: &mut Value) -> impl Iterator<Item = &mut Value> {
    let fields = schema.as_object_mut().into_iter().flatten();
    fields.flat_map(|(word, value)| {
        let below: Vec<&mut Value> = match (holds(word), value) {
            (Some(Holds::Schema), value) => vec![value],
            (Some(Holds::Schemas), Value::Array(list)) => list.iter_mut().collect(),
            (Some(Holds::Named), Value::Object(named)) => named.values_mut().collect(),
            _ => Vec::new(),
        };
        below
    })
}

fn holds(word: &str) -> Option<Holds> {
    let known = KEYWORDS.iter().find(|(known, _)| *known == word);
    known.map(|(_, holds)| *holds)
}
