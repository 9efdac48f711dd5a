//! The well-known types of Protocol Buffers that the protocol uses: JSON values and points in time.

use prost::{Message, Oneof};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value as Json};

/// The whole numbers below this are exact as floating-point numbers, and are shown without a fraction.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// An entry of a map. On the wire a map is the list of its entries, in which a name may stand twice.
pub(super) trait Entry {
    type Value;

    fn new(name: String, value: Self::Value) -> Self;

    fn parts(&self) -> (&str, Option<&Self::Value>);
}

/// Declares an entry of a map from texts to messages.
macro_rules! entry {
    ($name:ident, $value:ty) => {
        #[derive(Clone, PartialEq, prost::Message)]
        struct $name {
            #[prost(string, tag = "1")]
            name: String,
            #[prost(message, optional, tag = "2")]
            value: Option<$value>,
        }

        impl $crate::grpc::value::Entry for $name {
            type Value = $value;

            fn new(name: String, value: $value) -> Self {
                let value = Some(value);
                Self { name, value }
            }

            fn parts(&self) -> (&str, Option<&$value>) {
                (&self.name, self.value.as_ref())
            }
        }
    };
}
pub(super) use entry;

/// A list of entries, which is an object in JSON. One that has a name twice cannot be written, as it does not read where it
/// comes as JSON: readers differ in which of the two values counts.
pub(super) mod map {
    use std::collections::{BTreeMap, BTreeSet};

    use ghostlight_safety::printable_line;
    use serde::{
        Deserialize, Deserializer, Serialize, Serializer,
        ser::{Error as _, SerializeMap as _},
    };

    use super::Entry;

    pub(crate) fn serialize<E, S: Serializer>(of: &[E], to: S) -> Result<S::Ok, S::Error>
    where
        E: Entry<Value: Serialize + Default>,
    {
        let (mut map, mut names) = (to.serialize_map(Some(of.len()))?, BTreeSet::new());
        for (name, value) in of.iter().map(Entry::parts) {
            if !names.insert(name) {
                let name = printable_line(name, 64);
                return Err(S::Error::custom(format!(
                    "{name} stands twice in one object"
                )));
            }
            match value {
                Some(value) => map.serialize_entry(name, value)?,
                None => map.serialize_entry(name, &E::Value::default())?,
            }
        }
        map.end()
    }

    pub(crate) fn deserialize<'de, E, D: Deserializer<'de>>(from: D) -> Result<Vec<E>, D::Error>
    where
        E: Entry<Value: Deserialize<'de>>,
    {
        let map = BTreeMap::<String, E::Value>::deserialize(from)?;
        Ok(map
            .into_iter()
            .map(|(name, value)| E::new(name, value))
            .collect())
    }
}

/// `google.protobuf.Struct`.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Struct {
    #[prost(message, repeated, tag = "1")]
    #[serde(with = "map")]
    fields: Vec<Field>,
}

entry!(Field, Value);

/// `google.protobuf.Value`.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(from = "Json")]
pub(super) struct Value {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Kind {
    #[prost(int32, tag = "1")]
    Null(i32),
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(bool, tag = "4")]
    Bool(bool),
    #[prost(message, tag = "5")]
    Struct(Struct),
    #[prost(message, tag = "6")]
    List(List),
}

/// `google.protobuf.ListValue`.
#[derive(Clone, PartialEq, Message)]
struct List {
    #[prost(message, repeated, tag = "1")]
    values: Vec<Value>,
}

impl From<Map<String, Json>> for Struct {
    fn from(map: Map<String, Json>) -> Self {
        let fields = map.into_iter();
        let fields = fields.map(|(name, value)| Field::new(name, value.into()));
        Self {
            fields: fields.collect(),
        }
    }
}

impl From<Json> for Value {
    fn from(json: Json) -> Self {
        let kind = match json {
            Json::Null => Kind::Null(0),
            Json::Bool(is) => Kind::Bool(is),
            Json::Number(number) => Kind::Number(number.as_f64().unwrap_or_default()),
            Json::String(text) => Kind::Text(text),
            Json::Array(values) => Kind::List(List {
                values: values.into_iter().map(Into::into).collect(),
            }),
            Json::Object(map) => Kind::Struct(map.into()),
        };
        Self { kind: Some(kind) }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.kind {
            None | Some(Kind::Null(_)) => to.serialize_unit(),
            Some(Kind::Bool(is)) => to.serialize_bool(*is),
            Some(Kind::Number(number)) if number.fract() == 0.0 && number.abs() < EXACT => {
                // The fraction is zero and the size was checked, so nothing is cut off.
                to.serialize_i64(*number as i64)
            }
            // JSON has no infinity.
            Some(Kind::Number(number)) if !number.is_finite() => to.serialize_unit(),
            Some(Kind::Number(number)) => to.serialize_f64(*number),
            Some(Kind::Text(text)) => to.serialize_str(text),
            Some(Kind::List(list)) => to.collect_seq(&list.values),
            Some(Kind::Struct(fields)) => fields.serialize(to),
        }
    }
}

/// `google.protobuf.Timestamp`; in JSON a text of RFC 3339.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time = jiff::Timestamp::new(self.seconds, self.nanos);
        let time = time.map_err(serde::ser::Error::custom)?;
        serializer.collect_str(&time)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
        let (mut seconds, mut nanos) = (time.as_second(), time.subsec_nanosecond());
        // Nanoseconds count forward, also before 1970.
        if nanos < 0 {
            (seconds, nanos) = (seconds - 1, nanos + 1_000_000_000);
        }
        Ok(Self { seconds, nanos })
    }
}

/// Bytes, which are base64 in JSON.
pub(super) mod bytes {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    pub(crate) fn serialize<S: Serializer>(of: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        of.as_ref()
            .map(|bytes| STANDARD.encode(bytes))
            .serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        let bytes = text.map(|text| STANDARD.decode(text)).transpose();
        bytes.map_err(D::Error::custom)
    }
}

/// The number of an enumeration's value, which is its name in JSON.
macro_rules! enumeration {
    ($module:ident, $of:ident, [$($known:ident),* $(,)?]) => {
        pub(super) mod $module {
            use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

            use crate::protocol::$of;

            const KNOWN: &[$of] = &[$($of::$known),*];

            // Both enumerations have the value 0, which stands for values of later versions, too.
            pub(crate) fn serialize<S: Serializer>(of: &i32, to: S) -> Result<S::Ok, S::Error> {
                let known = usize::try_from(*of).ok().and_then(|of| KNOWN.get(of));
                known.copied().unwrap_or_default().serialize(to)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
                $of::deserialize(from).map(|of| of as i32)
            }

            #[cfg(test)]
            #[test]
            fn the_numbers_are_those_of_the_protocol() {
                for (number, of) in KNOWN.iter().enumerate() {
                    assert_eq!(*of as usize, number, "{of:?}");
                }
            }
        }
    };
}

enumeration!(role, Role, [Unspecified, User, Agent]);
enumeration!(
    task_state,
    TaskState,
    [
        Unspecified,
        Submitted,
        Working,
        Completed,
        Failed,
        Canceled,
        InputRequired,
        Rejected,
        AuthRequired,
    ]
);
