//! Percent-encoding of texts in addresses (RFC 3986).

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// All characters but the unreserved ones (RFC 3986, 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A text, percent-encoded so that it may stand anywhere in an address.
pub fn percent_encoded(text: &(impl AsRef<[u8]> + ?Sized)) -> String {
    percent_encode(text.as_ref(), RESERVED).to_string()
}

/// The bytes that a percent-encoded text stands for. A `%` without two digits behind it stays.
pub fn percent_decoded(text: &str) -> Cow<'_, [u8]> {
    percent_decode_str(text).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_but_unreserved_characters_are_encoded() {
        assert_eq!(percent_encoded("a-Z_0.~ /é%"), "a-Z_0.~%20%2F%C3%A9%25");
        assert_eq!(&*percent_decoded("a%2fb%zz%"), b"a/b%zz%");
    }

    proptest! {
        #[test]
        fn an_encoded_text_is_decoded_again(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let encoded = percent_encoded(&bytes);
            prop_assert!(encoded.is_ascii());
            prop_assert_eq!(&*percent_decoded(&encoded), &bytes[..]);
        }
    }
}
