//! Deserializes types from a document, so that each error has the place of its value.
//!
//! A fault gets the place of the innermost value that contains it. Values that serde buffers
//! (untagged enums, flattened settings) have the place of the whole.

use std::fmt;

use ghostlight_safety::cut;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor, value::StrDeserializer,
};

use super::{
    document::{Content, Key, Node, Text},
    fault::{Fault, FaultKind, instead},
};

/// How many characters of a wrong text are shown.
const SHOWN: usize = 60;

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(FaultKind::WrongValue, None, message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = in_words(&expected.to_string());
        let found = match found {
            Unexpected::Unit | Unexpected::Option => String::from("nothing"),
            Unexpected::Seq => String::from("a list"),
            Unexpected::Map => String::from("a mapping"),
            Unexpected::Str(text) => format!("the text {:?}", cut(text, SHOWN)),
            Unexpected::Bool(value) => value.to_string(),
            Unexpected::Unsigned(value) => value.to_string(),
            Unexpected::Signed(value) => value.to_string(),
            Unexpected::Float(value) => value.to_string(),
            other => other.to_string(),
        };
        Self::custom(format_args!("expected {expected}, found {found}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!(
            "`{}` is not possible here",
            cut(variant, SHOWN)
        ))
        .help(instead(variant, expected.iter().copied()))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let message = format!("unknown key `{}`", cut(field, SHOWN));
        Self::new(FaultKind::UnknownKey, None, message)
            .help(instead(field, expected.iter().copied()))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::custom(format_args!("the key `{field}` is missing"))
    }
}

/// Serde's expectation, in terms of YAML instead of Rust.
pub(super) fn in_words(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "usize" | "u64" => String::from("a whole number, 0 or more"),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "i8" | "i16" | "i32" | "i64" => String::from("a whole number"),
        "f32" | "f64" => String::from("a number"),
        "a boolean" => String::from("true or false"),
        "a string" | "string or map" => String::from("a text"),
        "a sequence" => String::from("a list"),
        "a map" => String::from("a mapping"),
        other if other.starts_with("struct ") => String::from("a mapping"),
        other if other.starts_with("enum ") => String::from("one of its names"),
        other => other.to_owned(),
    }
}

/// Deserializes a type from this value.
pub(super) fn read<'de, T: de::Deserialize<'de>>(node: &'de Node) -> Result<T, Fault> {
    T::deserialize(node)
}

impl<'de> IntoDeserializer<'de, Fault> for &'de Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// A number may be the text of a variable.
macro_rules! numbers {
    ($($name:ident => $visit:ident: $type:ty,)*) => {
        $(fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match self.substituted().and_then(|text| text.trim().parse::<$type>().ok()) {
                Some(number) => visitor.$visit(number).map_err(|fault: Fault| fault.at(self.place)),
                None => self.deserialize_any(visitor),
            }
        })*
    };
}

impl Node {
    fn substituted(&self) -> Option<&str> {
        match &self.content {
            Content::Text(Text {
                value,
                substituted: true,
            }) => Some(value),
            _ => None,
        }
    }

    fn visit<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, Fault> {
        match &self.content {
            Content::Null => visitor.visit_unit(),
            Content::Bool(scalar) => visitor.visit_bool(scalar.value),
            Content::Whole(scalar) => {
                match (u64::try_from(scalar.value), i64::try_from(scalar.value)) {
                    (Ok(number), _) => visitor.visit_u64(number),
                    (_, Ok(number)) => visitor.visit_i64(number),
                    _ => Err(de::Error::custom(format_args!(
                        "the number {} is too large",
                        scalar.written
                    ))),
                }
            }
            Content::Float(scalar) => visitor.visit_f64(scalar.value),
            Content::Text(text) => visitor.visit_borrowed_str(&text.value),
            Content::List(items) => visitor.visit_seq(Items(items.iter())),
            Content::Mapping(entries) => visitor.visit_map(Entries {
                entries: entries.iter(),
                value: None,
            }),
        }
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit(visitor).map_err(|fault| fault.at(self.place))
    }

    numbers! {
        deserialize_u8 => visit_u64: u64,
        deserialize_u16 => visit_u64: u64,
        deserialize_u32 => visit_u64: u64,
        deserialize_u64 => visit_u64: u64,
        deserialize_i8 => visit_i64: i64,
        deserialize_i16 => visit_i64: i64,
        deserialize_i32 => visit_i64: i64,
        deserialize_i64 => visit_i64: i64,
        deserialize_f32 => visit_f64: f64,
        deserialize_f64 => visit_f64: f64,
        deserialize_bool => visit_bool: bool,
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.text() {
            Some(text) => visitor
                .visit_borrowed_str(text)
                .map_err(|fault: Fault| fault.at(self.place)),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.content {
            Content::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
        .map_err(|fault: Fault| fault.at(self.place))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let chosen = match &self.content {
            Content::Text(text) => Chosen {
                name: &text.value,
                node: self,
                value: None,
            },
            Content::Mapping(entries) if entries.len() == 1 => Chosen {
                name: &entries[0].0.name,
                node: self,
                value: Some(&entries[0].1),
            },
            _ => return self.deserialize_any(visitor),
        };
        visitor
            .visit_enum(chosen)
            .map_err(|fault: Fault| fault.at(self.place))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.content {
            // Serde would read a list as the fields in their order.
            Content::List(_) => {
                let found = de::Error::invalid_type(Unexpected::Seq, &"a mapping");
                Err(Fault::at(found, self.place))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct seq tuple tuple_struct map
        identifier ignored_any
    }
}

struct Items<'de>(std::slice::Iter<'de, Node>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let item = self.0.next();
        item.map(|item| seed.deserialize(item).map_err(|fault| fault.at(item.place)))
            .transpose()
    }
}

struct Entries<'de> {
    entries: std::slice::Iter<'de, (Key, Node)>,
    value: Option<&'de Node>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((key, value)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        let name: StrDeserializer<'_, Fault> = key.name.as_str().into_deserializer();
        let read = seed.deserialize(name);
        read.map(Some).map_err(|fault| fault.at(key.place))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        match self.value.take() {
            // A value that serde buffers fails only here, after it was read.
            Some(value) => seed
                .deserialize(value)
                .map_err(|fault| fault.at(value.place)),
            None => Err(de::Error::custom("a value was asked for before its key")),
        }
    }
}

/// A variant of an enum: its name alone, or a mapping of its name to its value.
struct Chosen<'de> {
    name: &'de str,
    node: &'de Node,
    value: Option<&'de Node>,
}

impl<'de> EnumAccess<'de> for Chosen<'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        let name: StrDeserializer<'_, Fault> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Chosen<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self.value {
            None => Ok(()),
            Some(value) => {
                let message = format!("`{}` takes no value", self.name);
                Err(Fault::new(FaultKind::WrongValue, value.place, message))
            }
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        match self.value {
            Some(value) => seed.deserialize(value),
            None => {
                let message = format!("`{}` needs a value: write `{0}: value`", self.name);
                Err(Fault::new(FaultKind::WrongValue, self.node.place, message))
            }
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.value.unwrap_or(self.node).deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.value.unwrap_or(self.node).deserialize_any(visitor)
    }
}
