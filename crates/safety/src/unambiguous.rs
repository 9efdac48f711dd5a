//! JSON that all readers understand in the same way.

use std::{collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor},
};

use super::printable_line;

/// Parses JSON in which no object has a name twice. Readers differ in which of the two values counts, so one reader may
/// show or check another value than a second reader uses. Whatever decides something, or asks for something to be done,
/// is read by this function.
///
/// # Errors
/// The fault of the text, or the first name that stands twice.
pub fn unambiguous_json<T: DeserializeOwned>(
    json: impl AsRef<[u8]>,
) -> Result<T, serde_json::Error> {
    let json = json.as_ref();
    match serde_json::from_slice::<Repeated>(json)?.0 {
        None => serde_json::from_slice(json),
        Some(name) => {
            let name = printable_line(&name, 64);
            Err(serde_json::Error::custom(format!(
                "{name} stands twice in one object"
            )))
        }
    }
}

/// The first name that stands twice in an object, at any depth.
struct Repeated(Option<String>);

impl<'de> Deserialize<'de> for Repeated {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Look)
    }
}

struct Look;

/// Declares visitor methods for values that hold no names.
macro_rules! nothing {
    ($($visit:ident($type:ty)),*) => {
        $(fn $visit<E>(self, _: $type) -> Result<Repeated, E> {
            Ok(Repeated(None))
        })*
    };
}

impl<'de> Visitor<'de> for Look {
    type Value = Repeated;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    nothing!(
        visit_bool(bool),
        visit_i64(i64),
        visit_u64(u64),
        visit_f64(f64),
        visit_str(&str)
    );

    fn visit_unit<E>(self) -> Result<Repeated, E> {
        Ok(Repeated(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Repeated, A::Error> {
        let mut found = None;
        while let Some(Repeated(name)) = items.next_element()? {
            found = found.or(name);
        }
        Ok(Repeated(found))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Repeated, A::Error> {
        let (mut found, mut seen) = (None, HashSet::new());
        while let Some(name) = fields.next_key::<String>()? {
            let Repeated(within) = fields.next_value()?;
            found = found.or(within);
            if found.is_none() && seen.contains(&name) {
                found = Some(name.clone());
            }
            seen.insert(name);
        }
        Ok(Repeated(found))
    }
}
