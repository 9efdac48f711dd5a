//! An embedder that a team file names for a memory.

use ghostlight::prelude::*;
use serde_json::{Value, json};

use crate::stage::{obedient, recalled, say, team_of};

fn desk(embedder: Value) -> Value {
    json!({ "name": "desk", "behavior": "function_calling", "memory": { "embedder": embedder } })
}

#[tokio::test(start_paused = true)]
async fn with_a_lexical_embedder_a_memory_is_found_by_parts_of_words() {
    for (memory, is_found) in [
        (desk(json!({ "provider": "lexical" })), true),
        (
            json!({ "name": "desk", "behavior": "function_calling", "memory": {} }),
            false,
        ),
    ] {
        let model = obedient();
        let system = System::builder(InMemoryStore::new())
            .registry(ghostlight::builtin())
            .model("default", model.clone())
            .team(team_of(&memory))
            .start()
            .await
            .unwrap();
        let add = json!({ "action": "add", "content": "Heizungsmonteur, Heizungsmonteurin, Heizungsmonteurinnen" });
        say(&system, "one", "ada", &add.to_string()).await;
        // No word of it stands in the memory.
        say(
            &system,
            "two",
            "ada",
            "Heizungsmonteuren Heizungsmonteurei Heizungsmonteursfrau",
        )
        .await;
        assert_eq!(
            recalled(&model).contains("Heizungsmonteurinnen"),
            is_found,
            "{}",
            recalled(&model)
        );
        system.stop().await.unwrap();
    }
}

#[tokio::test]
async fn an_embedder_that_cannot_be_is_refused_with_its_setting_when_the_team_is_resolved() {
    for (embedder, why) in [
        (
            json!({ "provider": "lexical", "dimension": 0 }),
            "the dimension 0 is not from 1",
        ),
        (json!({ "provider": "telepathy" }), "telepathy"),
        (
            json!({ "provider": "lexical", "dimensions": 3 }),
            "dimensions",
        ),
        (json!("lexical"), "embedder"),
    ] {
        let started = System::builder(InMemoryStore::new())
            .registry(ghostlight::builtin())
            .model("default", obedient())
            .team(team_of(&desk(embedder.clone())))
            .start()
            .await;
        let error = started
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            error.contains(why) && error.contains("memory"),
            "{embedder}: {error}"
        );
    }
}
