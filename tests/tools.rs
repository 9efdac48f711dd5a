//! What `#[tool]`, `tool_fn` and the built-in tools promise.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::{sync::Arc, time::Duration};

use ghostlight::{
    tool,
    tools::{tool_fn, tool_fn_with_context},
};
use ghostlight_actors::{
    contract::{Reconciled, Tool, ToolContext, ToolError, ToolHandle, ToolOutput},
    vocabulary::{
        Approval, Arguments, Data, DataSource, Effect, InDoubt, ToolCall, ToolDefinition,
    },
};
use serde_json::json;

/// Adds VAT to a net price.
///
/// The result is gross.
#[tool(effect = "read")]
async fn add_vat(
    /// The price without VAT.
    net: f64,
    /// The rate in percent.
    #[default(19.0)]
    percent: f64,
    note: Option<String>,
) -> Result<f64, ToolError> {
    if net < 0.0 {
        return Err(ToolError::new("a net price is not negative"));
    }
    // A tool's name can be bound again: it is a function.
    let add_vat = net * (1.0 + percent / 100.0);
    let _ = note;
    Ok(add_vat)
}

/// Deletes a file.
#[tool(
    name = "delete-file",
    in_doubt = "ask_person",
    approval = "Delete {path}?",
    timeout = "2m",
    concurrency = 4,
    output_limit = 100,
    ends_step,
    reconcile = was_deleted
)]
async fn delete_file(#[schemars(length(min = 1))] path: String, cx: &ToolContext) -> ToolOutput {
    let _ = path;
    ToolOutput::text(cx.agent())
}

async fn was_deleted(call: &ToolCall, _: ToolContext) -> Reconciled {
    Reconciled::Happened(ToolOutput::text(format!("{} was deleted", call.name)))
}

/// Does nothing.
#[tool(effect = "idempotent", timeout = "250ms")]
fn rest(#[default("a while")] how_long: String, #[default] times: u8) {
    let _ = (how_long, times);
}

/// Fails as a parser does.
#[tool]
fn parse(text: String) -> Result<i32, std::num::ParseIntError> {
    text.parse()
}

/// Gives a list.
#[tool]
fn list() -> Vec<u8> {
    vec![1, 2]
}

async fn run(tool: impl Into<ToolHandle>, arguments: serde_json::Value) -> Result<String, String> {
    let cx = ToolContext::detached();
    let result = tool.into().call(Arguments::from(arguments), cx).await;
    result
        .map(|output| output.text)
        .map_err(|error| error.message)
}

