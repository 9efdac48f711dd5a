//! How fast documents are indexed and searched: vectors exactly and approximately, words, and the folder that becomes an
//! index.
//!
//!     cargo bench --features full --bench search            # 100,000 chunks
//!     cargo bench --features full --bench search -- 5000
//!
//! The texts and the vectors are made here, always the same ones, so nothing is downloaded. A text has words of a
//! vocabulary of 30,000 by Zipf's law; a question has six words that stand together in a text, without the 50 most
//! frequent, which stand for stop words. A vector is the sum of four of 4,096 directions with the weights 1, 1/2, 1/3 and
//! 1/4, and noise; a question's vector is made like it, of the directions of a stored one. The floors: a plain loop over
//! the vectors, and SQLite's FTS5 over the same chunks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod shared;

use std::{
    collections::BTreeSet,
    fs,
    hint::black_box,
    path::{Path, PathBuf},
};

use ghostlight::retrieval::{
    LexicalEmbedder,
    chunking::Chunker,
    index::{Index, Query, Ranked, SyncOptions},
    vectors::{Scan, VectorIndex},
};
use mimalloc::MiMalloc;
use shared::{Quartiles, Round, alternately, round};
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const DIMENSION: usize = 384;
/// How many are asked for.
const BEST: usize = 10;
/// How many questions a round asks.
const QUESTIONS: usize = 50;
/// Chunks of a document, and words of a chunk.
const DOCUMENT: (usize, usize) = (20, 80);
const VOCABULARY: usize = 30_000;
/// The most frequent words, of which no question is made.
const FREQUENT: usize = 50;
const DIRECTIONS: usize = 4_096;

/// Numbers that are the same in each run of the bench (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About normally distributed, with the mean 0 and the deviation 1.
    fn normal(&mut self) -> f32 {
        let sum: f64 = (0..12).map(|_| self.share()).sum();
        (sum - 6.0) as f32
    }
}

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|x| *x /= length);
    vector
}

/// What is searched by vectors, and the questions.
struct Vectors {
    stored: Vec<Vec<f32>>,
    questions: Vec<Vec<f32>>,
}

fn vectors(count: usize) -> Vectors {
    let mut numbers = Numbers(1);
    let directions: Vec<Vec<f32>> = (0..DIRECTIONS)
        .map(|_| unit((0..DIMENSION).map(|_| numbers.normal()).collect()))
        .collect();
    let of = |topics: [usize; 4], numbers: &mut Numbers| {
        let noise = 0.4 / (DIMENSION as f32).sqrt();
        let mut sum: Vec<f32> = (0..DIMENSION).map(|_| noise * numbers.normal()).collect();
        for (place, topic) in topics.into_iter().enumerate() {
            let weight = 1.0 / (place + 1) as f32;
            let each = sum.iter_mut().zip(&directions[topic]);
            each.for_each(|(sum, direction)| *sum += weight * direction);
        }
        unit(sum)
    };
    let topics: Vec<[usize; 4]> = (0..count)
        .map(|_| [0; 4].map(|_| numbers.below(DIRECTIONS)))
        .collect();
    let stored = topics.iter().map(|topics| of(*topics, &mut numbers));
    let stored = stored.collect();
    let asked = (0..QUESTIONS).map(|_| {
        let topics = topics[numbers.below(count)];
        of(topics, &mut numbers)
    });
    let questions = asked.collect();
    Vectors { stored, questions }
}

/// The ten greatest dot products, as a program without an index computes them.
fn by_hand(stored: &[f32], question: &[f32]) -> Vec<usize> {
    let mut best: Vec<(f32, usize)> = Vec::with_capacity(BEST + 1);
    for (place, vector) in stored.chunks_exact(DIMENSION).enumerate() {
        let mut lanes = [0.0_f32; 16];
        for (a, b) in vector.chunks_exact(16).zip(question.chunks_exact(16)) {
            for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
                *lane += a * b;
            }
        }
        let product: f32 = lanes.iter().sum();
        if best.len() < BEST || best.last().is_some_and(|(least, _)| product > *least) {
            let at = best.partition_point(|(other, _)| *other >= product);
            best.insert(at, (product, place));
            best.truncate(BEST);
        }
    }
    best.into_iter().map(|(_, place)| place).collect()
}

/// So many questions, one after the other.
fn asking<T>(questions: &[T], mut ask: impl FnMut(&T) -> usize) -> Round {
    round(questions.len() as u32, || {
        for question in questions {
            black_box(ask(question));
        }
    })
}

