//! A sync does what changed and nothing else, one document at a time.

use std::sync::atomic::Ordering;

use ghostlight_retrieval::{
    index::{DocumentStatus, Index, IndexError, Query, SyncOptions, SyncReport},
    readers::{Document, Reader, ReaderError, Readers, SourceFile},
};

use crate::folder::{Counting, Folder};

async fn sync(index: &Index, folder: &Folder) -> SyncReport {
    index
        .sync(folder.docs(), &SyncOptions::default(), |_| {})
        .await
        .unwrap()
}

async fn found(index: &Index, text: &str) -> Vec<String> {
    let found = index.search(&Query::new(text)).await.unwrap();
    found
        .iter()
        .map(|found| found.document.to_string())
        .collect()
}

#[tokio::test]
async fn only_what_changed_is_read_and_embedded() {
    let folder = Folder::new("changes");
    folder.write(
        "a.md",
        "# Parcels\n\nBrought by noon.\n\n# Letters\n\nBrought by bicycle.",
    );
    folder.write("deep/er/b.txt", "Elephants are heavy.");
    folder.write("c.py", "def answer():\n    return 42\n");
    let embedder = Counting::default();
    let index = Index::open(folder.index(), Some(embedder.clone().into()))
        .await
        .unwrap();
    let first = sync(&index, &folder).await;
    assert_eq!((first.indexed, first.unchanged, first.removed), (3, 0, 0));
    assert_eq!((first.chunks, first.embedded), (4, 4));
    assert!(first.failed.is_empty() && first.bytes > 80);
    assert_eq!(found(&index, "elephant").await[0], "deep/er/b.txt");

    let texts = embedder.texts.load(Ordering::Relaxed);
    let second = sync(&index, &folder).await;
    assert_eq!(
        (second.indexed, second.unchanged, second.removed),
        (0, 3, 0)
    );
    assert_eq!(embedder.texts.load(Ordering::Relaxed), texts);

    // One of two chunks is another one; the vector of the other is used again.
    folder.write(
        "a.md",
        "# Parcels\n\nBrought by noon.\n\n# Letters\n\nBrought by giraffe, these days.",
    );
    std::fs::remove_file(folder.docs().join("deep/er/b.txt")).unwrap();
    let third = sync(&index, &folder).await;
    assert_eq!(
        (
            third.indexed,
            third.unchanged,
            third.removed,
            third.embedded
        ),
        (1, 1, 1, 1)
    );
    assert_eq!(found(&index, "giraffe").await[0], "a.md");
    assert!(
        !found(&index, "elephants heavy")
            .await
            .contains(&String::from("deep/er/b.txt"))
    );
    assert!(
        !found(&index, "bicycle")
            .await
            .contains(&String::from("b.txt"))
    );
    let statistics = index.statistics().await.unwrap();
    assert_eq!(
        (statistics.documents, statistics.failed, statistics.chunks),
        (2, 0, 3)
    );
    // What was just written stands in the log beside the file.
    assert!(statistics.file_bytes > statistics.text_bytes + statistics.vector_bytes);
}

