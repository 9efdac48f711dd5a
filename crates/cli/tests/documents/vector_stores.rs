//! Every store of vectors keeps the same promises: the one in memory, and the one in PostgreSQL with pgvector.

use std::{
    collections::BTreeSet,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ghostlight::{
    config,
    documents::{DocumentSpec, IndexedFolder, PostgresVectors, VectorStoreSpec},
    models::{EmbedderSpec, Secret},
    retrieval::{
        LexicalEmbedder,
        index::{
            InMemoryVectors, Index, IndexError, Query, Ranked, SyncOptions, VectorId, VectorStore,
            VectorStoreError,
        },
        readers::Readers,
        searching::Searcher,
        vectors::Scan,
    },
};
use ghostlight_actors::contract::{EmbedderHandle, EmbeddingKind, EmbeddingSpace};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use crate::{
    folder::Folder,
    server::{QUICK, Server, versions, with_vectors},
};

fn spec(url: &str, table: &str) -> VectorStoreSpec {
    let mut spec = VectorStoreSpec::new(Secret::value(url));
    table.clone_into(&mut spec.table);
    spec
}

fn space(name: &str, dimension: usize) -> EmbeddingSpace {
    EmbeddingSpace::new(name, dimension, EmbeddingKind::Semantic)
}

fn store(url: &str, table: &str, dimension: usize) -> PostgresVectors {
    PostgresVectors::new(&spec(url, table), &space("a model", dimension)).unwrap()
}

fn server() -> Option<Server> {
    Some(Server::of(with_vectors()?, &QUICK))
}

fn id(number: usize) -> VectorId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&(number as u64).to_be_bytes());
    VectorId(id)
}

fn ids(numbers: impl IntoIterator<Item = usize>) -> BTreeSet<VectorId> {
    numbers.into_iter().map(id).collect()
}

/// The promises of a store of vectors of three numbers, which is empty.
async fn keeps_its_promises(store: &impl VectorStore) {
    let near = async |vector: [f32; 3], limit: usize, within: Option<BTreeSet<VectorId>>| {
        let vector = vector.to_vec();
        let within = within.map(Arc::new);
        let exact = store.nearest(vector.clone(), limit, Scan::Exact, within.clone());
        let exact = exact.await.unwrap();
        // There are so few that an estimate misses none.
        let estimated = store.nearest(vector, limit, Scan::Approximate, within);
        assert_eq!(estimated.await.unwrap(), exact);
        exact
    };
    let firsts = |hits: &[(VectorId, f32)]| hits.iter().map(|hit| hit.0).collect::<Vec<_>>();
    assert_eq!(store.ids().await.unwrap(), BTreeSet::new());
    assert!(near([1.0, 0.0, 0.0], 5, None).await.is_empty());
    // The length of a vector is of no account.
    let kept = [
        (id(1), vec![10.0, 0.0, 0.0]),
        (id(2), vec![0.1, 0.1, 0.0]),
        (id(3), vec![0.0, 3.0, 0.0]),
        (id(4), vec![-1.0, 0.0, 0.0]),
        (id(5), vec![0.0, 0.0, 0.0]),
    ];
    store.put(kept.to_vec()).await.unwrap();
    store.put(kept[..2].to_vec()).await.unwrap();
    store.put(Vec::new()).await.unwrap();
    assert_eq!(store.ids().await.unwrap(), ids(1..=5));
    let all = near([2.0, 0.5, 0.0], 10, None).await;
    assert_eq!(firsts(&all), [id(1), id(2), id(3), id(5), id(4)]);
    let cosines = [0.970_14, 0.857_49, 0.242_54, 0.0, -0.970_14];
    for ((_, score), cosine) in all.iter().zip(cosines) {
        assert!((score - cosine).abs() < 1e-4, "{score} and not {cosine}");
    }
    let query = [2.0, 0.5, 0.0];
    assert_eq!(firsts(&near(query, 2, None).await), [id(1), id(2)]);
    assert!(near(query, 0, None).await.is_empty());
    let some = near(query, 1, Some(ids([3, 4, 99]))).await;
    assert_eq!(firsts(&some), [id(3)]);
    assert!(near(query, 5, Some(BTreeSet::new())).await.is_empty());
    // The last of two vectors of an id counts, in one call and in two.
    let twice = vec![(id(1), vec![0.0, 0.0, 1.0]), (id(1), vec![0.0, -1.0, 0.0])];
    store.put(twice).await.unwrap();
    let best = near([0.0, -1.0, 0.0], 1, None).await;
    assert_eq!(firsts(&best), [id(1)]);
    assert_eq!(store.ids().await.unwrap().len(), 5);
    store.remove(vec![id(1), id(77)]).await.unwrap();
    store.remove(Vec::new()).await.unwrap();
    assert_eq!(store.ids().await.unwrap(), ids(2..=5));
    // The store refuses vectors of another length and numbers that are none, and says so.
    for wrong in [vec![1.0, 2.0], vec![1.0; 4], vec![f32::NAN, 0.0, 1.0]] {
        let put = store.put(vec![(id(9), wrong.clone())]).await;
        assert!(put.is_err(), "{wrong:?}");
        let asked = store.nearest(wrong.clone(), 3, Scan::Exact, None).await;
        assert!(asked.is_err(), "{wrong:?}");
    }
    assert_eq!(store.ids().await.unwrap(), ids(2..=5));
}

