//! Searches that ask the agent's model: its calls are operations of the run.

use ghostlight::{
    contract::ModelError,
    prelude::*,
    testing::ScriptedModel,
    vocabulary::{Budget, ErrorKind, ToolCall},
};
use serde_json::json;

use crate::{folder::Folder, started};

fn docs(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("a.txt", "The courier brings parcels by noon.");
    folder.write(
        "b.txt",
        "Parcels and letters, letters and parcels, parcels.",
    );
    folder.write("c.txt", "An automobile needs fuel.");
    folder
}

async fn desk(folder: &Folder, settings: &str, model: &ScriptedModel) -> System {
    let folder = folder.docs();
    let folder = folder.to_str().unwrap();
    let text = format!(
        "tools:\n  handbook: {{ kind: document_search, folder: {folder}, {settings} }}\n\
         agent: {{ name: desk, tools: [handbook] }}\n"
    );
    started(ghostlight::config::parse(text, "team.yaml").unwrap(), model).await
}

/// Searches once and answers with what was found; says this when the search asks it something.
fn model(says: fn(&str) -> Option<&'static str>) -> ScriptedModel {
    ScriptedModel::from_fn(move |request, number| {
        let last = request.conversation.last().unwrap();
        if let Some(result) = last.tool_results().next() {
            return Ok(ModelResponse::text(result.text.as_str()));
        }
        let said = last.content();
        if said == "go" {
            let call = ToolCall::new(
                format!("c{number}"),
                "handbook",
                json!({ "query": "parcels" }),
            );
            return Ok(ModelResponse::tool_calls([call]));
        }
        match says(&said) {
            Some(text) => Ok(ModelResponse::text(text)),
            None => Err(ModelError::new(ErrorKind::Model, "no words today")),
        }
    })
}

#[tokio::test]
async fn other_wordings_a_sketched_answer_and_a_better_order_are_calls_of_the_run() {
    let folder = docs("staged");
    let model = model(|said| {
        Some(match said {
            said if said.contains("other ways to ask") => "vehicles with fuel",
            said if said.contains("passage of a document") => "An automobile is filled with fuel.",
            said if said.contains("Which of these passages") => {
                let passages = said.lines().filter(|line| line.starts_with("Passage "));
                let place = passages
                    .clone()
                    .position(|line| line.contains("a.txt"))
                    .unwrap();
                // It found the third one by the other wordings alone.
                assert_eq!(passages.count(), 3, "{said}");
                ["[1]", "[2]", "[3]"][place]
            }
            said => panic!("{said}"),
        })
    });
    let settings = "queries: 1, hypothetical_answer: true, rerank: model";
    let system = desk(&folder, settings, &model).await;
    let run = system.session("desk", "s").send("go").await.unwrap();
    let (outcome, spent) = run.outcome_and_spent().await.unwrap();
    let told = outcome.text().to_owned();
    let heads: Vec<&str> = told.lines().filter(|line| line.starts_with('[')).collect();
    assert!(heads[0].contains("a.txt"), "{told}");
    assert!(heads.iter().any(|head| head.contains("c.txt")), "{told}");
    assert!(!told.contains("Left out"), "{told}");
    // Two requests of the agent, three of the search: each is charged.
    assert_eq!(model.calls(), 5);
    assert_eq!(spent.model_calls, 5);
    system.stop().await.unwrap();
}

#[tokio::test]
async fn a_stage_that_its_model_or_budget_fails_is_left_out_and_told() {
    let folder = docs("staged-failing");
    let model = model(|_| None);
    let system = desk(&folder, "queries: 2, rerank: model", &model).await;
    let told = system.session("desk", "s").ask("go").await.unwrap().text;
    assert!(told.contains("b.txt") && told.contains("a.txt"), "{told}");
    assert!(
        told.contains("(Left out: other words for the question: "),
        "{told}"
    );
    assert!(told.contains("(Left out: a better order: "), "{told}");
    // The budget ends the run where it always did: the search takes none of it in secret.
    let budget = Budget {
        model_calls: Some(1),
        ..Budget::default()
    };
    let turn = Turn::text("go").budget(budget);
    let run = system.session("desk", "t").send(turn).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert!(matches!(outcome, Outcome::Stopped { .. }), "{outcome:?}");
    system.stop().await.unwrap();
}

#[tokio::test]
async fn passages_that_are_recalled_are_put_in_order_by_a_call_of_the_run() {
    let folder = docs("staged-recall");
    let path = folder.docs();
    let text = format!(
        "agent:\n  name: desk\n  policies:\n    - {{ name: recall_documents, folder: {}, rerank: model, limit: 1 }}\n",
        path.to_str().unwrap()
    );
    let model = ScriptedModel::from_fn(|request, _| {
        let said = request.conversation.last().unwrap().content();
        Ok(match said.contains("Which of these passages") {
            true => {
                let passages = said.lines().filter(|line| line.starts_with("Passage "));
                let mut passages = passages;
                let place = passages.position(|line| line.contains("a.txt")).unwrap();
                ModelResponse::text(["[1]", "[2]", "[3]"][place])
            }
            false => ModelResponse::text(said),
        })
    });
    let team = ghostlight::config::parse(text, "team.yaml").unwrap();
    let system = started(team, &model).await;
    let told = system
        .session("desk", "s")
        .ask("parcels")
        .await
        .unwrap()
        .text;
    assert!(told.contains("a.txt") && !told.contains("b.txt"), "{told}");
    assert_eq!(model.calls(), 2);
    system.stop().await.unwrap();
}
