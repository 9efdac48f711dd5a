//! Fonts of a PDF that are not embedded: their characters are known by the name of their encoding.

use std::{collections::BTreeMap, fmt::Write as _};

use encoding_rs::{BIG5, EUC_JP, EUC_KR, Encoding, GB18030, SHIFT_JIS};
use pdf_extract::{Dictionary, Document, Object, ObjectId, Stream};

/// The predefined encodings of Chinese, Japanese and Korean that are older than Unicode, by the beginnings of their names.
const OLDER: [(&str, &Encoding); 19] = [
    ("GB-EUC", GB18030),
    ("GBpc-EUC", GB18030),
    ("GBK-EUC", GB18030),
    ("GBKp-EUC", GB18030),
    ("GBK2K", GB18030),
    ("B5pc", BIG5),
    ("ETen-B5", BIG5),
    ("ETenms-B5", BIG5),
    ("HKscs-B5", BIG5),
    ("83pv-RKSJ", SHIFT_JIS),
    ("90ms-RKSJ", SHIFT_JIS),
    ("90msp-RKSJ", SHIFT_JIS),
    ("90pv-RKSJ", SHIFT_JIS),
    ("Add-RKSJ", SHIFT_JIS),
    ("Ext-RKSJ", SHIFT_JIS),
    ("EUC-", EUC_JP),
    ("KSC-EUC", EUC_KR),
    ("KSCms-UHC", EUC_KR),
    ("KSCpc-EUC", EUC_KR),
];
/// The bytes that follow the first one of a character of two bytes.
const SECOND: std::ops::RangeInclusive<u8> = 0x40..=0xfe;

/// The codes of an encoding: how many bytes each has, and its character, in the form in which a PDF says it.
struct Codes {
    spaces: String,
    characters: String,
}

/// Says the characters of all fonts whose encoding is known by its name, since the reader knows no such names.
pub(super) fn name_characters(pdf: &mut Document) {
    let mut said: BTreeMap<Vec<u8>, Option<(ObjectId, ObjectId)>> = BTreeMap::new();
    let fonts: Vec<(ObjectId, Vec<u8>)> = pdf
        .objects
        .iter()
        .filter_map(|(id, object)| Some((*id, encoding_of(object)?.to_vec())))
        .collect();
    for (font, encoding) in fonts {
        let maps = said.entry(encoding).or_insert_with_key(|encoding| {
            let codes = codes_of(&String::from_utf8_lossy(encoding))?;
            let mut add = |map: String| {
                let stream = Stream::new(Dictionary::new(), map.into_bytes());
                pdf.add_object(Object::Stream(stream))
            };
            Some((add(codes.spaces), add(codes.characters)))
        });
        let Some((spaces, characters)) = *maps else {
            continue;
        };
        let Ok(Object::Dictionary(font)) = pdf.get_object_mut(font) else {
            continue;
        };
        font.set("Encoding", Object::Reference(spaces));
        font.set("ToUnicode", Object::Reference(characters));
        // The widths are those of glyphs, which are numbered otherwise than characters.
        let glyphs = font.get(b"DescendantFonts").and_then(Object::as_array);
        let glyphs = glyphs
            .ok()
            .and_then(|fonts| fonts.first()?.as_reference().ok());
        if let Some(glyphs) = glyphs
            && let Ok(Object::Dictionary(glyphs)) = pdf.get_object_mut(glyphs)
        {
            glyphs.remove(b"W");
        }
    }
}

/// The name of the encoding of a composite font that does not say its characters.
fn encoding_of(object: &Object) -> Option<&[u8]> {
    let font = object.as_dict().ok()?;
    let is_composite = font.get(b"Subtype").and_then(Object::as_name);
    let is_composite = is_composite.is_ok_and(|name| name == b"Type0");
    let says = font.has(b"ToUnicode");
    let encoding = font.get(b"Encoding").and_then(Object::as_name).ok()?;
    (is_composite && !says).then_some(encoding)
}

fn codes_of(name: &str) -> Option<Codes> {
    if name.starts_with("Uni") && (name.contains("UCS2") || name.contains("UTF16")) {
        return Some(Codes {
            spaces: spaces("<00000000> <0000ffff>\n", 1),
            characters: String::from("1 beginbfrange\n<0000> <ffff> <0000>\nendbfrange\n"),
        });
    }
    let (_, encoding) = OLDER.iter().find(|(begins, _)| name.starts_with(begins))?;
    Some(older(encoding))
}

/// The ranges of codes, each of which is written with twice as many bytes as it has: the parser halves their number.
fn spaces(ranges: &str, number: usize) -> String {
    // The glyph of a code is the code itself here.
    format!(
        "{number} begincodespacerange\n{ranges}endcodespacerange\n\
         1 begincidrange\n<00000000> <ffffffff> 0\nendcidrange\n"
    )
}

fn older(encoding: &'static Encoding) -> Codes {
    let character = |code: &[u8]| {
        let said = encoding.decode_without_bom_handling_and_without_replacement(code)?;
        let mut characters = said.chars();
        characters.next().filter(|_| characters.next().is_none())
    };
    let (mut ranges, mut number) = (String::new(), 0);
    let (mut listed, mut count) = (String::new(), 0);
    let mut list = |code: &[u8], character: char| {
        let code: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut units = [0; 2];
        let units = character.encode_utf16(&mut units);
        let units: String = units.iter().map(|unit| format!("{unit:04x}")).collect();
        let _ = writeln!(listed, "<{code}> <{units}>");
        count += 1;
    };
    for first in 0..=u8::MAX {
        number += 1;
        if let Some(single) = character(&[first]) {
            let _ = writeln!(ranges, "<00{first:02x}> <00{first:02x}>");
            list(&[first], single);
            continue;
        }
        let (from, to) = (SECOND.start(), SECOND.end());
        let _ = writeln!(
            ranges,
            "<0000{first:02x}{from:02x}> <0000{first:02x}{to:02x}>"
        );
        for second in SECOND {
            if let Some(double) = character(&[first, second]) {
                list(&[first, second], double);
            }
        }
    }
    Codes {
        spaces: spaces(&ranges, number),
        characters: format!("{count} beginbfchar\n{listed}endbfchar\n"),
    }
}
