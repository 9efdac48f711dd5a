//! `ghostlight docs index` and `ghostlight docs search`.

use std::process::{Command, Output};

use crate::folder::Folder;

fn command(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ghostlight"));
    command
        .args(arguments)
        .current_dir(folder.path())
        .env_remove("GHOSTLIGHT_EMBEDDER")
        .env("GHOSTLIGHT_INDEX", folder.path().join("the.index"))
        .env("XDG_DATA_HOME", folder.path());
    command
}

fn ghostlight(folder: &Folder, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

/// A folder that is watched is told of at once, also where nothing in it is new, and Ctrl-C ends it.
#[cfg(unix)]
fn watches(folder: &Folder) {
    use std::{
        io::{BufRead as _, BufReader},
        process::Stdio,
    };
    let mut command = command(folder, &["docs", "index", "docs", "--watch"]);
    let mut watching = command.stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(watching.stderr.take().unwrap()).lines();
    let said: Vec<String> = said
        .map(Result::unwrap)
        .take(4)
        .inspect(|line| {
            if line.starts_with("watches for changes") {
                folder.write("new.md", "# New\n\nwritten while it is watched");
            }
            if line.contains("1 indexed") {
                std::fs::remove_file(folder.docs().join("new.md")).unwrap();
            }
            if line.contains("1 removed") {
                let id = watching.id().to_string();
                let asked = Command::new("kill").args(["-INT", &id]).status();
                assert!(asked.unwrap().success());
            }
        })
        .collect();
    assert!(said[0].contains("3 unchanged"), "{said:?}");
    assert!(said[2].contains("1 indexed"), "{said:?}");
    assert!(said[3].contains("1 removed"), "{said:?}");
    assert!(watching.wait().unwrap().success());
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_folder_is_indexed_and_searched() {
    let folder = Folder::new("command");
    folder.write("faq.md", "# Parcels\n\nThey are brought by noon.\n");
    folder.write("prices.csv", "thing,price\nparcel,5\nletter,1\n");
    folder.write("bad.txt", b"\x00");
    folder.write(
        "flyer.pdf",
        crate::hostile_pdf::page("BT /F 12 Tf 10 100 Td (Elephants travel free) Tj ET", ""),
    );
    let missing = ghostlight(&folder, &["docs", "search", "parcel"]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    assert!(err(&missing).contains("ghostlight docs index FOLDER"));

    let indexed = ghostlight(&folder, &["docs", "index", "docs", "--statistics"]);
    assert_eq!(indexed.status.code(), Some(1), "{}", err(&indexed));
    let said = err(&indexed);
    assert!(
        said.contains("3 indexed") && said.contains("1 failed") && said.contains("bad.txt"),
        "{said}"
    );
    assert!(said.contains("3 documents"), "{said}");

    std::fs::remove_file(folder.docs().join("bad.txt")).unwrap();
    let again = ghostlight(&folder, &["docs", "index", "docs"]);
    assert!(
        again.status.success()
            && err(&again).contains("0 indexed (0 chunks), 3 unchanged, 1 removed"),
        "{again:?}"
    );

    #[cfg(unix)]
    watches(&folder);

    let found = ghostlight(&folder, &["docs", "search", "when is a parcel brought"]);
    assert!(
        out(&found).starts_with('[')
            && out(&found).contains("] faq.md > Parcels (line 3)\n    They are brought by noon."),
        "{}",
        out(&found)
    );
    let found = ghostlight(
        &folder,
        &["docs", "search", "free elephants", "--json", "-n", "1"],
    );
    let line: serde_json::Value = serde_json::from_str(out(&found).trim()).unwrap();
    assert_eq!(line["document"], "flyer.pdf", "{line}");
    let found = ghostlight(
        &folder,
        &[
            "docs", "search", "parcel", "--under", "prices", "--words", "--rerank",
        ],
    );
    assert!(
        out(&found).contains("prices.csv") && !out(&found).contains("faq.md"),
        "{}",
        out(&found)
    );

    let other = ghostlight(
        &folder,
        &["docs", "search", "parcel", "--embedder", "openai:m:3"],
    );
    assert_eq!(other.status.code(), Some(2));
    assert!(
        err(&other).contains("was made with lexical-hash-2/512")
            && err(&other).contains("index --empty"),
        "{}",
        err(&other)
    );
    let wrong = ghostlight(&folder, &["docs", "index", "docs", "--embedder", "magic"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        err(&wrong).contains("openai:MODEL:DIMENSION"),
        "{}",
        err(&wrong)
    );
}

#[test]
fn a_folder_that_is_gone_is_searched_and_one_that_never_was_is_named() {
    let folder = Folder::new("gone");
    folder.write("faq.md", "# Parcels\n\nThey are brought by noon.\n");
    let indexed = ghostlight(&folder, &["docs", "index", "docs"]);
    assert!(indexed.status.success(), "{indexed:?}");
    let search =
        |more: &[&str]| ghostlight(&folder, &[&["docs", "search", "parcel"], more].concat());
    std::fs::rename(folder.docs(), folder.path().join("moved")).unwrap();
    let found = search(&["--folder", "docs"]);
    assert!(out(&found).contains("faq.md"), "{found:?}");
    let wrong = search(&["--folder", "dogs"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(err(&wrong).contains("there is no folder dogs"), "{wrong:?}");
    for share in ["2", "-1", "nan"] {
        let wrong = search(&[&*format!("--diversity={share}")]);
        assert_eq!(wrong.status.code(), Some(2), "{share}");
    }
}

#[test]
fn rows_of_a_database_are_indexed_and_searched() {
    let folder = Folder::new("rows");
    let database = rusqlite::Connection::open(folder.path().join("notes.db")).unwrap();
    let notes = "CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT);
                 INSERT INTO notes VALUES (1, 'Parcels are brought by noon.'), (2, 'Elephants travel free.')";
    database.execute_batch(notes).unwrap();
    let index = [
        "docs",
        "index",
        "--database",
        "notes.db",
        "--select",
        "SELECT id, body FROM notes",
    ];
    let indexed = ghostlight(&folder, &index);
    assert!(
        indexed.status.success() && err(&indexed).contains("notes.db: 2 indexed (2 chunks)"),
        "{indexed:?}"
    );
    let found = ghostlight(&folder, &["docs", "search", "--approximate", "elephants"]);
    assert!(
        out(&found).contains("] 2 (line 1)\n    Elephants travel free."),
        "{found:?}"
    );
    database
        .execute("DELETE FROM notes WHERE id = 2", [])
        .unwrap();
    let again = ghostlight(&folder, &index);
    assert!(
        err(&again).contains("0 indexed (0 chunks), 1 unchanged, 1 removed"),
        "{again:?}"
    );
    let writes = [
        "docs",
        "index",
        "--database",
        "notes.db",
        "--select",
        "DELETE FROM notes",
    ];
    let refused = ghostlight(&folder, &writes);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let alone = ghostlight(&folder, &["docs", "index", "--database", "notes.db"]);
    assert_eq!(alone.status.code(), Some(2), "{alone:?}");
}

#[test]
fn texts_are_cut_added_removed_and_found_by_their_properties() {
    use std::{io::Write as _, process::Stdio};
    let folder = Folder::new("command-single");
    let long = "One sentence of some words. ".repeat(40);
    folder.write("a.md", format!("---\nteam: legal\n---\n# Terms\n\n{long}"));
    folder.write("b.md", format!("---\nteam: sales\n---\n# Offers\n\n{long}"));
    folder.write("c.tmp.md", "left out");
    let run = |arguments: &[&str]| ghostlight(&folder, arguments);
    let index = ["docs", "index", "docs", "--exclude", "*.tmp.md"];
    let whole = run(&index);
    assert!(err(&whole).contains("2 indexed (2 chunks)"), "{whole:?}");
    let cut = run(&[
        &index[..],
        &[
            "--chunk-size",
            "200",
            "--overlap",
            "20",
            "--chunk-by",
            "sentences",
        ],
    ]
    .concat());
    assert!(
        err(&cut).contains("2 indexed") && !err(&cut).contains("(2 chunks)"),
        "{cut:?}"
    );
    let found = run(&[
        "docs",
        "search",
        "sentence",
        "--having",
        "team=Legal",
        "-n",
        "50",
    ]);
    assert!(
        out(&found).contains("a.md") && !out(&found).contains("b.md"),
        "{found:?}"
    );
    let mut adding = command(&folder, &["docs", "index", "--add", "key", "--statistics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = b"# Key\n\nThe key lies under the mat.";
    adding.stdin.take().unwrap().write_all(text).unwrap();
    let added = adding.wait_with_output().unwrap();
    assert!(err(&added).contains("key: 34 bytes indexed"), "{added:?}");
    assert!(err(&added).contains("3 documents (healthy)"), "{added:?}");
    assert!(out(&run(&["docs", "search", "under the mat", "-n", "1"])).contains("key > Key"));
    assert!(err(&run(&["docs", "index", "--remove", "key"])).contains("key: removed"));
    assert!(!out(&run(&["docs", "search", "under the mat"])).contains("key > Key"));
    for wrong in [
        &["docs", "index", "--remove", "key"][..],
        &["docs", "index", "docs", "--chunk-size", "10"],
        &[
            "docs",
            "index",
            "docs",
            "--chunk-size",
            "200",
            "--overlap",
            "150",
        ],
        &["docs", "search", "x", "--having", "team"],
    ] {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}
