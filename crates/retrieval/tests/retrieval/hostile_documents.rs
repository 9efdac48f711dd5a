//! Files that were made to do harm are refused or read, in bounded time and memory.

use std::{collections::BTreeMap, io::Write as _, time::Instant};

use ghostlight_retrieval::{
    chunking::{Chunk, Chunker, Structure},
    citations::{DEFAULT_SUPPORT, Support, check},
    readers::{PdfReader, ReaderError, Readers, SourceFile, pdf_text, serve_pdf},
};

use crate::readers_give_text::docx;

async fn read(name: &str, bytes: impl Into<Vec<u8>>) -> Result<String, ReaderError> {
    let begun = Instant::now();
    let read = Readers::default().read(SourceFile::new(name, bytes)).await;
    assert!(begun.elapsed().as_secs() < 60, "{name}");
    read.map(|document| document.text)
}

#[tokio::test]
async fn a_page_of_a_million_tags_is_text() {
    let deep = format!("{}needle", "<div><b>".repeat(200_000));
    assert!(read("deep.html", deep).await.unwrap().ends_with("needle"));
    let open = read(
        "open.html",
        "text <p a=\"".to_owned() + &"<".repeat(1 << 20),
    )
    .await;
    assert_eq!(open.unwrap(), "text");
    let script = read(
        "script.html",
        "<script>".to_owned() + &"<!--<script>".repeat(10_000),
    )
    .await;
    assert_eq!(script.unwrap(), "");
    let ends = read(
        "ends.html",
        "</pre></script></h1></title>".repeat(10_000) + "seen",
    )
    .await;
    assert!(ends.unwrap().contains("seen"));
}

#[tokio::test]
async fn an_archive_that_unpacks_to_anything_is_refused() {
    let bomb = docx(&"<w:p></w:p>".repeat(8 << 20));
    assert!(bomb.len() < 1 << 20);
    assert!(matches!(
        read("bomb.docx", bomb).await,
        Err(ReaderError::TooLarge(_))
    ));
    assert!(matches!(
        read("no.docx", "PK\u{3}\u{4}").await,
        Err(ReaderError::Malformed(_))
    ));
    assert_eq!(
        read("old.docx", b"\xd0\xcf\x11\xe0rest").await,
        Err(ReaderError::Encrypted)
    );
    // An entity that would be a billion times itself is no name of XML's, and nothing is put in its place.
    let entity = docx("<w:p><w:r><w:t>a&lol;b</w:t></w:r></w:p>");
    assert_eq!(read("entity.docx", entity).await.unwrap(), "ab\n\n");
}

#[tokio::test]
async fn a_table_whose_names_are_longer_than_its_values_is_bounded() {
    let table = format!("{}\n{}", "n".repeat(100_000), "1\n".repeat(1000));
    assert!(matches!(
        read("t.csv", table).await,
        Err(ReaderError::TooLarge(_))
    ));
    assert_eq!(
        read("quote.csv", "a,b\n\"open,1\n").await.unwrap(),
        "a: open,1\n\n"
    );
}

/// Ended by a closing bracket, each of these was a citation of all that came after it: minutes for this text.
#[test]
fn many_open_brackets_are_no_citations_and_take_no_time() {
    let sources = BTreeMap::from([("a1", "parcels are brought by noon")]);
    let answer = format!(
        "{}a1]. Parcels are brought by noon. [a1]",
        "[a1,".repeat(50_000)
    );
    let checked = check(&answer, &sources, DEFAULT_SUPPORT);
    let last = checked.last().unwrap();
    assert_eq!(
        (last.labels.as_slice(), &last.support),
        (&[String::from("a1")][..], &Support::Supported)
    );
}