fn search_vectors(count: usize, rounds: usize) {
    let Vectors { stored, questions } = vectors(count);
    let mut index = VectorIndex::new(DIMENSION);
    for vector in &stored {
        index.add(vector).unwrap();
    }
    let flat: Vec<f32> = stored.concat();
    drop(stored);
    println!(
        "{count} vectors of {DIMENSION} numbers, {} bytes of memory each",
        index.bytes_per_vector()
    );
    let ask = |question: &[f32], scan| {
        let found = index.search_where(question, BEST, scan, |_| true).unwrap();
        found.iter().map(|hit| hit.place).collect::<Vec<_>>()
    };
    let exact = |question: &Vec<f32>| ask(question, Scan::Exact).len();
    let nearest = |question: &Vec<f32>| ask(question, Scan::Approximate).len();
    let (mut found, mut same) = (0, 0);
    for question in &questions {
        let right: BTreeSet<usize> = by_hand(&flat, question).into_iter().collect();
        same += usize::from(right == ask(question, Scan::Exact).into_iter().collect());
        let near = ask(question, Scan::Approximate);
        found += near.iter().filter(|place| right.contains(place)).count();
    }
    println!(
        "recall of the approximate search {:.3}; the exact one agrees with the loop in {same} of {QUESTIONS}",
        found as f64 / (QUESTIONS * BEST) as f64
    );
    let loops = || asking(&questions, |question| by_hand(&flat, question).len());
    let compared = alternately(rounds, loops, || asking(&questions, exact));
    compared.print("vectors, exact; floor: a loop by hand");
    let compared = alternately(
        rounds,
        || asking(&questions, exact),
        || asking(&questions, nearest),
    );
    compared.print("vectors, approximate; floor: exact");
}

/// A made-up word. Its length does not tell how frequent it is.
fn word(number: usize) -> String {
    const SOUNDS: [&str; 24] = [
        "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu",
        "va", "we", "xi", "yo", "zu", "bra", "cle", "dri", "flo",
    ];
    let mut rest = (number * 7_919) % VOCABULARY + 576;
    let mut word = String::new();
    while rest > 0 {
        word.push_str(SOUNDS[rest % 24]);
        rest /= 24;
    }
    word
}

/// Documents in a folder, the same chunks as rows, and questions.
struct Texts {
    folder: PathBuf,
    rows: Vec<String>,
    questions: Vec<String>,
    documents: usize,
    bytes: u64,
}

fn texts(folder: &Path, count: usize) -> Texts {
    let mut numbers = Numbers(2);
    let words: Vec<String> = (0..VOCABULARY).map(word).collect();
    // Zipf's law: the word of rank n is n times as rare as the first one.
    let mut above = 0.0;
    let upto: Vec<f64> = (1..=VOCABULARY)
        .map(|rank| {
            above += 1.0 / rank as f64;
            above
        })
        .collect();
    let mut drawn = || {
        let at = numbers.share() * above;
        upto.partition_point(|upto| *upto < at).min(VOCABULARY - 1)
    };
    let chunks: Vec<Vec<usize>> = (0..count)
        .map(|_| (0..DOCUMENT.1).map(|_| drawn()).collect())
        .collect();
    let said = |ranks: &[usize]| {
        let said: Vec<&str> = ranks.iter().map(|rank| words[*rank].as_str()).collect();
        said.join(" ")
    };
    let rows: Vec<String> = chunks.iter().map(|ranks| said(ranks)).collect();
    let mut numbers = Numbers(3);
    let questions = (0..QUESTIONS).map(|_| {
        let chunk = &chunks[numbers.below(count)];
        let telling: Vec<usize> = chunk.iter().copied().filter(|r| *r >= FREQUENT).collect();
        let at = numbers.below(telling.len().saturating_sub(6).max(1));
        said(&telling[at..(at + 6).min(telling.len())])
    });
    let questions = questions.collect();
    let folder = folder.join("documents");
    fs::create_dir_all(&folder).unwrap();
    let (mut documents, mut bytes) = (0, 0);
    for sections in rows.chunks(DOCUMENT.0) {
        let mut text = String::new();
        for (place, section) in sections.iter().enumerate() {
            text.push_str(&format!("## Section {place}\n\n{section}\n\n"));
        }
        bytes += text.len() as u64;
        fs::write(folder.join(format!("d{documents:05}.md")), text).unwrap();
        documents += 1;
    }
    Texts {
        folder,
        rows,
        questions,
        documents,
        bytes,
    }
}

fn fts5(file: &Path, rows: &[String]) -> rusqlite::Connection {
    let mut connection = rusqlite::Connection::open(file).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = wal; CREATE VIRTUAL TABLE chunks USING fts5(text, tokenize = 'porter')",
        )
        .unwrap();
    let all = connection.transaction().unwrap();
    for row in rows {
        let mut insert = all
            .prepare_cached("INSERT INTO chunks VALUES (?1)")
            .unwrap();
        insert.execute([row]).unwrap();
    }
    all.commit().unwrap();
    connection
}

