//! Values that must be written as texts: the keys of maps.

use serde::{
    Serialize,
    ser::{self, Impossible},
};

use super::writer::{NoForm, no_form};

/// Accepts a key: a string, or a number or word that is written as one.
pub(super) struct Text;

macro_rules! displayed {
    ($($name:ident $type:ty),*) => {
        $(fn $name(self, value: $type) -> Result<String, NoForm> {
            Ok(value.to_string())
        })*
    };
}

impl ser::Serializer for Text {
    type Ok = String;
    type Error = NoForm;
    type SerializeSeq = Impossible<String, NoForm>;
    type SerializeTuple = Impossible<String, NoForm>;
    type SerializeTupleStruct = Impossible<String, NoForm>;
    type SerializeTupleVariant = Impossible<String, NoForm>;
    type SerializeMap = Impossible<String, NoForm>;
    type SerializeStruct = Impossible<String, NoForm>;
    type SerializeStructVariant = Impossible<String, NoForm>;

    displayed!(
        serialize_bool bool, serialize_i8 i8, serialize_i16 i16, serialize_i32 i32,
        serialize_i64 i64, serialize_u8 u8, serialize_u16 u16, serialize_u32 u32,
        serialize_u64 u64, serialize_char char, serialize_str &str
    );

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<String, NoForm> {
        Ok(variant.to_owned())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<String, NoForm> {
        value.serialize(self)
    }

    fn serialize_f32(self, _value: f32) -> Result<String, NoForm> {
        no_form("a float as a key")
    }

    fn serialize_f64(self, _value: f64) -> Result<String, NoForm> {
        no_form("a float as a key")
    }

    fn serialize_bytes(self, _value: &[u8]) -> Result<String, NoForm> {
        no_form("bytes as a key")
    }

    fn serialize_none(self) -> Result<String, NoForm> {
        no_form("nothing as a key")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<String, NoForm> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<String, NoForm> {
        no_form("nothing as a key")
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<String, NoForm> {
        no_form("nothing as a key")
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<String, NoForm> {
        no_form("a variant as a key")
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Self::SerializeSeq, NoForm> {
        no_form("an array as a key")
    }

    fn serialize_tuple(self, _len: usize) -> Result<Self::SerializeTuple, NoForm> {
        no_form("an array as a key")
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleStruct, NoForm> {
        no_form("an array as a key")
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleVariant, NoForm> {
        no_form("an array as a key")
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Self::SerializeMap, NoForm> {
        no_form("a map as a key")
    }

    fn serialize_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStruct, NoForm> {
        no_form("a struct as a key")
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStructVariant, NoForm> {
        no_form("a struct as a key")
    }
}
