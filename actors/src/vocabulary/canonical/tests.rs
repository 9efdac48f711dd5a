//! Known answers: a change of one of them breaks the journals that were written before.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json, value::RawValue};

use super::*;

fn text(value: &(impl Serialize + ?Sized)) -> String {
    String::from_utf8(to_vec(value)).unwrap()
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Shape {
    Unit,
    New(u8),
    Pair(u8, u8),
    Fields { z: u8, a: Option<u8> },
}

#[test]
fn the_form_is_known() {
    let value = json!({
        "z": [1, -2, 18_446_744_073_709_551_615_u64, true, null],
        "a": { "b": "q\"\\\n\u{1}\u{8}\u{c}ü世\u{7f}/", "": 0.5 },
    });
    assert_eq!(
        text(&value),
        "{\"a\":{\"\":0.5,\"b\":\"q\\\"\\\\\\n\\u0001\\b\\fü世\u{7f}/\"},\
         \"z\":[1,-2,18446744073709551615,true,null]}"
    );
    let shapes = [
        Shape::Unit,
        Shape::New(1),
        Shape::Pair(1, 2),
        Shape::Fields { z: 1, a: None },
    ];
    assert_eq!(
        text(&shapes),
        "[\"unit\",{\"new\":1},{\"pair\":[1,2]},{\"fields\":{\"z\":1,\"a\":null}}]"
    );
    assert_eq!(
        digest_of(&value).to_string(),
        "1b901968d6377ccbc03ae6ce21b4ce0e9677ecf5c99c540470427904ed43e5d3"
    );
}

#[test]
fn numbers_have_one_form() {
    for (number, form) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (-12.5, "-12.5"),
        (100.0, "100.0"),
        (123_456.789, "123456.789"),
        (0.000_01, "0.00001"),
        (0.000_001, "1e-6"),
        (0.000_1, "0.0001"),
        (0.000_012_3, "0.0000123"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
        (1.25e-7, "1.25e-7"),
        (1.5e300, "1.5e+300"),
        (f64::MAX, "1.7976931348623157e+308"),
    ] {
        assert_eq!(text(&number), form);
        let again: f64 = form.parse().unwrap();
        assert_eq!(again, number);
    }
    assert_eq!(text(&0.7_f32), "0.7");
    assert_eq!(text(&f64::NAN), "null");
    // Numbers as other programs write them, or libraries that keep numbers as text.
    for (written, form) in [("1.50", "1.5"), ("1E2", "100.0"), ("7", "7"), ("-7", "-7")] {
        let raw = RawValue::from_string(written.to_owned()).unwrap();
        assert_eq!(text(&raw), form);
    }
}

#[test]
fn the_order_in_which_a_map_was_filled_does_not_matter() {
    let pairs = || (0..50).map(|number| (format!("key {}", number * 37 % 50), number));
    let sorted: BTreeMap<_, _> = pairs().collect();
    let hashed: HashMap<_, _> = pairs().collect();
    let raw: Vec<String> = pairs()
        .map(|(key, value)| format!("\"{key}\": {value}"))
        .collect();
    let raw = RawValue::from_string(format!("{{ {} }}", raw.join(" , "))).unwrap();
    let backwards: serde_json::Map<String, Value> = pairs()
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .map(|(key, value)| (key, value.into()))
        .collect();
    let form = text(&sorted);
    assert_eq!(text(&hashed), form);
    assert_eq!(text(&raw), form);
    assert_eq!(text(&Value::Object(backwards)), form);
    assert_eq!(digest_of(&hashed), digest_of(&sorted));
}

/// The first journals had this form by chance, so their digests are those of today.
#[test]
fn the_form_is_what_the_first_journals_were_made_with() {
    let value = json!({
        "text": "a \"b\" \t ü", "numbers": [0, 1.5, -3, 1e20, 2.5e-8, 1e-5, 12345678.9],
        "deep": { "er": [{}, [], null, false] },
    });
    assert_eq!(text(&value), value.to_string());
    for hundredths in 0..=200_u8 {
        let setting = f32::from(hundredths) / 100.0;
        assert_eq!(text(&setting), serde_json::to_string(&setting).unwrap());
    }
    let mut bits: u64 = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..20_000 {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        let float = (bits % 1_000_000) as f64 / 1_000.0;
        assert_eq!(text(&float), serde_json::to_string(&float).unwrap());
        // Where two shortest decimals read back as the same number, libraries choose differently.
        let (double, single) = (f64::from_bits(bits), f32::from_bits(bits as u32));
        if double.is_finite() {
            assert_eq!(text(&double).parse::<f64>().unwrap(), double);
        }
        if single.is_finite() {
            assert_eq!(text(&single).parse::<f32>().unwrap(), single);
        }
    }
}

#[test]
fn every_shape_is_written_as_given_as_serde_json_writes_it() {
    #[derive(Serialize)]
    struct Odd<'a> {
        shapes: [Shape; 4],
        unit: (),
        none: Option<char>,
        letter: char,
        bytes: &'a [u8],
        nothing: [u8; 0],
        by_number: BTreeMap<i64, bool>,
        by_letter: BTreeMap<char, Nested>,
        by_word: BTreeMap<bool, u8>,
        empty: BTreeMap<String, u8>,
        run: crate::vocabulary::RunId,
    }
    #[derive(Serialize)]
    struct Nested {}
    let odd = Odd {
        shapes: [
            Shape::Unit,
            Shape::New(1),
            Shape::Pair(1, 2),
            Shape::Fields { z: 1, a: None },
        ],
        unit: (),
        none: None,
        letter: '"',
        bytes: &[0, 255],
        nothing: [],
        by_number: [(-1, true), (2, false)].into(),
        by_letter: [('"', Nested {})].into(),
        by_word: [(true, 1)].into(),
        empty: BTreeMap::new(),
        run: crate::vocabulary::RunId::from_random(7),
    };
    let mut written = Vec::new();
    write_as_given(&odd, &mut written).unwrap();
    assert_eq!(written, serde_json::to_vec(&odd).unwrap());
    for shown in ["plain", "a \"quote\" and \n", ""] {
        let shown = Shown(shown.to_owned());
        let mut written = Vec::new();
        write_as_given(&shown, &mut written).unwrap();
        assert_eq!(written, serde_json::to_vec(&shown).unwrap());
    }
    let odd = BTreeMap::from([((1, 2), 3)]);
    assert!(write_as_given(&odd, &mut Vec::new()).is_err());
}

