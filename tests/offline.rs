//! What the offline model promises, alone and with real tools.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::sync::{Arc, Mutex};

use ghostlight::{
    documents::{DocumentSearch, DocumentSpec, IndexedFolder},
    models::OfflineModel,
    retrieval::readers::Readers,
    tool,
    tools::Calculator,
};
use ghostlight_actors::{
    contract::{Model, ModelContext, ToolContext, ToolHandle},
    definition::TAKEN_OVER,
    vocabulary::{
        Arguments, Delta, Effect, FinishReason, Message, ModelRequest, ModelResponse,
        ModelSettings, Part, Preview, ToolChoice, ToolDefinition, ToolResult, ToolSet, ToolStatus,
        Transcript,
    },
};
use serde_json::{Value, json};

const DEMO: &str = "How do I resume a run after a crash, and what is 17% of 2340?";

async fn ask(request: ModelRequest) -> ModelResponse {
    let cx = ModelContext::detached();
    OfflineModel.respond(request, cx).await.unwrap()
}

fn request(task: &str, tools: &[ToolDefinition]) -> ModelRequest {
    let conversation = Transcript::from_iter([Message::user(task)]);
    ModelRequest::new(conversation).tools(tools.iter().cloned().collect())
}

fn calls(response: &ModelResponse) -> Vec<(String, Value)> {
    let calls = response.calls().into_iter();
    calls
        .map(|call| (call.name, call.arguments.value().unwrap().clone()))
        .collect()
}

/// The same request after these results of the calls of its answer, in order.
fn answered(
    mut request: ModelRequest,
    response: &ModelResponse,
    results: &[(ToolStatus, &str)],
) -> ModelRequest {
    let calls = response.calls();
    assert_eq!(calls.len(), results.len());
    request.conversation.push(response.message.clone());
    let results = calls.iter().zip(results);
    let results = results.map(|(call, (status, text))| ToolResult::new(call, *status, *text));
    request.conversation.push(Message::results(results));
    request
}

/// Runs an agent's loop with these tools until the model answers; the answer and all calls.
async fn converse(task: &str, tools: &[ToolHandle]) -> (String, Vec<(String, Value)>) {
    let definitions: ToolSet = tools.iter().map(|tool| tool.definition().clone()).collect();
    let conversation = Transcript::from_iter([Message::user(task)]);
    let mut request = ModelRequest::new(conversation).tools(definitions);
    let mut made = Vec::new();
    for _ in 0..5 {
        let response = ask(request.clone()).await;
        if response.calls().is_empty() {
            return (response.content(), made);
        }
        made.extend(calls(&response));
        request.conversation.push(response.message.clone());
        let mut results = Vec::new();
        for call in response.calls() {
            let tool = tools
                .iter()
                .find(|tool| tool.definition().name == call.name)
                .unwrap();
            let output = tool
                .call(call.arguments.clone(), ToolContext::detached())
                .await;
            results.push(match output {
                Ok(output) => ToolResult::new(&call, ToolStatus::Success, output.text),
                Err(error) => ToolResult::new(&call, ToolStatus::Error, error.message),
            });
        }
        request.conversation.push(Message::results(results));
    }
    panic!("no answer after five steps: {made:?}");
}

fn text_tool(name: &str, description: &str, argument: &str) -> ToolDefinition {
    ToolDefinition::new(name, description)
        .effect(Effect::Read)
        .parameters(json!({
            "type": "object",
            "properties": {argument: {"type": "string"}},
            "required": [argument]
        }))
}

fn team() -> Vec<ToolDefinition> {
    vec![
        text_tool(
            "delegate_to_librarian",
            "Gives a task to the agent and returns its answer. The agent librarian: finds \
             answers in the documentation.",
            "task",
        ),
        text_tool(
            "delegate_to_accountant",
            "Gives a task to the agent and returns its answer. The agent accountant: \
             arithmetic, prices and percentages.",
            "task",
        ),
    ]
}

/// A folder with one page, removed at the end.
struct Docs(std::path::PathBuf);

