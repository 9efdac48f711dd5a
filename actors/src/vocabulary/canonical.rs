//! The canonical form of JSON, over which digests are computed.
//!
//! The text of a value is the same whatever features the JSON library has, in whatever order a map was filled, and
//! however a number was written. It is compact JSON. The keys of maps are in the order of their bytes, the fields of
//! structs in the order of their declaration. A float is the shortest decimal that reads back as the same number; a
//! double has an exponent below 10⁻⁵ and from 10¹⁶ on, a single below 10⁻⁶ and from 10¹³ on. In strings only quotes,
//! backslashes and control characters are escaped.
//!
//! A digest that names no algorithm is BLAKE3 over this form. The form never changes. Another form would be another
//! algorithm, whose name would stand before the digits, so that an older program leaves such a journal alone.

mod nested;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod text;
mod writer;

use std::fmt::{Display, Write as _};

use serde::{Serialize, ser};

use self::{
    nested::{Fields, Items, Keys},
    writer::{DOUBLE, Form, NoForm, Plain, Writer, next_escape},
};
use super::Digest;

/// The canonical form of a value.
pub(crate) fn to_vec<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    write(value, &mut out);
    out
}

/// Appends the canonical form of a value. The text ends before anything that has no form as JSON, such as a map whose
/// keys are not texts.
pub(crate) fn write<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    // Plain data with text keys, so encoding cannot fail.
    let form = Form::Canonical;
    let _ = value.serialize(Writer { out, form });
}

/// Appends a value as compact JSON, as `serde_json` writes it: maps in their own order, texts that are JSON already as
/// they are. Texts are copied in pieces and not byte by byte, which is most of the work on an entry.
///
/// # Errors
/// The value has no form as JSON.
pub(crate) fn write_as_given<T: Serialize + ?Sized>(
    value: &T,
    out: &mut Vec<u8>,
) -> serde_json::Result<()> {
    let form = Form::AsGiven;
    value
        .serialize(Writer { out, form })
        .map_err(ser::Error::custom)
}

/// The digest of a value's canonical form.
pub(crate) fn digest_of<T: Serialize + ?Sized>(value: &T) -> Digest {
    Digest::of(&to_vec(value))
}

/// serde_json's name for a struct whose text is JSON already.
const RAW: &str = "$serde_json::private::RawValue";
/// serde_json's name for a number that it keeps as text, as one of its features demands.
const NUMBER: &str = "$serde_json::private::Number";

impl<'a> ser::Serializer for Writer<'a> {
    type Ok = ();
    type Error = NoForm;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Items<'a>;
    type SerializeMap = Keys<'a>;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = Fields<'a>;

    fn serialize_bool(self, value: bool) -> Result<(), NoForm> {
        self.raw(if value { "true" } else { "false" })
    }

    fn serialize_i8(self, value: i8) -> Result<(), NoForm> {
        self.number(value)
    }

    fn serialize_i16(self, value: i16) -> Result<(), NoForm> {
        self.number(value)
    }

    fn serialize_i32(self, value: i32) -> Result<(), NoForm> {
        self.number(value)
    }

    fn serialize_i64(self, value: i64) -> Result<(), NoForm> {
        self.number(value)
    }

    fn serialize_i128(self, value: i128) -> Result<(), NoForm> {
        self.number(value)
    }

    fn serialize_u8(self, value: u8) -> Result<(), NoForm> {
        self.number(value)
    }

    fn serialize_u16(self, value: u16) -> Result<(), NoForm> {
        self.number(value)
    }

    fn serialize_u32(self, value: u32) -> Result<(), NoForm> {
        self.number(value)
    }

    fn serialize_u64(self, value: u64) -> Result<(), NoForm> {
        self.number(value)
    }

    fn serialize_u128(self, value: u128) -> Result<(), NoForm> {
        self.number(value)
    }

    fn serialize_f32(self, value: f32) -> Result<(), NoForm> {
        match self.form {
            Form::Canonical => self.float(value, -6..13),
            Form::AsGiven => self.number(value),
        }
    }

    fn serialize_f64(self, value: f64) -> Result<(), NoForm> {
        match self.form {
            Form::Canonical => self.float(value, DOUBLE),
            Form::AsGiven => self.number(value),
        }
    }

    fn serialize_char(self, value: char) -> Result<(), NoForm> {
        self.string(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), NoForm> {
        self.string(value)
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), NoForm> {
        let Self { out, form } = self;
        let begin = out.len();
        out.push(b'"');
        write!(Plain(out), "{value}").map_err(ser::Error::custom)?;
        if next_escape(out, begin + 1).is_some() {
            let text = String::from_utf8_lossy(&out[begin + 1..]).into_owned();
            out.truncate(begin);
            return Writer { out, form }.string(&text);
        }
        out.push(b'"');
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), NoForm> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<(), NoForm> {
        self.raw("null")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), NoForm> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), NoForm> {
        self.raw("null")
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), NoForm> {
        self.raw("null")
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), NoForm> {
        self.string(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), NoForm> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), NoForm> {
        let Writer { out, form } = self.variant(variant)?;
        value.serialize(Writer { out, form })?;
        out.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Items<'a>, NoForm> {
        self.out.push(b'[');
        Ok(Items {
            out: self.out,
            form: self.form,
            first: true,
            end: "]",
        })
    }

    fn serialize_tuple(self, len: usize) -> Result<Items<'a>, NoForm> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(self, _name: &'static str, len: usize) -> Result<Items<'a>, NoForm> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Items<'a>, NoForm> {
        let items = self.variant(variant)?.serialize_seq(Some(len))?;
        Ok(Items { end: "]}", ..items })
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Keys<'a>, NoForm> {
        let len = len.filter(|_| self.form == Form::Canonical);
        if self.form == Form::AsGiven {
            self.out.push(b'{');
        }
        Ok(Keys {
            out: self.out,
            form: self.form,
            first: true,
            entries: Vec::with_capacity(len.unwrap_or_default()),
            key: None,
        })
    }

    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Fields<'a>, NoForm> {
        let is_text = name == RAW || name == NUMBER;
        if !is_text {
            self.out.push(b'{');
        }
        Ok(Fields {
            out: self.out,
            form: self.form,
            first: true,
            end: "}",
            is_text,
        })
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Fields<'a>, NoForm> {
        let fields = self.variant(variant)?.serialize_struct(name, len)?;
        Ok(Fields {
            end: "}}",
            ..fields
        })
    }
}
