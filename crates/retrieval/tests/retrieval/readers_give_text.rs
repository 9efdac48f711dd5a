//! Each format is read to text that can be searched.

use std::io::{Cursor, Write as _};

use ghostlight_retrieval::{
    chunking::Structure,
    readers::{Document, Reader, ReaderError, Readers, SourceFile},
};

async fn read(name: &str, bytes: impl Into<Vec<u8>>) -> Result<Document, ReaderError> {
    Readers::default().read(SourceFile::new(name, bytes)).await
}

/// A document of a word processor with this as its body.
pub(crate) fn docx(body: &str) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    archive.start_file("word/document.xml", options).unwrap();
    let xml = format!(
        "<?xml version=\"1.0\"?><w:document xmlns:w=\"w\"><w:body>{body}</w:body></w:document>"
    );
    archive.write_all(xml.as_bytes()).unwrap();
    archive.finish().unwrap().into_inner()
}

#[tokio::test]
async fn markdown_and_code_keep_their_structure() {
    let page = read("a/b/guide.md", "# Guide\n\ntext").await.unwrap();
    assert_eq!(page.title.as_deref(), Some("Guide"));
    assert_eq!(page.structure, Structure::Markdown);
    assert_eq!(
        read("main.rs", "fn main() {}").await.unwrap().structure,
        Structure::Code
    );
    assert_eq!(
        read("README", "text").await.unwrap().structure,
        Structure::Text
    );
    assert_eq!(read("photo.jpeg", "x").await, Err(ReaderError::Unknown));
}

#[tokio::test]
async fn html_is_read_as_markdown() {
    let page = "<!doctype html><html><head><title>Par&shy;cels &amp; more</title><style>p { x: y }</style>\
        <script>document.write('<p>never</p>')</script></head><body><h1>Parcels</h1><p>They come\n  by <b>noon</b>,\
        or&nbsp;later.</p><ul><li><p>one</p><li>two</ul><pre>let x = 1;\n  y</pre><svg/><template>no</template>\
        <table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table><p>end &lt;tag&gt;<textarea><p>no</p></textarea>";
    let read = read("page.HTML", page).await.unwrap();
    assert_eq!(read.title.as_deref(), Some("Par\u{ad}cels & more"));
    assert_eq!(
        read.text,
        "# Parcels\n\nThey come by noon,or later.\n\n- one\n- two\n\n```\nlet x = 1;\n  y\n```\n\na b\nc\n\nend <tag>"
    );
}

#[tokio::test]
async fn tables_name_each_value() {
    let table = "city, people\nBern,134000\n\"Le Locle, NE\",\nBasel,173000,extra\n";
    let text = read("cities.csv", table).await.unwrap().text;
    assert_eq!(
        text,
        "city: Bern\npeople: 134000\n\ncity: Le Locle, NE\n\ncity: Basel\npeople: 173000\nextra\n\n"
    );
    assert_eq!(
        read("t.tsv", "a\tb\n1\t2\n").await.unwrap().text,
        "a: 1\nb: 2\n\n"
    );
}

#[tokio::test]
async fn documents_of_word_processors_are_read() {
    let body = "<w:p><w:pPr><w:pStyle w:val=\"Heading2\"/></w:pPr><w:r><w:t>Fees &amp; fines</w:t></w:r></w:p>\
        <w:p><w:r><w:t xml:space=\"preserve\">Ten </w:t></w:r><w:r><w:t>euros</w:t><w:tab/><w:t>&#233;</w:t></w:r>\
        <w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p><w:p/>";
    let text = read("fees.docx", docx(body)).await.unwrap().text;
    assert_eq!(text, "## Fees & fines\n\nTen euros\té\n\n");
}

#[tokio::test]
async fn encodings_are_recognised() {
    let utf16: Vec<u8> = "\u{feff}Zürich"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(read("a.txt", utf16).await.unwrap().text, "Zürich");
    assert_eq!(
        read("a.txt", b"\xef\xbb\xbfZ\xc3\xbcrich")
            .await
            .unwrap()
            .text,
        "Zürich"
    );
    assert_eq!(read("a.txt", b"Z\xfcrich").await.unwrap().text, "Zürich");
    assert_eq!(
        read("a.txt", b"\x00\x01\x02").await,
        Err(ReaderError::NotText)
    );
}

#[tokio::test]
async fn a_reader_of_ones_own_goes_first_and_may_panic() {
    struct Own;
    impl Reader for Own {
        fn reads(&self, name: &str) -> bool {
            name.ends_with(".md")
        }
        async fn read(&self, file: SourceFile) -> Result<Document, ReaderError> {
            assert!(file.bytes.is_empty(), "a bug of its own");
            Ok(Document {
                text: String::from("own"),
                ..Document::default()
            })
        }
    }
    let readers = Readers::default().with(Own);
    assert_eq!(
        readers
            .read(SourceFile::new("a.md", ""))
            .await
            .unwrap()
            .text,
        "own"
    );
    let gave_up = readers.read(SourceFile::new("a.md", "x")).await;
    assert!(
        matches!(gave_up, Err(ReaderError::Malformed(_))),
        "{gave_up:?}"
    );
}
