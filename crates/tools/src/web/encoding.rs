//! The characters of a page: by its byte order mark, by what the server says, and by what the page declares.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use regex::bytes::Regex;

/// In how many bytes of a page its encoding is declared.
const DECLARED: usize = 4_096;
/// A comment, or the declaration of an encoding in XML or HTML.
const DECLARES: &str = r#"(?is-u)<!--.*?-->|^\s*<\?xml\b[^>]*?\bencoding\s*=\s*["']?([a-z0-9_:.-]+)|<meta\b[^>]*?\bcharset\s*=\s*["']?\s*([a-z0-9_:.-]+)"#;

/// A page as text. Bytes that are not of its encoding are replaced; where nobody says which one it is, it is UTF-8 if it can
/// be, and Windows-1252 else.
pub(super) fn decoded<'b>(bytes: &'b [u8], content_type: &str) -> Cow<'b, str> {
    let said = || said_by(content_type).or_else(|| declared(bytes));
    let marked = Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
    match marked.or_else(said) {
        Some(encoding) => encoding.decode(bytes).0,
        None if std::str::from_utf8(bytes).is_ok() => UTF_8.decode(bytes).0,
        // A page that was cut may end in the middle of a character.
        None if is_cut_utf8(bytes) => String::from_utf8_lossy(bytes),
        None => WINDOWS_1252.decode(bytes).0,
    }
}

/// The encoding that a server gives with the type of a page.
pub(super) fn said_by(content_type: &str) -> Option<&'static Encoding> {
    let mut parameters = content_type.split(';').skip(1);
    parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        let label = value.trim().trim_matches(['"', '\'']);
        Encoding::for_label(label.as_bytes()).filter(|_| is_charset)
    })
}

fn declared(page: &[u8]) -> Option<&'static Encoding> {
    let head = &page[..page.len().min(DECLARED)];
    let declares = Regex::new(DECLARES).ok()?;
    let label = |found: regex::bytes::Captures<'_>| {
        let label = found.get(1).or(found.get(2))?;
        Encoding::for_label(label.as_bytes())
    };
    let found = declares.captures_iter(head).find_map(label)?;
    // A page whose declaration can be read is not in UTF-16.
    Some(if found == found.output_encoding() {
        found
    } else {
        UTF_8
    })
}

fn is_cut_utf8(bytes: &[u8]) -> bool {
    // Other characters of UTF-8 come before: one byte alone may as well be a letter of Windows-1252.
    let is_cut = |error: std::str::Utf8Error| {
        error.error_len().is_none() && !bytes[..error.valid_up_to()].is_ascii()
    };
    std::str::from_utf8(bytes).err().is_some_and(is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_in_the_encoding_that_it_has() {
        let russian = encoding_rs::KOI8_R.encode("Привет").0;
        let japanese = encoding_rs::SHIFT_JIS.encode("こんにちは").0;
        let with = |head: &str, body: &[u8]| [head.as_bytes(), body].concat();
        for (page, kind, text) in [
            (russian.to_vec(), "text/html; charset=\"KOI8-R\"", "Привет"),
            (
                japanese.to_vec(),
                "text/plain;charset=shift_jis",
                "こんにちは",
            ),
            (
                with("<meta charset=koi8-r>", &russian),
                "text/html",
                "Привет",
            ),
            (
                with(
                    "<!-- <meta charset=koi8-r> --><META content='text/html; charset=Shift_JIS'>",
                    &japanese,
                ),
                "text/html",
                "こんにちは",
            ),
            (
                with("<?xml version='1.0' encoding='koi8-r'?>", &russian),
                "application/xhtml+xml",
                "Привет",
            ),
            // What the server says counts more, and a byte order mark most.
            (
                with("<meta charset=utf-16>", "é".as_bytes()),
                "text/html",
                "é",
            ),
            (
                "<meta charset=koi8-r>é".into(),
                "text/html; charset=utf-8",
                "é",
            ),
            ("\u{feff}é".into(), "text/html; charset=koi8-r", "é"),
            ("é".into(), "text/html; charset=nonsense", "é"),
            (b"caf\xe9".to_vec(), "text/plain", "café"),
            (b"\xc3\xa9 caf\xc3".to_vec(), "text/plain", "é caf\u{fffd}"),
        ] {
            let read = decoded(&page, kind);
            assert!(read.ends_with(text), "{kind}: {read}");
        }
    }
}