#[tokio::test]
async fn vectors_in_memory_keep_the_promises_of_a_store() {
    keeps_its_promises(&InMemoryVectors::new(3)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_in_postgresql_keep_the_promises_of_a_store() {
    let Some(server) = server() else { return };
    keeps_its_promises(&store(&server.url(), "a_table", 3)).await;
    // A second process finds them, also where the extension has a schema of its own.
    let again = store(&server.url(), "a_table", 3);
    assert_eq!(again.ids().await.unwrap(), ids(2..=5));
    let url = server.database("elsewhere");
    let other = Command::new(with_vectors().unwrap().join("psql"))
        .args([&url, "-qc"])
        .arg("CREATE SCHEMA \"Odd Place\"; CREATE EXTENSION vector SCHEMA \"Odd Place\"")
        .output()
        .unwrap();
    assert!(other.status.success(), "{other:?}");
    keeps_its_promises(&store(&url, "a_table", 3)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_ten_thousand_vectors_an_exact_search_finds_all_and_an_estimate_most() {
    const DIMENSION: usize = 32;
    let Some(server) = server() else { return };
    let (stored, own) = (
        store(&server.url(), "many", DIMENSION),
        InMemoryVectors::new(DIMENSION),
    );
    let mut random = StdRng::seed_from_u64(74);
    let mut vector = || -> Vec<f32> {
        (0..DIMENSION)
            .map(|_| random.random_range(-1.0..1.0))
            .collect()
    };
    for batch in 0..20 {
        let batch: Vec<_> = (batch * 500..(batch + 1) * 500)
            .map(|number| (id(number), vector()))
            .collect();
        own.put(batch.clone()).await.unwrap();
        stored.put(batch).await.unwrap();
    }
    assert_eq!(stored.ids().await.unwrap(), ids(0..10_000));
    let within = Arc::new(ids((0..10_000).step_by(3)));
    let (mut hits, mut all) = (0, 0);
    for _ in 0..20 {
        let query = vector();
        for within in [None, Some(within.clone())] {
            let exact = own.nearest(query.clone(), 10, Scan::Exact, within.clone());
            let exact = ids_of(exact.await.unwrap());
            let found = stored.nearest(query.clone(), 10, Scan::Exact, within);
            assert_eq!(ids_of(found.await.unwrap()), exact);
        }
        let exact = own.nearest(query.clone(), 10, Scan::Exact, None).await;
        let exact: BTreeSet<VectorId> = ids_of(exact.unwrap()).into_iter().collect();
        let found = stored.nearest(query, 10, Scan::Approximate, None).await;
        let found = ids_of(found.unwrap());
        hits += found.iter().filter(|id| exact.contains(id)).count();
        all += exact.len();
    }
    assert!(hits * 20 >= all * 19, "only {hits} of {all} were found");
    let client = server.client().await;
    let size = "SELECT pg_relation_size('many_vector_idx') > 1000000";
    let is_filled: bool = client.query_one(size, &[]).await.unwrap().get(0);
    assert!(is_filled, "the graph holds the vectors");
}

fn ids_of(hits: Vec<(VectorId, f32)>) -> Vec<VectorId> {
    hits.into_iter().map(|hit| hit.0).collect()
}

fn many_documents(name: &str) -> Folder {
    let folder = Folder::new(name);
    for number in 0..1_200 {
        let text = format!("# Thing {number}\n\nThe lamp of room {number} is old.");
        folder.write(&format!("{number}.md"), text);
    }
    folder.write("kettle.md", "# Kettle\n\nThe kettle whistles.");
    folder
}

/// Vectors in PostgreSQL, whose server is killed before it gets the second batch.
#[derive(Clone)]
struct Killed {
    vectors: PostgresVectors,
    server: Arc<Server>,
    puts: Arc<AtomicUsize>,
}

impl VectorStore for Killed {
    async fn ids(&self) -> Result<BTreeSet<VectorId>, VectorStoreError> {
        self.vectors.ids().await
    }

    async fn put(&self, vectors: Vec<(VectorId, Vec<f32>)>) -> Result<(), VectorStoreError> {
        if self.puts.fetch_add(1, Ordering::Relaxed) == 1 {
            self.server.crash();
        }
        self.vectors.put(vectors).await
    }

    async fn remove(&self, ids: Vec<VectorId>) -> Result<(), VectorStoreError> {
        self.vectors.remove(ids).await
    }

    async fn nearest(
        &self,
        vector: Vec<f32>,
        limit: usize,
        scan: Scan,
        within: Option<Arc<BTreeSet<VectorId>>>,
    ) -> Result<Vec<(VectorId, f32)>, VectorStoreError> {
        self.vectors.nearest(vector, limit, scan, within).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_in_a_sync_leaves_the_words_and_gets_the_rest_later() {
    let Some(programs) = with_vectors() else {
        return;
    };
    let server = Arc::new(Server::of(programs, &["max_connections = 50"]));
    let embedder: EmbedderHandle = LexicalEmbedder::new(64).into();
    let vectors = PostgresVectors::new(&spec(&server.url(), "killed"), embedder.space()).unwrap();
    let killed = Killed {
        vectors: vectors.clone(),
        server: server.clone(),
        puts: Arc::default(),
    };
    let folder = many_documents("killed");
    let path = folder.path().join("the.index");
    let index = Index::open_with(path, embedder, killed).await.unwrap();
    let options = SyncOptions::default();
    let failed = index.sync(folder.docs(), &options, |_| {}).await;
    let failed = failed.unwrap_err();
    assert!(matches!(failed, IndexError::Vectors { .. }), "{failed:?}");
    assert!(failed.to_string().contains("127.0.0.1"), "{failed}");

    let searcher = Searcher::new(index.clone());
    let query = Query::new("whistling kettle").limit(1);
    let result = searcher.search(&query).await.unwrap();
    assert_eq!(&*result.found[0].document, "kettle.md");
    assert!(!result.left_out.is_empty());

    server.restart();
    assert_eq!(vectors.ids().await.unwrap().len(), 500);
    let report = index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!(report.embedded, 0);
    assert_eq!(vectors.ids().await.unwrap().len(), 1_201);
    let result = searcher.search(&query.ranked(Ranked::Vectors)).await;
    assert_eq!(&*result.unwrap().found[0].document, "kettle.md");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_dimensions_other_embedders_and_tables_of_others_are_refused_and_left() {
    let Some(server) = server() else { return };
    let first = store(&server.url(), "letters", 3);
    first.put(vec![(id(1), vec![1.0, 0.0, 0.0])]).await.unwrap();
    let odd = "it's \"odd\" \\ $1 %I; DROP TABLE letters; --";
    for (space, told) in [
        (
            space("a model", 4),
            "vectors of 3 numbers by a model, and the embedder gives 4 numbers",
        ),
        (space(odd, 3), odd),
    ] {
        let other = PostgresVectors::new(&spec(&server.url(), "letters"), &space).unwrap();
        let refused = other.ids().await.unwrap_err().to_string();
        assert!(refused.contains(told), "{refused}");
        assert!(refused.contains("name another table"), "{refused}");
    }
    assert_eq!(first.ids().await.unwrap(), ids([1]));
    // A name of a space is a text like any other, and a table that is cleared takes other vectors.
    let other = PostgresVectors::new(&spec(&server.url(), "letters"), &space(odd, 4)).unwrap();
    other.clear().await.unwrap();
    other.put(vec![(id(2), vec![1.0; 4])]).await.unwrap();
    assert_eq!(other.ids().await.unwrap(), ids([2]));

    server.sql("CREATE TABLE people (id bytea, vector text); INSERT INTO people VALUES ('x', 'y')");
    let foreign = store(&server.url(), "people", 3);
    let refused = foreign.ids().await.unwrap_err().to_string();
    assert!(refused.contains("left as it is"), "{refused}");
    foreign.clear().await.unwrap_err();
    let there = server.client().await;
    let there = there.query_one("SELECT count(*) FROM people", &[]).await;
    assert_eq!(there.unwrap().get::<_, i64>(0), 1);

    // A table that somebody dropped is made again.
    server.sql("DROP TABLE letters");
    other.ids().await.unwrap_err();
    assert_eq!(other.ids().await.unwrap(), BTreeSet::new());
}

#[test]
fn a_name_that_is_none_of_a_table_is_refused_before_it_is_used() {
    let long = "a".repeat(49);
    for table in [
        "",
        "Upper",
        "1st",
        "_x",
        "a-b",
        "a.b",
        "a\"; DROP TABLE x; --",
        "ä",
        "a b",
        "a\0",
        &long,
    ] {
        let spec = spec("postgres://localhost/x", table);
        let refused = PostgresVectors::new(&spec, &space("a model", 3)).unwrap_err();
        assert!(refused.contains("is not a name"), "{refused}");
    }
    for dimension in [0, 16_001] {
        let spec = spec("postgres://localhost/x", "x");
        let refused = PostgresVectors::new(&spec, &space("a model", dimension)).unwrap_err();
        assert!(refused.contains("1 to 16000"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_pgvector_says_what_to_install_and_no_error_tells_a_password() {
    let nowhere = store(
        "postgres://me:hunter2@127.0.0.1:1/x?sslmode=disable",
        "t",
        3,
    );
    let away = nowhere.ids().await.unwrap_err().to_string();
    assert!(away.contains("127.0.0.1:1"), "{away}");
    assert!(!format!("{away} {nowhere:?} {}", nowhere.place()).contains("hunter2"));
    let Some(with) = with_vectors() else { return };
    let plain = versions().into_iter().find(|programs| *programs != with);
    let Some(plain) = plain else { return };
    let server = Server::of(plain, &QUICK);
    let lacking = store(&server.url(), "t", 3).ids().await.unwrap_err();
    assert!(
        lacking.to_string().contains("install pgvector"),
        "{lacking}"
    );
}

fn lexical() -> EmbedderSpec {
    EmbedderSpec::default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_file_names_a_store_and_an_outage_leaves_the_words() {
    let team = |vectors: &str| {
        format!(
            "name: x\ntools:\n  docs:\n    kind: document_search\n    folder: /\n    index: ./x.index\n    {vectors}\n\
             agent: {{ name: a, tools: [docs] }}\n"
        )
    };
    let at = "vectors: { postgres: \"${PATH}\"";
    for (vectors, told) in [
        (format!("{at} }}"), "embedder"),
        (format!("embedder: {{ provider: lexical }}\n    {at}, table: A }}"), "is not a name"),
        (format!("embedder: {{ provider: lexical }}\n    {at}, tabel: a }}"), "tabel"),
        ("vectors: { postgres: \"${GHOSTLIGHT_TEST_NO_SUCH_VARIABLE}\" }\n    embedder: { provider: lexical }".to_owned(), "environment variable"),
    ] {
        let refused = match config::parse(team(&vectors), "team.yaml") {
            Ok(team) => team.resolve(ghostlight::builtin()).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(refused.contains(told), "{vectors}: {refused}");
        assert!(refused.contains("team.yaml:"), "{refused}");
    }

    let Some(server) = server() else { return };
    let folder = Folder::new("team-vectors");
    folder.write("tea.md", "# Tea\n\nGreen tea is steeped.");
    let mut spec = DocumentSpec::new(folder.docs());
    spec.embedder = Some(lexical());
    spec.refresh = Duration::ZERO;
    spec.vectors = Some(VectorStoreSpec::new(Secret::value(server.url())));
    let no_index = IndexedFolder::new(spec.clone(), Readers::default()).unwrap_err();
    assert!(no_index.contains("they need `index`"), "{no_index}");
    spec.index = Some(folder.path().join("the.index"));
    let documents = IndexedFolder::new(spec, Readers::default()).unwrap();
    let query = Query::new("steeped tea").limit(1);
    let searcher = documents.searcher().await.unwrap();
    let by_vectors = query.clone().ranked(Ranked::Vectors);
    let found = searcher.search(&by_vectors).await.unwrap().found;
    assert_eq!(&*found[0].document, "tea.md");

    server.crash();
    folder.write("bikes.md", "# Bikes\n\nChains are oiled.");
    let searcher = documents.searcher().await.unwrap();
    let result = searcher.search(&Query::new("oiled chains").limit(1)).await;
    let result = result.unwrap();
    assert_eq!(&*result.found[0].document, "bikes.md");
    assert!(
        result.left_out[0].contains("store of the vectors"),
        "{:?}",
        result.left_out
    );
    server.restart();
    let searcher = documents.searcher().await.unwrap();
    let oiled = Query::new("oiled chains").limit(1).ranked(Ranked::Vectors);
    let found = searcher.search(&oiled).await.unwrap().found;
    assert_eq!(&*found[0].document, "bikes.md");
}

#[test]
fn the_command_keeps_and_searches_vectors_in_a_table() {
    let Some(server) = server() else { return };
    let folder = Folder::new("command-vectors");
    folder.write("tea.md", "# Tea\n\nGreen tea is steeped.");
    let ghostlight = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ghostlight"));
        command
            .args(arguments)
            .current_dir(folder.path())
            .env_remove("GHOSTLIGHT_EMBEDDER")
            .env("GHOSTLIGHT_VECTORS", server.url())
            .env("GHOSTLIGHT_INDEX", folder.path().join("the.index"))
            .env("XDG_DATA_HOME", folder.path());
        let output = command.output().unwrap();
        let said = [&*output.stdout, &*output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let table = ["--vector-table", "handbook"];
    let (code, said) =
        ghostlight(&[&["docs", "index", "docs", "--statistics"][..], &table].concat());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(" 0 bytes of vectors in memory"), "{said}");
    server.sql("DO $$ BEGIN ASSERT (SELECT count(*) FROM handbook) = 1; END $$");
    let search = ["docs", "search", "steeped", "--vectors"];
    let (code, said) = ghostlight(&[&search[..], &table].concat());
    assert!(code == Some(0) && said.contains("tea.md"), "{said}");
    let (code, said) = ghostlight(&[&search[..], &["--vector-table", "Hand\"book"]].concat());
    assert!(code == Some(2) && said.contains("is not a name"), "{said}");
    // Another embedder is refused until the index is emptied, and its table with it.
    let other = ["--embedder", "openai:other:8"];
    let (code, said) = ghostlight(&[&["docs", "index", "docs"][..], &table, &other].concat());
    assert!(code == Some(2) && said.contains("--empty"), "{said}");
    let emptied = [
        &["docs", "index", "--remove", "nothing", "--empty"][..],
        &table,
    ]
    .concat();
    ghostlight(&emptied);
    server.sql("DO $$ BEGIN ASSERT to_regclass('handbook') IS NULL; END $$");
}
