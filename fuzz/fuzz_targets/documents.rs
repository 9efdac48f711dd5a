//! No file makes a reader or the chunker panic. Each chunk is a part of the text and no larger than asked, and nothing
//! but white space is in none.
#![no_main]

use std::{io::Write as _, sync::LazyLock};

use ghostlight_retrieval::{
    chunking::{Chunker, Structure},
    readers::{MAX_TEXT_BYTES, Readers, SourceFile},
};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().build();
    runtime.unwrap_or_else(|error| panic!("{error}"))
});

const KINDS: [&str; 8] = ["txt", "md", "rs", "html", "csv", "tsv", "docx", "xml of docx"];

fuzz_target!(|input: (u8, u8, u8, &[u8])| {
    let (kind, max, overlap, bytes) = input;
    let kind = KINDS[usize::from(kind) % KINDS.len()];
    let (name, bytes) = match kind {
        "xml of docx" => ("f.docx".to_owned(), archive(bytes)),
        kind => (format!("f.{kind}"), bytes.to_vec()),
    };
    let Ok(document) = RUNTIME.block_on(Readers::default().read(SourceFile::new(name, bytes))) else { return };
    assert!(document.text.len() <= MAX_TEXT_BYTES);
    let (max, text) = (usize::from(max).max(1), &*document.text);
    let chunks = Chunker::new(document.structure, max).overlap(usize::from(overlap)).chunks(text);
    let mut covered = vec![false; text.len()];
    for chunk in &chunks {
        assert_eq!(text.get(chunk.range.clone()), Some(&*chunk.text));
        assert!(chunk.text.chars().count() <= max, "{} > {max}", chunk.text.chars().count());
        assert!(chunk.line <= text.lines().count().max(1));
        covered[chunk.range.clone()].fill(true);
    }
    // Front matter and link definitions of Markdown are in no chunk.
    if document.structure != Structure::Markdown {
        let mut left = text.char_indices().filter(|(at, _)| !covered[*at]);
        assert!(left.all(|(_, character)| character.is_whitespace()));
    }
});

/// A word processor's file around this XML.
fn archive(xml: &[u8]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let begun = archive.start_file("word/document.xml", stored);
    begun.unwrap_or_else(|error| panic!("{error}"));
    archive.write_all(xml).unwrap_or_else(|error| panic!("{error}"));
    archive.finish().unwrap_or_else(|error| panic!("{error}")).into_inner()
}
