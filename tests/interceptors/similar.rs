//! The cache that gives the answer to another question that means the same.

use ghostlight::{
    contract::{Embedder, Embedding, EmbeddingKind, EmbeddingPurpose, EmbeddingSpace, ModelError},
    interceptors::Cache,
    run::{Agent, Intercept, RunContext},
    vocabulary::{ErrorKind, Message, Outcome, Transcript},
};

use super::{Act, Script, asking, ends, seconds};

/// Knows two words for a lamp, and fails where it is told to.
struct Synonyms;

impl Embedder for Synonyms {
    fn space(&self) -> EmbeddingSpace {
        EmbeddingSpace::new("synonyms", 2, EmbeddingKind::Semantic)
    }

    async fn embed(
        &self,
        texts: &[&str],
        _: EmbeddingPurpose,
    ) -> Result<Vec<Embedding>, ModelError> {
        if texts.iter().any(|text| text.contains("broken")) {
            return Err(ModelError::new(ErrorKind::Overloaded, "down"));
        }
        let vector = |text: &&str| match text.contains("lamp") || text.contains("light") {
            true => vec![1.0, 0.0],
            false => vec![0.0, 1.0],
        };
        Ok(texts.iter().map(vector).collect())
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_means_the_same_has_the_answer_of_the_other() {
    let model = Script::new(&[Act::Answers]);
    let cache = || {
        vec![Intercept::new(
            Cache::new(seconds(60), 9).similar(Synonyms, 0.95),
        )]
    };
    let questions = &["the lamp?", "the light?", "the chair?", "broken lamp?"];
    let told = ends(asking(questions), model.clone(), cache()).await;
    let expected = [
        "to the lamp? (1 attempts, 50 tokens)",
        "to the lamp? (0 attempts, 0 tokens)",
        "to the chair? (1 attempts, 50 tokens)",
        // Without a vector only the same request has the same answer.
        "to broken lamp? (1 attempts, 50 tokens)",
    ];
    assert_eq!(told, expected);
    // Other instructions are another request, whatever the question means.
    let model = Script::new(&[Act::Answers]);
    let agent = Agent::from_fn("a", |cx: RunContext| async move {
        for instructions in ["be kind", "be brief", "be kind"] {
            let conversation = Transcript::from_iter([Message::user("the lamp?")]);
            let request = cx.model_request(conversation).instructions(instructions);
            cx.model(request).await?;
        }
        Ok(Outcome::answer("[]"))
    });
    ends(agent, model.clone(), cache()).await;
    assert_eq!(model.made(), 2);
}

#[cfg(feature = "retrieval")]
#[test]
fn a_team_file_says_how_like_questions_must_be() {
    let check = |cache: &str| {
        let text = format!(
            "models: {{ default: {{ provider: offline }} }}\ninterceptors: [{{ name: cache, {cache} }}]\nagent: {{ name: a }}\n"
        );
        let team = ghostlight::config::parse(text, "team.yaml").unwrap();
        let resolved = team.resolve(ghostlight::builtin());
        resolved.map(drop).map_err(|error| error.to_string())
    };
    check("similar: 0.95").unwrap();
    check("similar: 0.9, ttl_s: 60, embedder: { provider: lexical }").unwrap();
    for wrong in [
        "similar: 2",
        "similar: yes",
        "embedder: { provider: lexical }",
        "similar: 0.9, embedder: { provider: none }",
    ] {
        check(wrong).unwrap_err();
    }
}
