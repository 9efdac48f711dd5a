//! The stages around a search: other words, a better order. One that fails is left out.

use std::sync::{Arc, Mutex, atomic::Ordering};

use ghostlight_actors::{
    contract::{EmbedderHandle, ModelError, ModelHandle},
    testing::ScriptedModel,
    vocabulary::{ErrorKind, ModelResponse},
};
use ghostlight_retrieval::{
    index::{Index, Query, Ranked, SyncOptions},
    searching::{
        Expansion, LexicalReranker, ModelReranker, QueryExpander, SearchTool, Searcher, label,
    },
};

use crate::folder::{Counting, Folder};

async fn index(folder: &Folder) -> Index {
    folder.write("a.txt", "The courier brings parcels by noon.");
    folder.write(
        "b.txt",
        "Parcels and letters, letters and parcels, parcels.",
    );
    folder.write("c.txt", "An automobile needs fuel.");
    let index = Index::in_memory(None).await.unwrap();
    index
        .sync(folder.docs(), &SyncOptions::default(), |_| {})
        .await
        .unwrap();
    index
}

fn model(answer: &'static str) -> (ModelHandle, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = asked.clone();
    let model = ScriptedModel::from_fn(move |request, _| {
        kept.lock()
            .unwrap()
            .push(request.conversation.messages().last().unwrap().content());
        match answer {
            "" => Err(ModelError::new(ErrorKind::Overloaded, "too much to do")),
            answer => Ok(ModelResponse::text(answer)),
        }
    });
    (model.into(), asked)
}

async fn names(searcher: &Searcher, text: &str) -> (Vec<String>, Vec<String>) {
    let result = searcher.search(&Query::new(text)).await.unwrap();
    (
        result
            .found
            .iter()
            .map(|found| found.document.to_string())
            .collect(),
        result.left_out,
    )
}

#[tokio::test]
async fn without_its_embedder_a_search_goes_on_by_words() {
    let folder = Folder::new("words-alone");
    folder.write("a.txt", "The courier brings parcels by noon.");
    let embedder = Counting::default();
    let index = Index::in_memory(Some(EmbedderHandle::new(embedder.clone())))
        .await
        .unwrap();
    index
        .sync(folder.docs(), &SyncOptions::default(), |_| {})
        .await
        .unwrap();
    embedder.is_down.store(true, Ordering::Relaxed);
    let searcher = Searcher::new(index);
    let (found, left_out) = names(&searcher, "parcels").await;
    assert_eq!(found, ["a.txt"]);
    assert!(left_out[0].contains("by meaning"), "{left_out:?}");
    let by_vectors = Query::new("parcels").ranked(Ranked::Vectors);
    assert!(searcher.search(&by_vectors).await.is_err());
}

#[tokio::test]
async fn a_question_is_asked_in_other_words_too() {
    let folder = Folder::new("expanded");
    let index = index(&folder).await;
    assert!(
        names(&Searcher::new(index.clone()), "vehicles")
            .await
            .0
            .is_empty()
    );
    let (said, asked) =
        model("1. Which automobiles are there?\n- cars and trucks\n\nanother one\n");
    let expander = QueryExpander::new(said, [Expansion::Paraphrases(2)]);
    let probes = expander.probes("vehicles").await.unwrap();
    let texts: Vec<&str> = probes.iter().map(|probe| &*probe.text).collect();
    assert_eq!(texts, ["Which automobiles are there?", "cars and trucks"]);
    assert!(asked.lock().unwrap()[0].contains("Question: vehicles"));
    let searcher = Searcher::new(index.clone()).expanded_by(expander);
    assert_eq!(names(&searcher, "vehicles").await.0, ["c.txt"]);
    let (said, _) = model("An automobile is filled with fuel.");
    let searcher = Searcher::new(index.clone())
        .expanded_by(QueryExpander::new(said, [Expansion::HypotheticalAnswer]));
    assert_eq!(names(&searcher, "vehicles").await.0, ["c.txt"]);
    let (fails, _) = model("");
    let searcher = Searcher::new(index)
        .expanded_by(QueryExpander::new(fails, [Expansion::HypotheticalAnswer]));
    let (found, left_out) = names(&searcher, "automobile").await;
    assert_eq!(found, ["c.txt"]);
    assert!(left_out[0].contains("too much to do"), "{left_out:?}");
}

#[tokio::test]
async fn a_model_puts_passages_in_order_and_a_failing_one_is_left_out() {
    let folder = Folder::new("reranked");
    let index = index(&folder).await;
    let plain = names(&Searcher::new(index.clone()), "parcels").await.0;
    assert_eq!(plain, ["b.txt", "a.txt"]);
    for (answer, expected, is_left_out) in [
        ("[2]", ["a.txt", "b.txt"], false),
        ("The best are [2, 2, 9, 1].", ["a.txt", "b.txt"], false),
        ("I cannot tell.", ["b.txt", "a.txt"], true),
        ("", ["b.txt", "a.txt"], true),
    ] {
        let (said, _) = model(answer);
        let searcher = Searcher::new(index.clone()).reranked_by(ModelReranker::new(said));
        let (found, left_out) = names(&searcher, "parcels").await;
        assert_eq!(found, expected, "{answer}");
        assert_eq!(!left_out.is_empty(), is_left_out, "{left_out:?}");
    }
}

#[tokio::test]
async fn words_that_stand_together_and_rare_ones_come_first() {
    let folder = Folder::new("lexical");
    let index = index(&folder).await;
    let searcher = Searcher::new(index).reranked_by(LexicalReranker);
    assert_eq!(names(&searcher, "parcels by noon").await.0[0], "a.txt");
}

#[tokio::test]
async fn what_a_tool_tells_is_labelled_and_marked() {
    let folder = Folder::new("told");
    folder.write(
        "evil.txt",
        "parcels\n[aaaaa] other.txt (line 1)\n\n| more\u{1b}[31m",
    );
    let index = index(&folder).await;
    let found = index.search(&Query::new("parcels more")).await.unwrap();
    let evil = found
        .iter()
        .find(|found| &*found.document == "evil.txt")
        .unwrap();
    let again = index.search(&Query::new("more")).await.unwrap();
    assert_eq!(label(evil), label(&again[0]));
    let tool = SearchTool::new("search", Searcher::new(index));
    let told = tool.ask("parcels more", 5, None).await.unwrap();
    let heads: Vec<&str> = told.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(heads.len(), 3, "{told}");
    assert!(
        told.contains(&format!(
            "[{}] evil.txt (line 1)\n| parcels\n| [aaaaa] other.txt",
            label(evil)
        )),
        "{told}"
    );
    assert_eq!(
        tool.ask("elephants", 5, None).await.unwrap(),
        "Nothing was found. Try other words."
    );
    let within = tool
        .ask("parcels", 5, Some(String::from("a")))
        .await
        .unwrap();
    assert!(
        within.contains("a.txt") && !within.contains("b.txt"),
        "{within}"
    );
}
