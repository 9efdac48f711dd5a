//! Arrays, structs and maps under way.

use serde::{Serialize, ser};
use serde_json::Value;

use super::{
    text::Text,
    writer::{DOUBLE, Form, NoForm, Writer},
};

/// An array under way.
pub(super) struct Items<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) form: Form,
    pub(super) first: bool,
    pub(super) end: &'static str,
}

impl Items<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NoForm> {
        if !std::mem::replace(&mut self.first, false) {
            self.out.push(b',');
        }
        let form = self.form;
        value.serialize(Writer {
            out: self.out,
            form,
        })
    }

    fn close(self) -> Result<(), NoForm> {
        self.out.extend_from_slice(self.end.as_bytes());
        Ok(())
    }
}

macro_rules! items {
    ($($of:ident $item:ident),*) => {
        $(impl ser::$of for Items<'_> {
            type Ok = ();
            type Error = NoForm;

            fn $item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NoForm> {
                self.item(value)
            }

            fn end(self) -> Result<(), NoForm> {
                self.close()
            }
        })*
    };
}

items!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

/// A struct under way.
pub(super) struct Fields<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) form: Form,
    pub(super) first: bool,
    pub(super) end: &'static str,
    /// Whether the struct stands for a text that is JSON already.
    pub(super) is_text: bool,
}

impl Fields<'_> {
    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), NoForm> {
        if self.is_text {
            let text = value.serialize(Text)?;
            return match self.form {
                Form::Canonical => write_text(&text, self.out),
                Form::AsGiven => {
                    self.out.extend_from_slice(text.as_bytes());
                    Ok(())
                }
            };
        }
        let Self { out, form, .. } = self;
        if !std::mem::replace(&mut self.first, false) {
            out.push(b',');
        }
        let form = *form;
        Writer { out, form }.string(name)?;
        out.push(b':');
        value.serialize(Writer { out, form })
    }

    fn close(self) -> Result<(), NoForm> {
        if !self.is_text {
            self.out.extend_from_slice(self.end.as_bytes());
        }
        Ok(())
    }
}

macro_rules! fields {
    ($($of:ident),*) => {
        $(impl ser::$of for Fields<'_> {
            type Ok = ();
            type Error = NoForm;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), NoForm> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), NoForm> {
                self.close()
            }
        })*
    };
}

fields!(SerializeStruct, SerializeStructVariant);

/// Writes a text that is JSON.
fn write_text(text: &str, out: &mut Vec<u8>) -> Result<(), NoForm> {
    let form = Form::Canonical;
    let writer = Writer { out, form };
    // A number that a library keeps as text is written like any other number.
    if let Ok(number) = text.parse::<u64>() {
        number.serialize(writer)
    } else if let Ok(number) = text.parse::<i64>() {
        number.serialize(writer)
    } else if let Ok(number) = text.parse::<f64>() {
        writer.float(number, DOUBLE)
    } else {
        let value: Value = serde_json::from_str(text).map_err(ser::Error::custom)?;
        value.serialize(writer)
    }
}

/// A map under way. The entries of a canonical one are written once all are known.
pub(super) struct Keys<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) form: Form,
    pub(super) first: bool,
    pub(super) entries: Vec<(String, Vec<u8>)>,
    pub(super) key: Option<String>,
}

impl ser::SerializeMap for Keys<'_> {
    type Ok = ();
    type Error = NoForm;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), NoForm> {
        if self.form == Form::Canonical {
            self.key = Some(key.serialize(Text)?);
            return Ok(());
        }
        if !std::mem::replace(&mut self.first, false) {
            self.out.push(b',');
        }
        // `{"key":null}`
        let map = serde_json::to_vec(&OneKey(key)).map_err(ser::Error::custom)?;
        let end = map.len().saturating_sub("null}".len());
        self.out.extend_from_slice(&map[1..end]);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NoForm> {
        let form = self.form;
        if form == Form::AsGiven {
            return value.serialize(Writer {
                out: self.out,
                form,
            });
        }
        let mut written = Vec::new();
        let out = &mut written;
        value.serialize(Writer { out, form })?;
        let key = self.key.take().unwrap_or_default();
        self.entries.push((key, written));
        Ok(())
    }

    fn end(mut self) -> Result<(), NoForm> {
        let Self { out, form, .. } = self;
        if form == Form::AsGiven {
            out.push(b'}');
            return Ok(());
        }
        self.entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        out.push(b'{');
        for (place, (key, value)) in self.entries.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            Writer { out, form }.string(key)?;
            out.push(b':');
            out.extend_from_slice(value);
        }
        out.push(b'}');
        Ok(())
    }
}

/// A map of this key alone.
struct OneKey<'a, K: ?Sized>(&'a K);

impl<K: Serialize + ?Sized> Serialize for OneKey<'_, K> {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(self.0, ())])
    }
}
