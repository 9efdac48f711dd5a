//! Texts with variables such as `{name}`: filling them with values, and matching a filled text.

use std::{borrow::Borrow, collections::BTreeMap};

use super::addresses;

/// A piece of a template.
pub(super) enum Piece<'a> {
    Text(&'a str),
    Place(&'a str),
}

/// The pieces of a template. Braces around a text that is not a name are text.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let is_name = |name: &str| {
        let fits = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        !name.is_empty() && name.chars().all(fits)
    };
    let (mut pieces, mut from, mut at) = (Vec::new(), 0, 0);
    while let Some(open) = text[at..].find('{').map(|found| at + found) {
        let inside = &text[open + 1..];
        let name = inside.find('}').map(|close| &inside[..close]);
        match name.filter(|name| is_name(name)) {
            Some(name) => {
                pieces.push(Piece::Text(&text[from..open]));
                pieces.push(Piece::Place(name));
                at = open + name.len() + 2;
                from = at;
            }
            None => at = open + 1,
        }
    }
    pieces.push(Piece::Text(&text[from..]));
    pieces
}

/// The text filled with these values; a variable without a value becomes empty. Variables in values are not expanded.
pub(super) fn filled<V: Borrow<str>>(text: &str, values: &BTreeMap<&str, V>) -> String {
    let mut filled = String::with_capacity(text.len());
    for piece in pieces(text) {
        filled.push_str(match piece {
            Piece::Text(text) => text,
            Piece::Place(name) => values.get(name).map(Borrow::borrow).unwrap_or_default(),
        });
    }
    filled
}

/// The values of an address template's variables (RFC 6570, level 1) in an address: each matches some characters
/// without a slash, and is percent-decoded.
pub(super) fn matched(template: &str, address: &str) -> Option<BTreeMap<String, String>> {
    let (mut values, mut rest) = (BTreeMap::new(), address);
    let mut place: Option<&str> = None;
    let pieces = pieces(template);
    for (index, piece) in pieces.iter().enumerate() {
        let text = match piece {
            Piece::Place(name) => {
                place = Some(name);
                continue;
            }
            Piece::Text(text) => *text,
        };
        let Some(name) = place.take() else {
            rest = rest.strip_prefix(text)?;
            continue;
        };
        let is_last = index + 1 == pieces.len();
        let end = match is_last {
            true => rest.strip_suffix(text)?.len(),
            false => rest.find(text)?,
        };
        let (value, after) = rest.split_at(end);
        if value.is_empty() || value.contains('/') {
            return None;
        }
        values.insert(name.to_owned(), addresses::decoded(value)?);
        rest = &after[text.len()..];
    }
    rest.is_empty().then_some(values)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_are_filled_once_and_other_braces_stay() {
        let text = "{a} {b} {a} {not a name} {} {c";
        let values = BTreeMap::from([("a", "{b}"), ("b", "2")]);
        assert_eq!(filled(text, &values), "{b} 2 {b} {not a name} {} {c");
    }

    #[test]
    fn an_address_fits_a_template_or_does_not() {
        let of = |template: &str, address: &str| {
            matched(template, address).map(|values| values.into_values().collect::<Vec<_>>())
        };
        assert_eq!(
            of("t://{id}/data", "t://1%2F2/data"),
            Some(vec!["1/2".to_owned()])
        );
        assert_eq!(
            of("t://{a}.{b}", "t://x.y"),
            Some(vec!["x".to_owned(), "y".to_owned()])
        );
        assert_eq!(of("t://fixed", "t://fixed"), Some(vec![]));
        for (template, address) in [
            ("t://{id}/data", "t:///data"),
            ("t://{id}/data", "t://1/2/data"),
            ("t://{id}/data", "t://1/data/more"),
            ("t://{id}/data", "t://%zz/data"),
            ("t://{id}/data", "t://%ff/data"),
            ("t://{a}{b}", "t://xy"),
            ("t://fixed", "t://fixed/more"),
        ] {
            assert_eq!(of(template, address), None, "{template} {address}");
        }
    }

    proptest! {
        #[test]
        fn a_text_without_values_for_its_places_loses_only_these(text in "[a{} ]{0,30}") {
            let pieces = pieces(&text);
            let places = pieces.iter().filter_map(|piece| match piece {
                Piece::Place(name) => Some((*name, format!("{{{name}}}"))),
                Piece::Text(_) => None,
            });
            let values: BTreeMap<&str, String> = places.collect();
            prop_assert_eq!(filled(&text, &values), text.clone());
        }

        #[test]
        fn the_values_of_an_address_are_read_back(a in "[^/%.]{1,9}", b in "[^/%.]{1,9}") {
            let values = BTreeMap::from([("a", a.as_str()), ("b", b.as_str())]);
            let address = filled("t://{a}/x/{b}.json", &values);
            let read = matched("t://{a}/x/{b}.json", &address);
            prop_assert_eq!(read, Some(BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)])));
        }

        #[test]
        fn no_address_ends_the_program(template in ".*", address in ".*") {
            let _ = matched(&template, &address);
        }
    }
}