/// Reads the folder into an index in a new file.
fn indexed(runtime: &Runtime, texts: &Texts, file: PathBuf, vectors: bool) -> Index {
    let embedder = vectors.then(|| LexicalEmbedder::new(DIMENSION).into());
    let mut options = SyncOptions::default();
    // Each section is a chunk of its own.
    options.chunker = Chunker::text(700);
    runtime.block_on(async {
        let index = Index::open(file, embedder).await.unwrap();
        let report = index.sync(&texts.folder, &options, |_| {}).await.unwrap();
        assert_eq!(report.indexed, texts.documents);
        index
    })
}

/// The bytes of a database with what stands beside it.
fn bytes_of(file: &Path) -> u64 {
    let beside = ["", "-wal"].map(|end| PathBuf::from(format!("{}{end}", file.display())));
    let sizes = beside.iter().filter_map(|file| fs::metadata(file).ok());
    sizes.map(|file| file.len()).sum()
}

fn tell_indexing(what: &str, texts: &Texts, rounds: &[Round], file: &Path) {
    let each = rounds.iter().map(|round| round.wall / 1e6);
    let took = Quartiles::of(each).1 * texts.documents as f64;
    println!(
        "{what}: {:.0} documents a second, {:.1} MB a second, {:.0} bytes a chunk on disk",
        texts.documents as f64 / took,
        texts.bytes as f64 / 1e6 / took,
        bytes_of(file) as f64 / texts.rows.len() as f64,
    );
}

fn search_texts(runtime: &Runtime, folder: &Path, count: usize, rounds: usize) {
    let texts = texts(folder, count);
    println!(
        "{} documents of {} sections, {:.1} MB",
        texts.documents,
        DOCUMENT.0,
        texts.bytes as f64 / 1e6
    );
    let units = texts.documents as u32;
    for (name, vectors) in [
        ("an index of words", false),
        ("an index of words and lexical vectors", true),
    ] {
        let (mut bare, mut index) = (None, None);
        let [floor_file, our_file] =
            ["floor", "ours"].map(|side| folder.join(format!("{side}-{vectors}")));
        let fresh = |file: &Path| {
            for end in ["", "-wal", "-shm"] {
                let _ = fs::remove_file(format!("{}{end}", file.display()));
            }
        };
        let compared = alternately(
            rounds.div_ceil(5),
            || {
                drop(bare.take());
                fresh(&floor_file);
                round(units, || bare = Some(fts5(&floor_file, &texts.rows)))
            },
            || {
                if let Some(index) = index.take() {
                    runtime.block_on(async move { Index::close(&index).await });
                }
                fresh(&our_file);
                round(units, || {
                    index = Some(indexed(runtime, &texts, our_file.clone(), vectors));
                })
            },
        );
        tell_indexing("FTS5, from memory", &texts, &compared.floor, &floor_file);
        tell_indexing(name, &texts, &compared.ours, &our_file);
        let (Some(bare), Some(index)) = (bare, index) else {
            continue;
        };
        let size = runtime.block_on(index.statistics()).unwrap();
        println!("{name}: {} chunks", size.chunks);
        if !vectors {
            search_words(runtime, (&bare, &index), &texts, rounds);
        }
        runtime.block_on(index.close());
    }
}

fn search_words(
    runtime: &Runtime,
    (bare, index): (&rusqlite::Connection, &Index),
    texts: &Texts,
    rounds: usize,
) {
    let sql = "SELECT text FROM chunks WHERE chunks MATCH ?1 ORDER BY bm25(chunks) LIMIT ?2";
    let mut statement = bare.prepare(sql).unwrap();
    let mut floor = |question: &String| {
        let words: Vec<&str> = question.split(' ').collect();
        let found = statement.query_map((words.join(" OR "), BEST as i64), |row| {
            row.get::<_, String>(0)
        });
        found.unwrap().map(Result::unwrap).count()
    };
    let mut ours = |question: &String| {
        let query = Query::new(question.as_str()).ranked(Ranked::Words);
        let found = runtime.block_on(index.search(&query.limit(BEST)));
        found.unwrap().len()
    };
    let compared = alternately(
        rounds,
        || asking(&texts.questions, &mut floor),
        || asking(&texts.questions, &mut ours),
    );
    compared.print("words, BM25; floor: FTS5");
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let count = asked.iter().find_map(|text| text.parse().ok());
    let count: usize = count.unwrap_or(100_000);
    let rounds = 11;
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    search_vectors(count, rounds);
    let folder = std::env::temp_dir().join(format!("ghostlight-search-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    search_texts(&runtime, &folder, count, rounds);
    // The folder is the bench's own.
    fs::remove_dir_all(folder).unwrap();
}