/// Each of these took minutes: the parser walked through all that is nested for each line, and the whole word was walked
/// through for each piece of it.
#[test]
fn a_text_that_nests_or_never_ends_a_word_is_cut_in_bounded_time() {
    let lines = "a\n".repeat(100_000);
    let grown = |mark: &str, indent: &str| -> String {
        let line = |depth: usize| format!("{}{}a\n", indent.repeat(depth * 50), mark.repeat(50));
        (0..60).map(line).collect()
    };
    for (structure, text) in [
        (
            Structure::Markdown,
            format!("{}a\n{lines}", ">".repeat(300_000)),
        ),
        (
            Structure::Markdown,
            format!("{}a\n{lines}", "> ".repeat(150_000)),
        ),
        (
            Structure::Markdown,
            format!("{}a\n{lines}", "- ".repeat(150_000)),
        ),
        (
            Structure::Markdown,
            format!("{}a\n{lines}", "1. ".repeat(100_000)),
        ),
        (
            Structure::Markdown,
            format!("{}a\n{lines}", "> - ".repeat(75_000)),
        ),
        (
            Structure::Markdown,
            format!("{}a\n{lines}", "[^a]: ".repeat(75_000)),
        ),
        (Structure::Markdown, format!("{}{lines}", grown("- ", "  "))),
        (Structure::Markdown, format!("{}{lines}", grown(">", ">"))),
        (Structure::Markdown, "a".repeat(1 << 20)),
        (Structure::Text, "_a".repeat(1 << 19)),
        (Structure::Sentences, "e\u{301}".repeat(1 << 18)),
        (Structure::Code, "{".repeat(1 << 20)),
    ] {
        let begun = Instant::now();
        let chunks = Chunker::new(structure, 1_500).overlap(150).chunks(&text);
        let what = &text[..10];
        assert!(begun.elapsed().as_secs() < 20, "{structure:?} {what}");
        let words = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
        let cut: usize = chunks.iter().map(|chunk| words(&chunk.text)).sum();
        assert!(cut >= words(&text), "{structure:?} {what}");
        let is_there = |chunk: &Chunk| text[chunk.range.clone()] == chunk.text;
        assert!(chunks.iter().all(is_there), "{structure:?} {what}");
    }
}

/// A PDF with these objects, from 1, of which the first is its root.
fn pdf(objects: &[String]) -> Vec<u8> {
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (place, object) in objects.iter().enumerate() {
        places.push(file.len());
        write!(file, "{} 0 obj\n{object}\nendobj\n", place + 1).unwrap();
    }
    let table = file.len();
    write!(file, "xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).unwrap();
    for place in places {
        writeln!(file, "{place:010} 00000 n ").unwrap();
    }
    let size = objects.len() + 1;
    write!(
        file,
        "trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n"
    )
    .unwrap();
    file
}

/// A page that draws this, and can draw what object 6 is.
fn page(contents: &str, form: &str) -> Vec<u8> {
    let stream = |dictionary: &str, said: &str| {
        format!(
            "<< {dictionary} /Length {} >>\nstream\n{said}\nendstream",
            said.len()
        )
    };
    pdf(&[
        String::from("<< /Type /Catalog /Pages 2 0 R >>"),
        String::from("<< /Type /Pages /Kids [3 0 R] /Count 1 >>"),
        String::from(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R \
             /Resources << /Font << /F 5 0 R >> /XObject << /X 6 0 R >> >> >>",
        ),
        stream("", contents),
        String::from("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"),
        stream("/Type /XObject /Subtype /Form /BBox [0 0 9 9]", form),
    ])
}

/// Two pages that show these, in hexadecimal, the first with this font.
fn pages(font: &str, first: &str, second: &str) -> Vec<u8> {
    let stream = |said: &str| {
        let said = format!("BT /F 12 Tf 10 100 Td <{said}> Tj ET");
        format!("<< /Length {} >>\nstream\n{said}\nendstream", said.len())
    };
    let page = |contents: u32, font: u32| {
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents {contents} 0 R \
             /Resources << /Font << /F {font} 0 R >> >> >>"
        )
    };
    pdf(&[
        String::from("<< /Type /Catalog /Pages 2 0 R >>"),
        String::from("<< /Type /Pages /Kids [3 0 R 4 0 R] /Count 2 >>"),
        page(5, 7),
        page(6, 8),
        stream(first),
        stream(second),
        font.to_owned(),
        String::from("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"),
        String::from(
            "<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Song /W [1 [500]] \
             /CIDSystemInfo << /Registry (Adobe) /Ordering (GB1) /Supplement 2 >> /FontDescriptor 10 0 R >>",
        ),
        String::from("<< /Type /FontDescriptor /FontName /Song >>"),
    ])
}

