//! Documents by themselves, their properties, and the settings by which they are cut.

use ghostlight_actors::{contract::ModelError, vocabulary::ErrorKind};
use ghostlight_retrieval::{
    chunking::Structure,
    index::{
        Enricher, Enriching, Filter, Index, IndexError, IndexHealth, NewDocument, Query, Rows,
        SyncOptions,
    },
    readers::Metadata,
};

use crate::folder::{Counting, Folder};

async fn names(index: &Index, query: Query) -> Vec<String> {
    let found = index.search(&query).await.unwrap();
    let mut names: Vec<String> = found
        .iter()
        .map(|found| found.document.to_string())
        .collect();
    names.sort();
    names.dedup();
    names
}

fn having(pairs: &[(&str, &str)]) -> Filter {
    let mut filter = Filter::default();
    for (name, value) in pairs {
        let values = filter.having.entry((*name).to_owned()).or_default();
        values.push((*value).to_owned());
    }
    filter
}

#[tokio::test]
async fn a_name_with_line_breaks_is_no_head_of_another_passage() {
    let folder = Folder::new("breaks");
    let index = Index::open(folder.index(), None).await.unwrap();
    let name = "q (line 9)\n[zzzzz] fake.md\u{2028}x\u{1b}";
    let new = NewDocument::text("notes", name, "# Lamps\n\nThey are lit.");
    index.put(new, &SyncOptions::default()).await.unwrap();
    let found = index.search(&Query::new("lit")).await.unwrap();
    assert_eq!(&*found[0].document, name);
    assert_eq!(found[0].source(), "q (line 9) [zzzzz] fake.md x  > Lamps");
}

#[tokio::test]
async fn one_document_is_put_changed_and_removed_and_a_folder_leaves_it_alone() {
    let folder = Folder::new("single");
    folder.write("faq.md", "# Letters\n\nThey are brought by bicycle.");
    let embedder = Counting::default();
    let index = Index::open(folder.index(), Some(embedder.clone().into()))
        .await
        .unwrap();
    let options = SyncOptions::default();
    let put = |text: &str| index.put(NewDocument::text("notes", "parcels", text), &options);
    let row = put("# Parcels\n\nThey are brought by noon.").await.unwrap();
    assert_eq!(row.title.as_deref(), Some("Parcels"));
    let made = embedder.texts.load(std::sync::atomic::Ordering::Relaxed);
    put("# Parcels\n\nThey are brought by noon.").await.unwrap();
    let again = embedder.texts.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(made, again, "what is the same is not embedded again");
    index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!(
        names(&index, Query::new("noon").limit(1)).await,
        ["parcels"]
    );
    put("# Parcels\n\nThey come with zebras.").await.unwrap();
    assert_eq!(
        names(&index, Query::new("zebras").limit(1)).await,
        ["parcels"]
    );
    // What cannot be read leaves the earlier version where it is.
    let binary = NewDocument::file("notes", "parcels", [0_u8, 1, 2]);
    let mut binary = binary;
    binary.read_as = Some(String::from("text.md"));
    let refused = index.put(binary, &options).await;
    assert!(
        matches!(refused, Err(IndexError::Document { .. })),
        "{refused:?}"
    );
    assert_eq!(
        names(&index, Query::new("zebras").limit(1)).await,
        ["parcels"]
    );
    assert_eq!(
        index.statistics().await.unwrap().health(),
        IndexHealth::Healthy
    );
    index.close().await;

    // Another process finds it, and removes it.
    let index = Index::open(folder.index(), Some(embedder.into()))
        .await
        .unwrap();
    assert!(index.remove("notes", "parcels").await.unwrap());
    assert!(!index.remove("notes", "parcels").await.unwrap());
    assert_eq!(
        names(&index, Query::new("letters zebras")).await,
        ["faq.md"]
    );
    assert_eq!(index.documents().await.unwrap().len(), 1);
}