#[tokio::test]
async fn a_function_becomes_a_tool_with_the_schema_of_its_parameters() {
    let definition = add_vat.definition();
    assert_eq!(definition.name, "add_vat");
    assert_eq!(
        definition.description,
        "Adds VAT to a net price.\n\nThe result is gross."
    );
    assert_eq!(definition.effect, Effect::Read);
    assert_eq!(
        definition.parameters,
        json!({
            "type": "object",
            "properties": {
                "net": {"type": "number", "format": "double", "description": "The price without VAT."},
                "percent": {
                    "type": "number", "format": "double",
                    "description": "The rate in percent.", "default": 19.0
                },
                "note": {"type": ["string", "null"]}
            },
            "required": ["net"],
            "additionalProperties": false
        })
    );
    assert_eq!(
        run(add_vat, json!({"net": 80, "percent": 50}))
            .await
            .unwrap(),
        "120.0"
    );
    assert_eq!(run(add_vat, json!({"net": 100})).await.unwrap(), "119.0");
    assert_eq!(
        add_vat::call_fn(100.0, 10.0, None).await.unwrap().round(),
        110.0
    );
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_an_error_of_the_call() {
    for (arguments, reason) in [
        (json!({}), "missing field `net`"),
        (json!({"net": "x"}), "invalid type"),
        (json!({"net": 1, "nett": 2}), "unknown field `nett`"),
        (json!({"net": -1}), "not negative"),
    ] {
        let message = run(add_vat, arguments).await.unwrap_err();
        assert!(message.contains(reason), "{message}");
    }
}

#[tokio::test]
async fn every_setting_reaches_the_definition() {
    let definition = delete_file.definition();
    let prompt = Some(String::from("Delete {path}?"));
    assert_eq!(definition.name, "delete-file");
    assert_eq!(definition.effect, Effect::Once);
    assert_eq!(definition.in_doubt, InDoubt::AskPerson);
    assert_eq!(definition.approval, Approval::Required { prompt });
    assert_eq!(definition.timeout_ms, Some(120_000));
    assert_eq!(definition.concurrency, Some(4));
    assert_eq!(definition.output_limit, 100);
    assert!(definition.ends_step);
    assert_eq!(definition.parameters["properties"]["path"]["minLength"], 1);
    assert!(definition.parameters["properties"].get("cx").is_none());
    assert_eq!(rest.definition().effect, Effect::Idempotent);
    assert_eq!(rest.definition().timeout_ms, Some(250));
    assert_eq!(
        rest.definition().parameters["properties"]["how_long"]["default"],
        "a while"
    );
}

#[tokio::test]
async fn every_return_type_reaches_the_model_as_text() {
    assert_eq!(
        run(delete_file, json!({"path": "x"})).await.unwrap(),
        "nobody"
    );
    assert_eq!(run(rest, json!({})).await.unwrap(), "done");
    assert_eq!(run(list, json!({})).await.unwrap(), "[1,2]");
    assert_eq!(run(parse, json!({"text": "7"})).await.unwrap(), "7");
    let message = run(parse, json!({"text": "seven"})).await.unwrap_err();
    assert_eq!(message, "invalid digit found in string");
}

#[tokio::test]
async fn a_once_tool_tells_what_became_of_a_call_in_doubt() {
    let call = ToolCall::new("1", "delete-file", "{}");
    let handle = ToolHandle::new(delete_file);
    let reconciled = handle.reconcile(&call, ToolContext::detached()).await;
    let happened = Reconciled::Happened(ToolOutput::text("delete-file was deleted"));
    assert_eq!(reconciled, happened);
    let unknown = ToolHandle::new(parse)
        .reconcile(&call, ToolContext::detached())
        .await;
    assert_eq!(unknown, Reconciled::Unknown);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greeting {
    /// Whom to greet.
    name: String,
}

#[tokio::test]
async fn a_closure_becomes_a_tool_that_keeps_what_it_captures() {
    let greeting = Arc::new(String::from("Hello"));
    let definition = ToolDefinition::new("greet", "Greets.").timeout(Duration::from_secs(1));
    let greet = tool_fn(definition, move |who: Greeting| {
        let greeting = greeting.clone();
        async move { Ok(format!("{greeting}, {}!", who.name)) }
    });
    let properties = &greet.definition().parameters["properties"];
    assert_eq!(properties["name"]["description"], "Whom to greet.");
    assert_eq!(greet.definition().timeout_ms, Some(1000));
    assert_eq!(
        run(greet.clone(), json!({"name": "Ada"})).await.unwrap(),
        "Hello, Ada!"
    );
    assert!(
        run(greet, json!({}))
            .await
            .unwrap_err()
            .contains("missing field `name`")
    );
}

#[tokio::test]
async fn a_closure_with_context_makes_its_own_output() {
    let definition = ToolDefinition::new("file", "Gives a file.");
    let file = tool_fn_with_context(definition, |who: Greeting, cx| async move {
        let source = DataSource::Base64(String::from("aGk="));
        let (media_type, name) = (String::from("text/plain"), Some(who.name));
        let data = Data {
            media_type,
            name,
            source,
        };
        Ok(ToolOutput::text(cx.agent()).attach(data))
    });
    let arguments = Arguments::from(json!({"name": "a.txt"}));
    let output = file.call(arguments, ToolContext::detached()).await.unwrap();
    assert_eq!(output.attachments[0].name.as_deref(), Some("a.txt"));
}

mod docs_search {
    use std::{fs, path::PathBuf};

    use ghostlight::tools::{Calculator, DocsOptions, DocsSearch, DocsSearchError};

    use super::*;

    /// A folder of this test alone.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("ghostlight-docs-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self, name: &str, text: &str) {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn guide(name: &str) -> Folder {
        let folder = Folder::new(name);
        folder.file(
            "guide/runs.md",
            "# Runs\nA run is one task.\n## Resuming\nStart the program again: open runs go on.\n",
        );
        folder.file("install.markdown", "# Installing\nAdd the crate.\n");
        folder.file("notes.txt", "resuming is not searched here");
        folder
    }

    #[tokio::test]
    async fn it_gives_passages_with_file_and_heading() {
        let folder = guide("passages");
        let search = DocsSearch::open(&folder.0).unwrap();
        assert_eq!(search.definition().effect, Effect::Read);
        assert_eq!(search.definition().name, "search");
        let text = run(search.clone(), json!({"query": "How do I resume a run?"}))
            .await
            .unwrap();
        assert_eq!(
            text,
            "[1] guide/runs.md > Runs > Resuming\nStart the program again: open runs go on.\n\n\
             [2] guide/runs.md > Runs\nA run is one task."
        );
        let one = run(search.clone(), json!({"query": "run", "limit": 1}))
            .await
            .unwrap();
        assert!(!one.contains("[2]"));
        let none = run(search, json!({"query": "elephants"})).await.unwrap();
        assert_eq!(
            none,
            "No passage has a word of \"elephants\". Try other words."
        );
    }

    /// The most memory that this process ever had, in bytes.
    #[cfg(target_os = "linux")]
    fn peak() -> usize {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let number = line.unwrap().split_whitespace().nth(1).unwrap();
        number.parse::<usize>().unwrap() << 10
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn two_megabytes_of_hostile_markdown_take_little_memory() {
        let deep = |length: usize| {
            let title = "long title ".repeat(length / 11);
            (1..=5)
                .map(|level| format!("{} {title}\n", "#".repeat(level)))
                .collect::<String>()
        };
        let filled = |begin: String, line: &str, bytes: usize| {
            let lines = (bytes - begin.len()) / line.len();
            begin + &line.repeat(lines)
        };
        // Each is read at the size of a whole file, and searched at a quarter of it.
        let hostile: [&dyn Fn(usize) -> String; 3] = [
            // A heading of half the text above sections of one line.
            &|bytes| {
                filled(
                    format!("# {}\n", "x ".repeat(bytes / 4)),
                    "## a\nb\n",
                    bytes,
                )
            },
            // Five long headings above each section of one letter.
            &|bytes| filled(deep(2000), "###### a\nb\n", bytes),
            // Long passages of one section below headings of half a megabyte.
            &|bytes| {
                filled(
                    deep(bytes / 20),
                    &format!("{}\n\n", "b word ".repeat(160)),
                    bytes,
                )
            },
        ];
        for (number, text) in hostile.iter().enumerate() {
            let folder = Folder::new(&format!("hostile-{number}"));
            let before = peak();
            for (bytes, searched) in [(2 << 20, false), (512 << 10, true)] {
                folder.file("a.md", &text(bytes));
                let search = DocsSearch::open(&folder.0).unwrap();
                if searched {
                    let found = search.search("b word", 3);
                    assert_eq!(found.len(), 3);
                    assert!(found.iter().all(|passage| passage.source().len() < 1000));
                }
                let (more, passages) = ((peak() - before) >> 20, search.passages());
                println!("{number}: {bytes} bytes, {passages} passages, {more} MB");
                assert!(more < 250, "{number}: {more} MB");
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_lead_out_of_the_folder() {
        let secret = Folder::new("secret");
        secret.file("secret.md", "# Secret\nelephants");
        let folder = guide("links");
        std::os::unix::fs::symlink(secret.0.join("secret.md"), folder.0.join("file.md")).unwrap();
        std::os::unix::fs::symlink(&secret.0, folder.0.join("folder")).unwrap();
        folder.file(".hidden/x.md", "elephants");
        let search = DocsSearch::open(&folder.0).unwrap();
        assert!(search.search("elephants", 10).is_empty());
        assert_eq!(search.passages(), 3);
    }

    #[test]
    fn what_is_too_large_or_missing_is_an_error_that_names_it() {
        let folder = guide("limits");
        let refused = |change: fn(&mut DocsOptions)| {
            let mut limits = DocsOptions::default();
            change(&mut limits);
            DocsSearch::open_within(&folder.0, limits)
                .unwrap_err()
                .to_string()
        };
        assert!(refused(|limits| limits.max_files = 1).contains("more than 1 Markdown files"));
        assert!(
            refused(|limits| limits.max_file_bytes = 40).contains("runs.md: more than 40 bytes")
        );
        assert!(refused(|limits| limits.max_total_bytes = 90).contains("bytes in all files"));
        assert!(refused(|limits| limits.max_depth = 1).contains("folders inside each other"));
        assert!(refused(|limits| limits.max_index_bytes = 400).contains("bytes of passages"));
        let missing = DocsSearch::open(folder.0.join("nowhere")).unwrap_err();
        assert!(matches!(missing, DocsSearchError::Io { .. }));
        folder.file("empty/a.md", "# Only a heading\n");
        let empty = DocsSearch::open(folder.0.join("empty")).unwrap_err();
        assert!(matches!(empty, DocsSearchError::Empty { .. }));
    }

    #[tokio::test]
    async fn the_calculator_gives_a_number_or_says_why_not() {
        assert_eq!(Calculator.definition().effect, Effect::Read);
        let sum = run(Calculator, json!({"expression": "17% of 2340"})).await;
        assert_eq!(sum.unwrap(), "397.8");
        let nonsense = run(Calculator, json!({"expression": "2340 17"})).await;
        assert!(nonsense.unwrap_err().contains("at character 6"));
    }
}

/// Repeats a word.
#[tool(effect = "read")]
fn repeat(word: String, #[default(2)] times: u32, share: f64) -> String {
    format!("{} {share}", word.repeat(times as usize))
}

#[tokio::test]
async fn a_whole_number_counts_as_an_integer_and_null_as_left_out() {
    let said = run(repeat, json!({"word": "ab", "times": 3.0, "share": 1}));
    assert_eq!(said.await.unwrap(), "ababab 1");
    let said = run(repeat, json!({"word": "ab", "times": 3e0, "share": 2.5}));
    assert_eq!(said.await.unwrap(), "ababab 2.5");
    let said = run(repeat, json!({"word": "ab", "times": null, "share": 1.0}));
    assert_eq!(said.await.unwrap(), "abab 1");
    let said = run(repeat, json!({"word": "ab", "times": 2.5, "share": 1}));
    assert!(said.await.unwrap_err().contains("2.5"));
    let said = run(repeat, json!({"word": "ab", "times": -1.0, "share": 1}));
    assert!(said.await.unwrap_err().contains("-1"));
}
