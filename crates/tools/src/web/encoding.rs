//! The characters of a page: by its byte order mark, by what the server says, and by what the page declares.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use regex::bytes::Regex;

/// In how many bytes of a page its encoding is declared.
const DECLARED: usize = 4_096;
/// A comment, or the declaration of an encoding in XML or HTML.
const DECLARES: &str = r#"(?is-u)<!--.*?-->|^\s*<\?xml\b[^>]*?\bencoding\s*=\s*["']?([a-z0-9_:.-]+)|<meta\b[^>]*?\bcharset\s*=\s*["']?\s*([a-z0-9_:.-]+)"#;

/// A page as text. Bytes that are not of its encoding are replaced; where nobody says which one it is, it is UTF-8, and bytes
/// that are not are read as Windows-1252, while the text around them stays as it is.
pub(super) fn decoded<'b>(bytes: &'b [u8], content_type: &str) -> Cow<'b, str> {
    let said = || said_by(content_type).or_else(|| declared(bytes));
    let marked = Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
    match marked.or_else(said) {
        Some(encoding) => encoding.decode(bytes).0,
        None => guessed(bytes),
    }
}

fn guessed(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    // A page that was cut may end in the middle of a character.
    let is_cut = is_cut_utf8(bytes);
    let mut read = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        read += chunk.valid().len() + chunk.invalid().len();
        match is_cut && read == bytes.len() {
            true => text.push(char::REPLACEMENT_CHARACTER),
            false => text.push_str(&WINDOWS_1252.decode_without_bom_handling(chunk.invalid()).0),
        }
    }
    Cow::Owned(text)
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

/// Whether the last bytes begin a character of UTF-8. One of UTF-8 comes before: a byte alone may as well be a letter of
/// Windows-1252.
fn is_cut_utf8(bytes: &[u8]) -> bool {
    let last = bytes.utf8_chunks().last();
    let is_begun = |chunk: std::str::Utf8Chunk<'_>| {
        std::str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none())
    };
    last.is_some_and(is_begun) && bytes.utf8_chunks().any(|chunk| !chunk.valid().is_ascii())
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
            // One byte of another encoding changes none of the others.
            (
                "é \u{201c}ü\u{201d} "
                    .bytes()
                    .chain(*b"\x96 caf\xe9 ")
                    .chain("ж".bytes())
                    .collect(),
                "text/html",
                "é \u{201c}ü\u{201d} – café ж",
            ),
            (
                b"\xc3\xa9 \x93 caf\xc3".to_vec(),
                "text/plain",
                "é \u{201c} caf\u{fffd}",
            ),
        ] {
            let read = decoded(&page, kind);
            assert!(read.ends_with(text), "{kind}: {read}");
        }
    }
}