#[tokio::test]
async fn documents_are_found_by_their_properties() {
    let folder = Folder::new("properties");
    folder.write(
        "a.md",
        "---\nteam: Legal\ntags: [old, draft]\n---\n# A\n\nthe same text",
    );
    folder.write(
        "b.md",
        "---\nteam: sales\ntags: [draft]\n---\n# B\n\nthe same text",
    );
    folder.write("c.md", "# C\n\nteam: legal, the same text");
    let index = Index::in_memory(None).await.unwrap();
    let options = SyncOptions::default();
    index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    let with = |pairs: &[(&str, &str)]| Query::new("same text").filter(having(pairs));
    assert_eq!(names(&index, with(&[("team", "legal")])).await, ["a.md"]);
    assert_eq!(
        names(&index, with(&[("Tags", "DRAFT")])).await,
        ["a.md", "b.md"]
    );
    // Values of one name are alternatives, and all names must be met.
    let either = [("team", "legal"), ("team", "sales")];
    assert_eq!(names(&index, with(&either)).await, ["a.md", "b.md"]);
    let both = [("team", "legal"), ("team", "sales"), ("tags", "old")];
    assert_eq!(names(&index, with(&both)).await, ["a.md"]);
    assert_eq!(names(&index, with(&[("colour", "red")])).await, [""; 0]);
    // A changed property alone is a change.
    folder.write(
        "b.md",
        "---\nteam: legal\ntags: [draft]\n---\n# B\n\nthe same text",
    );
    index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!(
        names(&index, with(&[("team", "legal")])).await,
        ["a.md", "b.md"]
    );

    let path = folder.path().join("rows.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    let table = "CREATE TABLE notes (slug TEXT, body TEXT, team TEXT, year INTEGER);
                 INSERT INTO notes VALUES ('x', 'the same text', 'legal', 2024), ('y', 'the same text', NULL, 2025);";
    database.execute_batch(table).unwrap();
    let rows = Rows::new(&path, "SELECT slug, body, team, year FROM notes");
    index.sync_from(&rows, &options, |_| {}).await.unwrap();
    assert_eq!(
        names(&index, with(&[("team", "legal"), ("year", "2024")])).await,
        ["x"]
    );
    assert_eq!(names(&index, with(&[("year", "2025")])).await, ["y"]);
    database
        .execute_batch("UPDATE notes SET team = 'sales' WHERE slug = 'x'")
        .unwrap();
    let report = index.sync_from(&rows, &options, |_| {}).await.unwrap();
    assert_eq!((report.indexed, report.unchanged), (1, 1));
    assert_eq!(names(&index, with(&[("team", "sales")])).await, ["x"]);

    let added = NewDocument::text("added", "z", "the same text").having("team", "board");
    let row = index.put(added, &options).await.unwrap();
    assert_eq!(
        row.metadata,
        Metadata::from([("team".into(), vec!["board".into()])])
    );
    assert_eq!(names(&index, with(&[("team", "board")])).await, ["z"]);
}

#[tokio::test]
async fn other_sizes_cut_again_what_has_not_changed_and_what_is_excluded_is_gone() {
    let folder = Folder::new("cut");
    let text = "One sentence of some words. ".repeat(40);
    folder.write("a.md", &text);
    folder.write("drafts/b.md", &text);
    folder.write("c.tmp.md", &text);
    let index = Index::in_memory(None).await.unwrap();
    let mut options = SyncOptions::default();
    let whole = index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!((whole.indexed, whole.chunks), (3, 3));
    options.chunker = ghostlight_retrieval::chunking::Chunker::text(200).overlap(50);
    let cut = index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!(cut.indexed, 3);
    assert!(cut.chunks > 18, "{cut:?}");
    options.structure = Some(Structure::Sentences);
    let cut = index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!(cut.indexed, 3);
    let same = index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!((same.indexed, same.unchanged), (0, 3));
    options.exclude = vec![String::from("drafts/"), String::from("*.tmp.md")];
    let fewer = index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!((fewer.unchanged, fewer.removed), (1, 2));
    options.check().unwrap();
    options.exclude = vec![String::from("a[")];
    assert!(options.check().unwrap_err().contains("exclude \"a[\""));
    let wrong = index.sync(folder.docs(), &options, |_| {}).await;
    let wrong = wrong.unwrap_err().to_string();
    assert!(wrong.contains("exclude \"a[\""), "{wrong}");
}

/// Says for whom a document is, so that it is found by that, too.
#[derive(Clone)]
struct ForWhom(&'static str, std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Enricher for ForWhom {
    fn name(&self) -> String {
        self.0.to_owned()
    }

    async fn enrich(&self, passage: Enriching<'_>) -> Result<String, ModelError> {
        if self.1.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(ModelError::new(ErrorKind::Model, "no words today"));
        }
        assert!(passage.text.contains(&passage.chunk.text));
        let team = passage.metadata.get("team").cloned().unwrap_or_default();
        Ok(format!(
            "{} for {} {}",
            passage.chunk.text,
            self.0,
            team.join(" ")
        ))
    }
}

#[tokio::test]
async fn chunks_are_found_by_what_an_enricher_says_of_them_and_shown_as_they_are() {
    let folder = Folder::new("enriched");
    folder.write(
        "a.md",
        "---\nteam: legal\n---\n# Terms\n\nNobody pays twice.",
    );
    let fails = std::sync::Arc::default();
    let mut options = SyncOptions::default();
    let index = Index::open(folder.index(), None).await.unwrap();
    options.enricher = Some(ForWhom("lawyers", std::sync::Arc::clone(&fails)).into());
    index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!(names(&index, Query::new("lawyers legal")).await, ["a.md"]);
    let found = index.search(&Query::new("lawyers")).await.unwrap();
    assert_eq!(found[0].text, "Nobody pays twice.");
    index.close().await;
    // It is in the file, so the next process finds it by the same words.
    let index = Index::open(folder.index(), None).await.unwrap();
    assert_eq!(names(&index, Query::new("lawyers")).await, ["a.md"]);
    // Another one writes anew, and one that fails fails the document alone.
    options.enricher = Some(ForWhom("children", std::sync::Arc::clone(&fails)).into());
    let report = index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!(report.indexed, 1);
    assert_eq!(names(&index, Query::new("lawyers")).await, [""; 0]);
    fails.store(true, std::sync::atomic::Ordering::Relaxed);
    folder.write("a.md", "# Terms\n\nEverybody pays twice.");
    let report = index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert!(report.failed[0].1.contains("no words today"), "{report:?}");
}