#[test]
fn a_font_that_is_not_embedded_is_read_by_the_name_of_its_encoding() {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    for (encoding, said, code) in [
        (
            "UniGB-UCS2-H",
            "\u{4f60}\u{597d}",
            hex(&[0x4f, 0x60, 0x59, 0x7d]),
        ),
        ("UniJIS-UTF16-H", "\u{65e5}", hex(&[0x65, 0xe5])),
        ("GBK-EUC-H", "a\u{4f60}\u{597d}", hex(b"a\xc4\xe3\xba\xc3")),
        ("90ms-RKSJ-H", "\u{65e5}b\u{ff71}", hex(b"\x93\xfab\xb1")),
        ("ETen-B5-V", "\u{4f60}", hex(&[0xa7, 0x41])),
        ("KSCms-UHC-H", "\u{d55c}", hex(&[0xc7, 0xd1])),
    ] {
        let font = format!(
            "<< /Type /Font /Subtype /Type0 /BaseFont /Song /Encoding /{encoding} /DescendantFonts [9 0 R] >>"
        );
        let read = pdf_text(&pages(&font, &code, &hex(b"behind"))).unwrap();
        assert_eq!(
            read.split_whitespace().collect::<String>(),
            format!("{said}behind"),
            "{encoding}"
        );
    }
}

#[test]
fn a_font_that_does_not_read_costs_only_its_page() {
    let hex = |text: &str| -> String { text.bytes().map(|byte| format!("{byte:02x}")).collect() };
    let font = "<< /Type /Font /Subtype /Type0 /BaseFont /Song /Encoding /Klingon-H /DescendantFonts [9 0 R] >>";
    let read = pdf_text(&pages(font, "0001", &hex("behind"))).unwrap();
    assert!(
        read.contains("(Page 1 does not read") && read.contains("behind"),
        "{read}"
    );
    assert!(pdf_text(b"%PDF-1.4 nonsense").is_err());
}

fn answer(bytes: &[u8]) -> String {
    let mut answer = Vec::new();
    serve_pdf(bytes, &mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_process_says_the_text_of_a_pdf_or_why_there_is_none() {
    let said = answer(&page(
        "BT /F 12 Tf 10 100 Td (Parcels come by noon) Tj ET",
        "",
    ));
    assert!(said.starts_with("\0ghostlight pdf text\0"), "{said:?}");
    assert!(said.contains("Parcels come by noon"), "{said:?}");
    // The reader that asked says that it is damaged.
    let why = answer(b"no pdf");
    assert!(why.starts_with("\0ghostlight pdf error\0"), "{why:?}");
    assert!(!why.contains("damaged"), "{why:?}");
}

/// What a process writes is all that is known of it, so it is played by a shell.
#[cfg(unix)]
#[tokio::test]
async fn whatever_becomes_of_the_process_is_an_error_of_one_file() {
    let with = |script: &str| Readers::none().with(PdfReader::new("/bin/sh", ["-c", script]));
    let read = async |script: &str| {
        let read = with(script)
            .read(SourceFile::new("a.pdf", vec![b'x'; 1 << 20]))
            .await;
        read.map(|document| document.text)
    };
    let text = "cat > /dev/null; echo noise; printf '\\000ghostlight pdf text\\000the text'";
    assert_eq!(read(text).await.unwrap(), "the text");
    let encrypted = "printf '\\000ghostlight pdf error\\000encrypted'";
    assert_eq!(read(encrypted).await, Err(ReaderError::Encrypted));
    let overflow = read("kill -SEGV $$").await;
    assert!(
        matches!(overflow, Err(ReaderError::Malformed(_))),
        "{overflow:?}"
    );
    let endless = read("printf '\\000ghostlight pdf text\\000'; yes").await;
    assert!(
        matches!(endless, Err(ReaderError::TooLarge(_))),
        "{endless:?}"
    );
    let none = Readers::none().with(PdfReader::new("/no/such/program", [""; 0]));
    let failed = none.read(SourceFile::new("a.pdf", "")).await.unwrap_err();
    assert!(failed.is_retryable() && failed.to_string().contains("/no/such/program"));
}