#[tokio::test]
async fn a_document_that_fails_is_told_and_fails_alone() {
    let folder = Folder::new("failures");
    folder.write("good.md", "good text");
    folder.write("bad.txt", b"\x00\x01");
    folder.write("large.txt", "x".repeat(1000));
    let index = Index::open(folder.index(), None).await.unwrap();
    let mut options = SyncOptions::default();
    options.max_file_bytes = 999;
    let mut told = Vec::new();
    let report = index
        .sync(folder.docs(), &options, |progress| told.push(progress))
        .await
        .unwrap();
    assert_eq!(report.indexed, 1);
    let failed: Vec<&str> = report.failed.iter().map(|(name, _)| &**name).collect();
    assert_eq!(failed, ["bad.txt", "large.txt"]);
    assert!(
        report.failed[1].1.contains("999 bytes"),
        "{:?}",
        report.failed
    );
    assert_eq!(
        (
            told.len(),
            told.last().unwrap().done,
            told.last().unwrap().all
        ),
        (3, 3, 3)
    );
    // It is still told, although the files are the same and are not read again.
    let again = index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!(again.failed, report.failed);
    folder.write("bad.txt", "now it is text");
    let mended = sync(&index, &folder).await;
    assert_eq!(mended.failed.len(), 0, "{:?}", mended.failed);
    assert_eq!(found(&index, "now text").await[0], "bad.txt");
    // What cannot be read any more is found no more.
    folder.write("good.md", b"\x00");
    let report = sync(&index, &folder).await;
    assert_eq!(report.failed[0].0, "good.md");
    assert!(found(&index, "good").await.is_empty());
    let rows = index.documents().await.unwrap();
    assert!(
        matches!(rows[1].status, DocumentStatus::Failed { retry: false, .. }),
        "{rows:?}"
    );
}

/// Fails as often as it is told to.
struct Shaky(std::sync::Arc<std::sync::atomic::AtomicUsize>);

impl Reader for Shaky {
    fn reads(&self, _: &str) -> bool {
        true
    }

