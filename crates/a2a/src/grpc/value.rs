//! The well-known types of Protocol Buffers that the protocol uses: JSON values and points in time.

use std::collections::BTreeMap;

use prost::{Message, Oneof};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Number, Value as Json};

/// The whole numbers below this are exact as floating-point numbers, and are shown without a fraction.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// `google.protobuf.Struct`.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(from = "Map<String, Json>", into = "Map<String, Json>")]
pub(super) struct Struct {
    #[prost(btree_map = "string, message", tag = "1")]
    fields: BTreeMap<String, Value>,
}

/// `google.protobuf.Value`.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(from = "Json", into = "Json")]
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
        let fields = map.into_iter().map(|(name, value)| (name, value.into()));
        Self {
            fields: fields.collect(),
        }
    }
}

impl From<Struct> for Map<String, Json> {
    fn from(of: Struct) -> Self {
        let fields = of.fields.into_iter();
        fields.map(|(name, value)| (name, value.into())).collect()
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

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        match value.kind {
            None | Some(Kind::Null(_)) => Self::Null,
            Some(Kind::Bool(is)) => Self::Bool(is),
            Some(Kind::Number(number)) if number.fract() == 0.0 && number.abs() < EXACT => {
                // The fraction is zero and the size was checked, so nothing is cut off.
                Self::Number(Number::from(number as i64))
            }
            // JSON has no infinity.
            Some(Kind::Number(number)) => Number::from_f64(number).map_or(Self::Null, Self::Number),
            Some(Kind::Text(text)) => Self::String(text),
            Some(Kind::List(list)) => list.values.into_iter().map(Self::from).collect(),
            Some(Kind::Struct(fields)) => Self::Object(fields.into()),
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