/// Written as it is displayed.
struct Shown(String);

impl Serialize for Shown {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

proptest::proptest! {
    #[test]
    fn eight_bytes_at_once_find_what_one_by_one_finds(
        bytes in proptest::collection::vec(
            proptest::prop_oneof![3 => b'a'..=255, 1 => 0..64_u8, 1 => proptest::prelude::Just(b'\\')],
            0..40,
        ),
        from in 0..42_usize,
    ) {
        let is_special = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
        let one_by_one = bytes.iter().skip(from).position(is_special);
        proptest::prop_assert_eq!(next_escape(&bytes, from), one_by_one.map(|at| from + at));
    }

    #[test]
    fn values_are_written_as_given_as_serde_json_writes_them(
        texts in proptest::collection::vec("\\PC{0,20}|[\\x00-\\x7f]{0,20}", 0..4),
        floats in proptest::collection::vec(proptest::num::f64::ANY, 0..4),
        singles in proptest::collection::vec(proptest::num::f32::ANY, 0..4),
        numbers in proptest::collection::vec(proptest::num::i128::ANY, 0..4),
        map in proptest::collection::hash_map("\\PC{0,8}|[\\x00-\\x7f]{0,8}", proptest::num::u64::ANY, 0..5),
    ) {
        let raw = texts.iter().map(|text| {
            RawValue::from_string(format!("{{ \"z\" : 1.50, \"a\": {} }}", json!(text))).unwrap()
        });
        let raw: Vec<_> = raw.collect();
        let value = (&texts, &floats, &singles, &numbers, &map, raw, json!({"kept": &map}));
        let mut written = Vec::new();
        write_as_given(&value, &mut written).unwrap();
        proptest::prop_assert_eq!(written, serde_json::to_vec(&value).unwrap());
    }

    #[test]
    fn a_text_is_written_as_serde_json_writes_it(written in "\\PC{0,40}|[\\x00-\\x7f]{0,40}") {
        proptest::prop_assert_eq!(text(&written), serde_json::to_string(&written).unwrap());
    }
}