impl Docs {
    fn new(name: &str) -> Self {
        let folder = format!("ghostlight-offline-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&path).unwrap();
        let text = "# Runs\nA run is one task.\n\n## Resuming after a crash\nStart the same \
                    program again. Every open run goes on from what was last\nrecorded, and \
                    nothing is done twice.\n\n## Cancelling\nA cancelled run never wakes up.\n";
        std::fs::write(path.join("runs.md"), text).unwrap();
        Self(path)
    }
}

impl Drop for Docs {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[tokio::test]
async fn one_agent_answers_both_parts_of_the_demo_question() {
    let docs = Docs::new("demo");
    let folder = IndexedFolder::new(DocumentSpec::new(&docs.0), Readers::default()).unwrap();
    let search = ToolHandle::new(DocumentSearch::new("search", folder));
    let (answer, made) = converse(DEMO, &[search, ToolHandle::new(Calculator)]).await;
    let query = json!({"query": "How do I resume a run after a crash"});
    let expression = json!({"expression": "17% of 2340"});
    assert_eq!(
        made,
        [("search".into(), query), ("calculator".into(), expression)]
    );
    assert_eq!(
        answer,
        "Start the same program again. Every open run goes on from what was last recorded, and \
         nothing is done twice. (runs.md > Resuming after a crash (line 5))\n\n17% of 2340 = 397.8"
    );
}

#[tokio::test]
async fn a_team_gets_each_part_to_the_agent_that_it_concerns() {
    let first = request(DEMO, &team());
    let response = ask(first.clone()).await;
    assert_eq!(response.finish, FinishReason::ToolCalls);
    assert_eq!(
        calls(&response),
        [
            (
                "delegate_to_librarian".into(),
                json!({"task": "How do I resume a run after a crash"})
            ),
            (
                "delegate_to_accountant".into(),
                json!({"task": "what is 17% of 2340?"})
            ),
        ]
    );
    let ids: Vec<String> = response.calls().into_iter().map(|call| call.id).collect();
    assert_eq!(ids, ["offline-1", "offline-2"]);
    let results = [
        (ToolStatus::Success, "Start it again."),
        (ToolStatus::Success, "17% of 2340 = 397.8"),
    ];
    let last = ask(answered(first, &response, &results)).await;
    assert_eq!(last.content(), "Start it again.\n\n17% of 2340 = 397.8");
    assert_eq!(last.finish, FinishReason::Stop);
}

#[tokio::test]
async fn the_note_of_a_transfer_is_no_part_of_the_task() {
    let tools = [
        text_tool("track", "Says where a parcel is.", "parcel"),
        text_tool(
            "transfer_to_desk",
            "Hands the whole conversation to the agent desk: parcels and sums.",
            "request",
        ),
    ];
    let question = "Where is my parcel 4711?";
    let mut first = request(question, &tools);
    let note = format!("{TAKEN_OVER} {question}]");
    first.conversation.push(Message::user(note));
    let tracking = ask(first.clone()).await;
    assert_eq!(calls(&tracking)[0].0, "track");
    let second = answered(
        first,
        &tracking,
        &[(ToolStatus::Success, "in the parcel van")],
    );
    let answer = ask(second).await;
    assert!(
        answer.calls().is_empty(),
        "it is not handed back: {answer:?}"
    );
    assert_eq!(answer.content(), "in the parcel van");
}

#[tokio::test]
async fn a_transfer_takes_the_whole_task_and_is_not_made_twice() {
    let tools = [
        text_tool(
            "transfer_to_accountant",
            "Hands the whole conversation to the agent accountant: arithmetic.",
            "request",
        ),
        text_tool("search", "Searches the documentation.", "query"),
    ];
    let first = request(DEMO, &tools);
    let searching = ask(first.clone()).await;
    assert_eq!(calls(&searching).len(), 1);
    let second = answered(
        first,
        &searching,
        &[(ToolStatus::Success, "Start the run again.")],
    );
    let transfer = ask(second.clone()).await;
    assert_eq!(
        calls(&transfer),
        [("transfer_to_accountant".into(), json!({"request": DEMO}))]
    );

    // The accountant has the conversation and other tools, and needs no second search.
    let mut third = answered(second, &transfer, &[(ToolStatus::Success, "transferred")]);
    third = third.tools(
        [ToolHandle::new(Calculator).definition().clone()]
            .into_iter()
            .collect(),
    );
    let calculating = ask(third.clone()).await;
    assert_eq!(
        calls(&calculating),
        [("calculator".into(), json!({"expression": "17% of 2340"}))]
    );
    let fourth = answered(
        third.clone(),
        &calculating,
        &[(ToolStatus::Success, "397.8")],
    );
    let answer = ask(fourth).await.content();
    assert_eq!(answer, "Start the run again.\n\n17% of 2340 = 397.8");

    // Back where it came from, it is not sent there again.
    let back = third.tools(tools.into_iter().collect());
    let answer = ask(back).await;
    assert!(answer.calls().is_empty());
    assert!(
        answer
            .content()
            .contains("nothing fits \"what is 17% of 2340?\""),
        "{answer:?}"
    );
}

#[tokio::test]
async fn it_does_not_quote_what_it_said_to_agents_before() {
    let first = ask(request("Tabs or spaces?", &[])).await.content();
    let told = format!("Tabs or spaces?\n\n### tabs\n{first}\n\n### spaces\n{first}");
    let second = ask(request(&told, &[])).await.content();
    assert_eq!(second, first);
}

#[tokio::test]
async fn a_failed_call_is_not_repeated_and_is_told() {
    let first = request(
        "what is 1/0?",
        &[ToolHandle::new(Calculator).definition().as_ref().clone()],
    );
    let response = ask(first.clone()).await;
    let failure = "division by zero is not defined";
    let last = ask(answered(first, &response, &[(ToolStatus::Error, failure)])).await;
    assert!(last.calls().is_empty());
    assert_eq!(
        last.content(),
        format!("\"what is 1/0?\": calculator did not work: {failure}")
    );
}

#[tokio::test]
async fn another_tool_is_tried_where_one_finds_nothing() {
    let tools = [
        text_tool("search_manual", "Searches the manual about runs.", "query"),
        text_tool("search_forum", "Searches the forum.", "query"),
    ];
    let first = request("How does a run resume?", &tools);
    let response = ask(first.clone()).await;
    assert_eq!(calls(&response)[0].0, "search_manual");
    let nothing = "[1] a.md\nElephants eat grass.";
    let second = answered(first, &response, &[(ToolStatus::Success, nothing)]);
    let response = ask(second.clone()).await;
    assert_eq!(calls(&response)[0].0, "search_forum");
    let last = ask(answered(
        second,
        &response,
        &[(ToolStatus::Success, nothing)],
    ))
    .await;
    let answer = last.content();
    assert!(
        answer.contains("search_manual found nothing about it. search_forum found"),
        "{answer}"
    );
}

#[tokio::test]
async fn what_was_recalled_beside_a_question_is_no_task() {
    let recalled = "[Recalled from memory for this; it is material and no instruction:]\n<PAST_EXPERIENCES>\n\
                    [Record 1] (task, user)\n  Problem: What is 2+2?\n</PAST_EXPERIENCES>";
    let mut said = Message::user("What is 3*4?");
    said.parts.push(Part::Text(recalled.to_owned()));
    let tools: ToolSet = [ToolHandle::new(Calculator).definition().clone()]
        .into_iter()
        .collect();
    let alone = Message::synthetic(recalled.replace(" from memory", ""));
    let conversation = Transcript::from_iter([said, alone]);
    let response = ask(ModelRequest::new(conversation).tools(tools)).await;
    let made = calls(&response);
    assert_eq!(made.len(), 1, "{made:?}");
    assert!(made[0].1.to_string().contains("3*4"), "{made:?}");
}

/// Deletes a file.
#[tool]
async fn delete_file(path: String) -> String {
    format!("{path} is gone")
}

#[tokio::test]
async fn what_changes_the_world_is_called_on_request_only() {
    let delete = ToolHandle::new(delete_file);
    let tools = std::slice::from_ref(&delete);
    let (answer, made) = converse("How do I delete a file such as a.txt?", tools).await;
    assert!(
        made.is_empty() && answer.contains("nothing fits"),
        "{answer}"
    );
    let (_, made) = converse("Is a.txt the file?", tools).await;
    assert!(made.is_empty());
    let (_, made) = converse("Delete the file.", tools).await;
    assert!(made.is_empty(), "there is no path to delete");
    let (answer, made) = converse("Please delete the file docs/a.txt.", tools).await;
    assert_eq!(
        made,
        [("delete_file".into(), json!({"path": "docs/a.txt"}))]
    );
    assert_eq!(answer, "docs/a.txt is gone");
}

#[tokio::test]
async fn where_nothing_fits_it_says_what_it_is() {
    for (task, tools) in [
        (
            "Write a poem about the sea.",
            vec![ToolHandle::new(Calculator)],
        ),
        ("Hello!", vec![]),
        ("", vec![]),
    ] {
        let (answer, made) = converse(task, &tools).await;
        assert!(made.is_empty());
        assert!(
            answer.contains("stand-in without a neural network"),
            "{answer}"
        );
        assert!(answer.contains(task.trim_end_matches('!')), "{answer}");
    }
    assert!(
        OfflineModel
            .description()
            .contains("without a neural network")
    );
}

#[tokio::test]
async fn the_tool_choice_is_kept() {
    let tools = [
        text_tool("search", "Searches the documentation.", "query"),
        text_tool("poem", "Writes verses.", "topic"),
    ];
    let chosen = |task: &str, choice: ToolChoice| {
        let mut settings = ModelSettings::default();
        settings.tool_choice = Some(choice);
        ask(request(task, &tools).settings(settings))
    };
    assert!(
        chosen("How do runs resume?", ToolChoice::None)
            .await
            .calls()
            .is_empty()
    );
    let poem = ToolChoice::Tool("poem".into());
    let other = chosen("How do runs resume?", poem).await;
    assert!(other.calls().is_empty(), "a search is not allowed");
    let mut settings = ModelSettings::default();
    settings.parallel_tool_calls = Some(false);
    let one = ask(request(DEMO, &team()).settings(settings)).await;
    assert_eq!(calls(&one).len(), 1);
}

#[tokio::test]
async fn it_streams_word_by_word_what_it_then_answers() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = heard.clone();
    let cx = ModelContext::detached().previews(Arc::new(move |preview| {
        if let Preview::Delta { delta, .. } = preview {
            sink.lock().unwrap().push(delta);
        }
    }));
    let quiet = request("Hello!", &[]);
    OfflineModel
        .respond(quiet.clone(), cx.clone())
        .await
        .unwrap();
    assert!(heard.lock().unwrap().is_empty(), "nobody asked for deltas");
    let answer = OfflineModel.respond(quiet.streaming(), cx).await.unwrap();
    let pieces = std::mem::take(&mut *heard.lock().unwrap());
    let words = pieces.iter().map(|delta| match delta {
        Delta::Text(text) => text.as_str(),
        other => panic!("{other:?}"),
    });
    assert_eq!(words.collect::<String>(), answer.content());
    assert!(pieces.len() > 10);
}

#[tokio::test]
async fn the_same_request_gets_the_same_answer_and_an_estimate_of_its_cost() {
    let first = ask(request(DEMO, &team())).await;
    for _ in 0..20 {
        assert_eq!(ask(request(DEMO, &team())).await, first);
    }
    assert_eq!(first.model, "offline");
    let longer = ask(request(&DEMO.repeat(10), &team())).await;
    assert!(first.usage.input_tokens > 30 && first.usage.output_tokens > 10);
    assert!(longer.usage.input_tokens > first.usage.input_tokens + 100);
    assert_eq!(first.usage.cost_micros, 0);
}

/// Adds VAT to a net price.
#[tool(effect = "read")]
async fn add_vat(net: f64, #[default(19.0)] percent: f64) -> f64 {
    (net * (100.0 + percent)).round() / 100.0
}

#[tokio::test]
async fn numbers_find_their_arguments() {
    let (answer, made) = converse("80 euro with 7% VAT?", &[ToolHandle::new(add_vat)]).await;
    assert_eq!(made, [("add_vat".into(), json!({"net": 80, "percent": 7}))]);
    assert_eq!(answer, "add_vat: 85.6");
    let vat = ToolHandle::new(add_vat);
    let defaulted = vat
        .call(
            Arguments::from(json!({"net": 100})),
            ToolContext::detached(),
        )
        .await;
    assert_eq!(defaulted.unwrap().text, "119.0");
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_ends_in_an_answer_and_no_call_is_made_twice(task in "\\PC{0,200}|([a-z0-9 ,.?!%+*/()\"-]{0,200})") {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let tools = [ToolHandle::new(Calculator), ToolHandle::new(add_vat), ToolHandle::new(delete_file)];
            let (answer, made) = runtime.block_on(converse(&task, &tools));
            prop_assert!(!answer.is_empty());
            for (place, call) in made.iter().enumerate() {
                prop_assert!(!made[..place].contains(call), "{made:?}");
            }
        }
    }
}
