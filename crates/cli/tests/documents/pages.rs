//! Pages of the web are documents: asked for only if they have changed, removed when they are gone, and read from
//! public addresses alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read as _, Write as _},
    net::TcpListener,
    process::Command,
    sync::{Arc, Mutex},
};

use ghostlight::{
    documents::{DocumentSpec, IndexedFolder, WebPageSpec, WebPages},
    prelude::*,
    retrieval::index::{Index, Query, SyncOptions, SyncReport},
    testing::ScriptedModel,
    tools::{PageError, PageReader, ReadPage, WebSpec},
    vocabulary::ToolCall,
};

use crate::{folder::Folder, started};

/// A site whose pages can be changed, with the requests that it got.
#[derive(Clone)]
struct Site {
    address: String,
    pages: Arc<Mutex<BTreeMap<String, Page>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

/// A status, headers, and a body.
type Page = (u16, &'static str, String);

impl Site {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let site = Self {
            address: format!("http://{}", listener.local_addr().unwrap()),
            pages: Arc::default(),
            asked: Arc::default(),
        };
        let served = site.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read(&mut byte).unwrap_or(0) == 0 {
                        break;
                    }
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap().to_lowercase();
                let answer = served.answer(&head);
                served.asked.lock().unwrap().push(head);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        site
    }

    fn put(&self, path: &str, status: u16, headers: &'static str, body: &str) {
        let mut pages = self.pages.lock().unwrap();
        pages.insert(path.to_owned(), (status, headers, body.to_owned()));
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    fn answer(&self, head: &str) -> String {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let found = self.pages.lock().unwrap().get(path).cloned();
        let (mut status, headers, mut body) = found.unwrap_or((404, "", String::from("no")));
        // A condition holds if it names the page's own validator.
        let known = head.lines().filter_map(|line| line.split_once(": "));
        let mut known = known.filter(|(name, _)| name.starts_with("if-"));
        if known.any(|(_, value)| headers.to_lowercase().contains(value)) {
            (status, body) = (304, String::new());
        }
        format!(
            "HTTP/1.1 {status} X\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        )
    }
}

fn settings(site: &Site, paths: &[&str]) -> WebPageSpec {
    let mut settings = WebPageSpec::new(paths.iter().map(|path| site.at(path)));
    settings.allow_addresses = vec![String::from("127.0.0.1")];
    settings
}

async fn sync(index: &Index, settings: &WebPageSpec) -> SyncReport {
    let pages = WebPages::new(settings).unwrap();
    let options = SyncOptions::default();
    let report = index.sync_from(&pages, &options, |_| {}).await;
    report.unwrap()
}

async fn found(index: &Index, text: &str) -> Vec<String> {
    let found = index.search(&Query::new(text)).await.unwrap();
    found
        .iter()
        .map(|found| found.document.to_string())
        .collect()
}

const HTML: &str = "content-type: text/html\r\netag: \"v1\"\r\n";
const CHANGED: &str = "content-type: text/html\r\netag: \"v2\"\r\n";
const DATED: &str =
    "content-type: text/markdown\r\nlast-modified: Mon, 02 Nov 2026 10:00:00 GMT\r\n";

#[tokio::test]
async fn pages_that_changed_are_indexed_and_those_that_are_gone_removed() {
    let site = Site::new();
    site.put(
        "/a",
        200,
        HTML,
        "<h1>Parcels</h1><p>They are brought by noon.</p>",
    );
    site.put(
        "/b",
        200,
        DATED,
        "# Letters\n\nThey are brought by bicycle.",
    );
    site.put("/plain.txt", 200, "", "Elephants travel free.");
    let folder = Folder::new("pages");
    let file = folder.path().join("the.index");
    let listed = settings(&site, &["/a", "/b", "/plain.txt", "/missing"]);
    let index = Index::open(&file, None).await.unwrap();
    let first = sync(&index, &listed).await;
    assert_eq!((first.indexed, first.failed.len()), (3, 1), "{first:?}");
    assert!(first.failed[0].0.ends_with("/missing") && first.failed[0].1.contains("404"));
    assert_eq!(found(&index, "by noon").await[0], site.at("/a"));
    index.close().await;

    // What the server recognises its pages by outlives the process.
    let index = Index::open(&file, None).await.unwrap();
    site.asked.lock().unwrap().clear();
    let again = sync(&index, &listed).await;
    assert_eq!(
        (again.indexed, again.unchanged, again.removed),
        (0, 3, 0),
        "{again:?}"
    );
    let asked = site.asked.lock().unwrap().join("\n");
    assert!(
        asked.contains("if-none-match: \"v1\"") && asked.contains("if-modified-since: mon, 02")
    );

    site.put(
        "/a",
        200,
        CHANGED,
        "<h1>Parcels</h1><p>They are brought by zebras.</p>",
    );
    site.put("/b", 410, "", "");
    let changed = sync(&index, &listed).await;
    assert_eq!(
        (changed.indexed, changed.unchanged, changed.removed),
        (1, 1, 1),
        "{changed:?}"
    );
    let told: Vec<&str> = changed.failed.iter().map(|(_, error)| &**error).collect();
    assert!(told.iter().any(|error| error.contains("410")), "{told:?}");
    assert_eq!(found(&index, "zebras").await, [site.at("/a")]);
    assert!(found(&index, "bicycle").await.is_empty());

    let fewer = sync(&index, &settings(&site, &["/a"])).await;
    assert_eq!(
        (fewer.unchanged, fewer.removed, fewer.failed.len()),
        (1, 1, 0),
        "{fewer:?}"
    );
}

#[tokio::test]
async fn pages_are_read_by_the_rules_of_the_web_tools() {
    let site = Site::new();
    site.put("/robots.txt", 200, "", "User-agent: *\nDisallow: /private");
    site.put("/private", 200, "", "secret");
    site.put("/away", 302, "location: http://10.0.0.1/\r\n", "");
    site.put("/large", 200, "", &"x".repeat(2_000));
    site.put("/binary", 200, "content-type: image/png\r\n", "\u{1}");
    let mut listed = settings(&site, &["/private", "/away", "/large", "/binary"]);
    listed.pages.push(String::from("file:///etc/passwd"));
    listed.max_bytes = 1_000;
    let index = Index::in_memory(None).await.unwrap();
    let report = sync(&index, &listed).await;
    let told: BTreeMap<&str, &str> = report
        .failed
        .iter()
        .map(|(page, error)| (page.rsplit('/').next().unwrap(), &**error))
        .collect();
    assert_eq!((report.indexed, told.len()), (0, 5), "{told:?}");
    assert!(told["private"].contains("robots"), "{told:?}");
    assert!(told["away"].contains("private network"), "{told:?}");
    assert!(told["large"].contains("1000 bytes"), "{told:?}");
    assert!(told["binary"].contains("no reader"), "{told:?}");
    assert!(told["passwd"].contains("only https, http"), "{told:?}");

    listed.allow_addresses.clear();
    let refused = sync(&Index::in_memory(None).await.unwrap(), &listed).await;
    let hosts = refused
        .failed
        .iter()
        .filter(|(page, _)| page.starts_with("http"));
    assert!(
        hosts
            .clone()
            .all(|(_, error)| error.contains("private network"))
    );
    assert_eq!((hosts.count(), refused.indexed), (4, 0));
    listed.robots = false;
    listed.max_bytes = 10_000;
    listed.allow_addresses = vec![String::from("127.0.0.0/8")];
    assert_eq!(sync(&index, &listed).await.indexed, 2);
    listed.allow_addresses = vec![String::from("everywhere")];
    assert!(WebPages::new(&listed).is_err());
}

#[tokio::test]
async fn a_server_that_fails_is_told_apart_from_a_page_that_is_gone() {
    let site = Site::new();
    site.put("/busy", 503, "", "");
    site.put("/a", 200, HTML, "x");
    let mut rules = WebSpec::default();
    rules.schemes = vec![String::from("http")];
    rules.ports = Vec::new();
    rules.allow_addresses = vec![String::from("127.0.0.1")];
    let reader = PageReader::open(rules.clone()).unwrap();
    let busy = reader.read(&site.at("/busy"), None).await;
    assert!(matches!(busy, Err(PageError::Unavailable(_))), "{busy:?}");
    let missing = reader.read(&site.at("/c"), None).await;
    assert_eq!(missing, Err(PageError::Gone(404)));
    let read = reader.read(&site.at("/a"), None).await.unwrap();
    let ReadPage::Page { validator, .. } = read else {
        panic!("{read:?}");
    };
    let again = reader.read(&site.at("/a"), validator.as_deref()).await;
    assert_eq!(again, Ok(ReadPage::Unchanged));
    site.put("/robots.txt", 500, "", "");
    let unknown = PageReader::open(rules)
        .unwrap()
        .read(&site.at("/a"), None)
        .await;
    assert!(
        matches!(unknown, Err(PageError::Unavailable(_))),
        "{unknown:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_and_the_command_index_pages() {
    let site = Site::new();
    site.put(
        "/a",
        200,
        HTML,
        "<h1>Parcels</h1><p>They are brought by noon.</p>",
    );
    let given = serde_json::json!({
        "web": { "pages": [site.at("/a")], "allow_addresses": ["127.0.0.1"] },
    });
    let given: DocumentSpec = serde_json::from_value(given).unwrap();
    let indexed = IndexedFolder::new(given.clone(), Default::default()).unwrap();
    let searcher = indexed.searcher().await.unwrap();
    assert_eq!(found(searcher.index(), "noon").await, [site.at("/a")]);
    let mut both = given;
    both.folder = std::env::temp_dir();
    let told = IndexedFolder::new(both, Default::default()).unwrap_err();
    assert!(told.contains("`web`"), "{told}");

    let folder = Folder::new("pages-command");
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ghostlight"));
        let command = command.args([
            "docs",
            "index",
            "--index",
            "the.index",
            "--url",
            &site.at("/a"),
        ]);
        let command = command.args(more).env_remove("GHOSTLIGHT_EMBEDDER");
        command.current_dir(folder.path()).output().unwrap()
    };
    let refused = run(&[]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{told}");
    assert!(told.contains("private network"), "{told}");
    let done = run(&["--allow-address", "127.0.0.1"]);
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        done.status.success() && told.contains("web: 1 indexed"),
        "{told}"
    );
}

#[tokio::test]
async fn tools_and_a_policy_with_lists_of_their_own_share_an_index() {
    let site = Site::new();
    site.put("/a", 200, HTML, "<p>Parcels are brought by noon.</p>");
    site.put("/b", 200, HTML, "<p>Letters are brought by bicycle.</p>");
    site.put("/c", 200, HTML, "<p>Trunks are brought by cart.</p>");
    let folder = Folder::new("pages-lists");
    let file = folder.path().join("the.index");
    let pages = |page: &str| {
        let page = site.at(page);
        format!(
            "index: {}, refresh_s: 0, web: {{ pages: [\"{page}\"], allow_addresses: [\"127.0.0.1\"] }}",
            file.display()
        )
    };
    let tool = |name: &str, page: &str| {
        format!("  {name}: {{ kind: document_search, {} }}\n", pages(page))
    };
    let text = format!(
        "tools:\n{}{}agent: {{ name: desk, tools: [parcels, letters], \
         policies: [{{ name: recall_documents, {} }}] }}\n",
        tool("parcels", "/a"),
        tool("letters", "/b"),
        pages("/c"),
    );
    let model = ScriptedModel::from_fn(|request, number| {
        let messages = request.conversation.messages();
        let results = messages.iter().flat_map(|message| {
            let results = message.tool_results().map(|result| result.text.clone());
            results.collect::<Vec<_>>()
        });
        let name = ["parcels", "letters", "parcels"].get(usize::try_from(number).unwrap());
        Ok(match name {
            Some(name) => ModelResponse::tool_calls([ToolCall::new(
                number.to_string(),
                *name,
                serde_json::json!({ "query": "how are they brought" }),
            )]),
            None => ModelResponse::text(results.collect::<Vec<_>>().join("\n")),
        })
    });
    let team = ghostlight::config::parse(text, "team.yaml").unwrap();
    let system = started(team, &model).await;
    let session = system.session("desk", "ada");
    let run = session.send("How are they brought?").await.unwrap();
    let said = run.outcome().await.unwrap().text().to_owned();
    // Each tool finds its own pages, and they are in the index until the end.
    assert_eq!(said.matches("| Parcels").count(), 2, "{said}");
    assert_eq!(said.matches("| Letters").count(), 1, "{said}");
    let asked = format!("{:?}", model.requests()[0].conversation.messages());
    assert!(asked.contains("Trunks are brought"), "{asked}");
    assert!(!asked.contains("Parcels are brought"), "{asked}");
    system.stop().await.unwrap();
    let asked = site.asked.lock().unwrap().clone();
    let asked: Vec<&String> = asked
        .iter()
        .filter(|head| head.contains("get /a "))
        .collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[1].contains("if-none-match"), "{asked:?}");
    let index = Index::open(&file, None).await.unwrap();
    let documents = index.documents().await.unwrap();
    let names: Vec<&str> = documents.iter().map(|row| &*row.folder).collect();
    assert_eq!(
        names,
        ["web/letters", "web/parcels", "web/recall_documents"]
    );
    // A list that gets shorter loses its own page alone.
    let mut shorter = settings(&site, &[]);
    shorter.list = Some(String::from("letters"));
    assert_eq!(sync(&index, &shorter).await.removed, 1);
    let left: BTreeSet<String> = found(&index, "brought").await.into_iter().collect();
    assert_eq!(left, BTreeSet::from([site.at("/a"), site.at("/c")]));
}

#[tokio::test]
async fn a_page_is_read_in_the_encoding_that_its_server_says() {
    let site = Site::new();
    let headers = "content-type: text/html; charset=iso-2022-jp\r\n";
    let page = "<meta charset=utf-8><p>\u{1b}$B$3$s$K$A$O\u{1b}(B</p>";
    site.put("/greeting", 200, headers, page);
    let folder = Folder::new("encoded");
    let index = Index::open(folder.path().join("index"), None);
    let index = index.await.unwrap();
    sync(&index, &settings(&site, &["/greeting"])).await;
    let found = index.search(&Query::new("こんにちは")).await.unwrap();
    assert_eq!(&*found[0].text, "こんにちは");
}
