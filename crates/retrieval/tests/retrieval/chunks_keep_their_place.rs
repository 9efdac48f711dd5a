//! A chunk is a part of its text, says where it stands, and nothing between the chunks is lost.

use std::time::Instant;

use ghostlight_retrieval::chunking::{Chunk, Chunker, MAX_HEADING_CHARS, Structure};
use proptest::prelude::*;

const STRUCTURES: [Structure; 4] = [
    Structure::Text,
    Structure::Sentences,
    Structure::Markdown,
    Structure::Code,
];

fn shown(chunks: &[Chunk]) -> Vec<(String, usize, &str)> {
    let shown = chunks
        .iter()
        .map(|chunk| (chunk.headings.join(" > "), chunk.line, &*chunk.text));
    shown.collect()
}

#[test]
fn markdown_is_cut_at_its_headings() {
    let text = "---\ntitle: x\n---\nIntro\n# Guide\n\n## Start ##\nRun it.\n```sh\n# no heading\n```\n\
                ## Stop\nHalt.\n\nOther\n=====\n#hash\n\n> # quoted\n> text\n";
    let chunks = Chunker::markdown(1000).chunks(text);
    let expected = [
        ("", 4, "Intro"),
        ("Guide > Start", 8, "Run it.\n```sh\n# no heading\n```"),
        ("Guide > Stop", 13, "Halt."),
        ("Other", 17, "#hash\n\n> # quoted\n> text"),
    ];
    let expected = expected.map(|(headings, line, text)| (headings.to_owned(), line, text));
    assert_eq!(shown(&chunks), expected);
}

#[test]
fn code_is_cut_between_items_and_says_what_encloses() {
    let text = "use std::io;\n\n/// Adds.\nfn add(a: u8, b: u8) -> u8 {\n    a + b\n}\n\nimpl Sum {\n    fn one(&self) {\n\
                \x20       self.first();\n    }\n\n    fn two(&self) {\n        self.second();\n    }\n}\n";
    let chunks = Chunker::code(70).chunks(text);
    let expected = [
        (
            "",
            1,
            "use std::io;\n\n/// Adds.\nfn add(a: u8, b: u8) -> u8 {\n    a + b\n}",
        ),
        (
            "",
            8,
            "impl Sum {\n    fn one(&self) {\n        self.first();\n    }",
        ),
        (
            "impl Sum",
            13,
            "    fn two(&self) {\n        self.second();\n    }\n}",
        ),
    ];
    let expected = expected.map(|(headings, line, text)| (headings.to_owned(), line, text));
    assert_eq!(shown(&chunks), expected);
    let python = "def add(a, b):\n    return a + b\n\n@cached\ndef sub(a, b):\n    return a - b\n";
    let chunks = Chunker::code(45).chunks(python);
    assert_eq!(chunks[1].text, "@cached\ndef sub(a, b):\n    return a - b");
}

#[test]
fn sentences_stay_whole_in_every_script() {
    let text =
        "He came at 3.5 p.m. today. She left! 今日は晴れです。明日は雨でしょう。هل تعمل؟ نعم. 👩‍👩‍👧‍👦👩‍👩‍👧‍👦";
    let chunks = Chunker::sentences(27).chunks(text);
    let texts: Vec<&str> = chunks.iter().map(|chunk| &*chunk.text).collect();
    assert_eq!(
        texts,
        [
            "He came at 3.5 p.m. today.",
            "She left! 今日は晴れです。明日は雨でしょう。",
            "هل تعمل؟ نعم.",
            "👩‍👩‍👧‍👦👩‍👩‍👧‍👦"
        ]
    );
    // A family is seven characters for a computer, and one for people.
    let families = Chunker::text(10).chunks("👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦");
    assert!(
        families.iter().all(|chunk| chunk.text == "👩‍👩‍👧‍👦"),
        "{families:?}"
    );
    assert_eq!(families.len(), 3);
}

#[test]
fn a_chunk_begins_with_what_overlaps_and_keeps_its_size() {
    let text = "one two three four five six seven eight nine ten";
    let chunks = Chunker::text(20).overlap(8).chunks(text);
    let texts: Vec<&str> = chunks.iter().map(|chunk| &*chunk.text).collect();
    assert_eq!(
        texts,
        [
            "one two",
            "one two three four",
            "four five six",
            "six seven eight",
            "eight nine ten"
        ]
    );
    assert!(texts.iter().all(|text| text.chars().count() <= 20));
}

#[test]
fn sizes_can_be_counted_in_anything() {
    let text = "日本語。テキスト。text.";
    let chunks = Chunker::sentences(15).measured_by(str::len).chunks(text);
    let texts: Vec<&str> = chunks.iter().map(|chunk| &*chunk.text).collect();
    assert_eq!(texts, ["日本語。", "テキスト。", "text."]);
}

#[test]
fn a_heading_without_bound_is_cut_and_shared() {
    let text = format!("# {}\n{}", "ä ".repeat(1000), "line\n\n".repeat(1000));
    let found = Chunker::markdown(20).chunks(&text);
    assert!(found.len() > 100);
    for chunk in &found {
        assert!(std::sync::Arc::ptr_eq(&chunk.headings, &found[0].headings));
    }
    let title = &found[0].headings[0];
    assert_eq!(title.chars().count(), MAX_HEADING_CHARS);
    assert!(title.ends_with('…'));
}

/// Much of what makes a parser slow or deep.
#[test]
fn a_hostile_text_is_cut_like_any_other() {
    let much = |piece: &str| piece.repeat((1 << 15) / piece.len());
    for text in [
        much("x"),
        much("> "),
        much("[ "),
        much("* a\n  "),
        much("`"),
        much("#\n"),
        much("\u{301}"),
        much("<a "),
        much("|"),
        much("\n"),
    ] {
        for structure in STRUCTURES {
            let begun = Instant::now();
            let chunks = Chunker::new(structure, 2000).chunks(&text);
            assert!(
                chunks
                    .iter()
                    .all(|chunk| chunk.text.chars().count() <= 2000)
            );
            let (start, took) = (&text[..2], begun.elapsed().as_secs());
            assert!(took < 20, "{structure:?} of {start:?} took {took} s");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn chunks_are_parts_in_order_within_the_size(
        text in "([a-zA-Z0-9]{1,8}|[ \n#>`*.-]|\r\n|[\u{e4}\u{3042}\u{4e2d}\u{5d0}\u{1f600}\u{200d}\u{301}]|\n\n|# |```\n|    ){0,120}",
        max in 1_usize..60,
        overlap in 0_usize..40,
        structure in prop::sample::select(&STRUCTURES[..]),
    ) {
        let chunker = Chunker::new(structure, max).overlap(overlap);
        let chunks = chunker.chunks(&text);
        let mut covered = vec![false; text.len()];
        let mut end = 0;
        for chunk in &chunks {
            prop_assert_eq!(&text[chunk.range.clone()], &chunk.text);
            prop_assert!(!chunk.text.trim().is_empty());
            prop_assert!(chunk.text.chars().count() <= max);
            prop_assert_eq!(chunk.line, 1 + text[..chunk.range.start].matches('\n').count());
            prop_assert!(chunk.range.end > end);
            prop_assert!(overlap > 0 || chunk.range.start >= end);
            end = chunk.range.end;
            covered[chunk.range.clone()].fill(true);
        }
        // Headings and front matter of Markdown stand in no chunk.
        if structure != Structure::Markdown {
            for (place, character) in text.char_indices() {
                prop_assert!(character.is_whitespace() || covered[place], "{} at {}", character, place);
            }
        }
    }
}