    async fn read(&self, file: SourceFile) -> Result<Document, ReaderError> {
        let left = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        match left {
            Ok(_) => Err(ReaderError::Failed(String::from("not now"))),
            Err(_) => Ok(Document {
                text: String::from_utf8(file.bytes).unwrap(),
                ..Document::default()
            }),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_go_well_later_is_tried_again() {
    let folder = Folder::new("retries");
    folder.write("a.txt", "text");
    let index = Index::open(folder.index(), None).await.unwrap();
    let left = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(2));
    let mut options = SyncOptions::default();
    options.readers = Readers::none().with(Shaky(left.clone()));
    let report = index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!((report.indexed, report.failed.len()), (1, 0));
    // After three attempts it is left for the next sync.
    folder.write("a.txt", "another text");
    left.store(3, Ordering::Relaxed);
    let report = index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!(report.failed.len(), 1);
    let report = index.sync(folder.docs(), &options, |_| {}).await.unwrap();
    assert_eq!((report.indexed, report.failed.len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_sync_without_vectors_stops_and_goes_on_later() {
    let folder = Folder::new("down");
    for number in 0..10 {
        folder.write(&format!("{number}.txt"), format!("text number {number}"));
    }
    let embedder = Counting::default();
    let index = Index::open(folder.index(), Some(embedder.clone().into()))
        .await
        .unwrap();
    embedder.is_down.store(true, Ordering::Relaxed);
    let failed = index
        .sync(folder.docs(), &SyncOptions::default(), |_| {})
        .await
        .unwrap_err();
    assert!(matches!(failed, IndexError::Embedder(_)), "{failed}");
    embedder.is_down.store(false, Ordering::Relaxed);
    assert_eq!(sync(&index, &folder).await.indexed, 10);
}

#[tokio::test]
async fn a_sync_that_is_broken_off_goes_on_where_it_was() {
    let folder = Folder::new("broken_off");
    for number in 0..40 {
        folder.write(&format!("{number}.txt"), format!("text number {number}"));
    }
    let index = Index::open(folder.index(), None).await.unwrap();
    let options = SyncOptions::default();
    let (sender, mut done) = tokio::sync::mpsc::unbounded_channel();
    tokio::select! {
        _ = index.sync(folder.docs(), &options, |progress| sender.send(progress.done).unwrap()) => panic!("too fast"),
        _ = async { while done.recv().await.unwrap() < 10 {} } => {}
    }
    let report = sync(&index, &folder).await;
    assert!(report.unchanged >= 10, "{report:?}");
    assert_eq!(report.indexed + report.unchanged, 40);
}

#[tokio::test]
async fn the_innermost_pattern_that_fits_decides_whether_a_file_is_left_out() {
    let folder = Folder::new("patterns");
    let above = folder.docs().parent().unwrap().join(".ignore");
    std::fs::write(above, "*.log\n/docs/above.txt\n").unwrap();
    folder.write(".gitignore", "# drafts\n*.txt\n!kept.txt\nbuild/\na[\n");
    folder.write("deep/.gitignore", "!*.txt\n/kept.txt\n");
    let [mut left_out, mut kept] = [Vec::new(), Vec::new()];
    for (name, is_kept) in [
        ("above.txt", false),
        ("a.txt", false),
        ("a.md", true),
        ("a.log", false),
        ("kept.txt", true),
        ("build/kept.txt", false),
        ("deep/a.txt", true),
        ("deep/kept.txt", false),
        ("deep/er/kept.txt", true),
        ("deep/a.log", false),
    ] {
        folder.write(name, "text");
        [&mut left_out, &mut kept][usize::from(is_kept)].push(name);
    }
    let index = Index::in_memory(None).await.unwrap();
    sync(&index, &folder).await;
    let mut names = found(&index, "text").await;
    names.sort();
    kept.sort();
    assert_eq!(names, kept, "left out: {left_out:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_outside_of_the_folder_is_read() {
    let folder = Folder::new("links");
    std::fs::write(folder.path().join("secret.txt"), "the secret").unwrap();
    folder.write("a.txt", "text");
    folder.write(".hidden.txt", "hidden");
    folder.write("ignored.txt", "ignored");
    folder.write(".gitignore", "ignored.txt");
    std::os::unix::fs::symlink(
        folder.path().join("secret.txt"),
        folder.docs().join("link.txt"),
    )
    .unwrap();
    std::os::unix::fs::symlink(folder.path(), folder.docs().join("up")).unwrap();
    std::os::unix::fs::symlink(folder.docs(), folder.docs().join("loop")).unwrap();
    let index = Index::open(folder.index(), None).await.unwrap();
    let report = sync(&index, &folder).await;
    assert_eq!((report.indexed, report.failed.len()), (1, 0));
    assert!(found(&index, "secret hidden ignored").await.is_empty());
    // A folder that went away is no empty folder.
    let failed = index
        .sync(
            folder.path().join("nowhere"),
            &SyncOptions::default(),
            |_| {},
        )
        .await;
    assert!(
        matches!(failed, Err(IndexError::Folder { .. })),
        "{failed:?}"
    );
}

/// The most memory that this process ever had, in bytes.
#[cfg(target_os = "linux")]
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse::<usize>().unwrap() << 10
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn hostile_markdown_takes_little_memory() {
    let deep = |length: usize| {
        let title = "long title ".repeat(length / 11);
        (1..=5)
            .map(|level| format!("{} {title}\n", "#".repeat(level)))
            .collect::<String>()
    };
    let filled = |begin: String, line: &str| {
        let lines = ((128 << 10) - begin.len()) / line.len();
        begin + &line.repeat(lines)
    };
    let hostile = [
        // A heading of half the text above sections of one line.
        filled(format!("# {}\n", "x ".repeat(32 << 10)), "## a\nb\n"),
        // Five long headings above each section of one letter.
        filled(deep(500), "###### a\nb\n"),
        // Long passages of one section below headings that are nearly the whole text.
        filled(deep(6 << 10), &format!("{}\n\n", "b word ".repeat(160))),
    ];
    for (number, text) in hostile.iter().enumerate() {
        let folder = Folder::new(&format!("hostile-{number}"));
        folder.write("a.md", text);
        let before = peak();
        let index = Index::in_memory(None).await.unwrap();
        let report = sync(&index, &folder).await;
        let found = index.search(&Query::new("b word").limit(3)).await.unwrap();
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|found| found.source().len() < 1000));
        let more = (peak() - before) >> 20;
        println!("{number}: {} chunks, {more} MB", report.chunks);
        assert!(more < 100, "{number}: {more} MB");
    }
}
