//! What is found, and in which order.

use ghostlight_actors::{
    contract::{Embedder, Embedding, EmbeddingKind, EmbeddingPurpose, EmbeddingSpace, ModelError},
    vocabulary::ErrorKind,
};
use ghostlight_memory::{
    Memory, MemoryKind, MemoryPatch, MemoryQuery, MemoryScope, NewMemory, Triple,
};

use crate::stage::{fact, once, session};

#[tokio::test(start_paused = true)]
async fn a_fact_is_found_in_every_script_changed_and_forgotten() {
    let found = once(|cx| async move {
        let memory = session(&cx);
        for text in [
            "Ada's favourite lamp is green 🙂",
            "我最喜欢的灯是绿色的",
            "المصباح المفضل أخضر",
            "The invoice of March is open",
        ] {
            memory.add(fact(text).importance(0.5)).await?;
        }
        let mut told = Vec::new();
        for asked in [
            "Which lamp does Ada like?",
            "绿色的灯",
            "المصباح",
            "invoices in march",
        ] {
            let hits = memory.search(MemoryQuery::new(asked).k(1)).await?;
            told.push(hits[0].item.content.clone());
        }
        let hit = memory.search(MemoryQuery::new("lamp")).await?.remove(0);
        assert_eq!(hit.item.accesses, 2, "a hit is a use");
        let id = hit.item.id;
        memory
            .update(id.as_str(), MemoryPatch::content("Ada likes blue"))
            .await?;
        assert!(
            memory
                .search(MemoryQuery::new("green lamp"))
                .await?
                .is_empty()
        );
        assert_eq!(
            memory.get(id.as_str()).await?.unwrap().content,
            "Ada likes blue"
        );
        assert!(memory.remove(id.as_str()).await?);
        assert!(!memory.remove(id.as_str()).await?);
        assert!(memory.get(id.as_str()).await?.is_none());
        assert!(memory.search(MemoryQuery::new("  ")).await.is_err());
        let stats = memory.stats().await?;
        assert_eq!((stats.items, stats.kinds[&MemoryKind::Semantic]), (3, 3));
        Ok(told.join("|"))
    });
    assert_eq!(
        found.await,
        "Ada's favourite lamp is green 🙂|我最喜欢的灯是绿色的|المصباح المفضل أخضر|\
         The invoice of March is open"
    );
}

#[tokio::test(start_paused = true)]
async fn a_fact_about_the_same_takes_the_earlier_ones_place_and_near_duplicates_are_one() {
    once(|cx| async move {
        let memory = session(&cx);
        let city = |text: &str| NewMemory::fact(text).about("where Ada lives");
        let first = memory.add(city("Ada lives in Paris")).await?;
        let again = memory.add(city("Ada moved to Köln")).await?;
        assert!(!first.merged && again.merged);
        assert_eq!(first.item.id, again.item.id);
        let items = memory.list([]).await?;
        assert_eq!(items.len(), 1);
        let json = serde_json::to_value(&items[0]).unwrap();
        assert_eq!(json["content"], "Ada moved to Köln");
        assert_eq!(json["detail"]["earlier"][0], "Ada lives in Paris");
        // It is traced to the entry that says so.
        assert_eq!(json["source"]["run"], cx.run().to_string());
        memory
            .add(fact("The server of the lab restarts each Monday at noon").importance(0.9))
            .await?;
        let near = memory
            .add(fact("the server of the lab restarts each monday, at noon!"))
            .await?;
        assert!(near.merged);
        assert_eq!(near.item.importance, 0.9);
        assert!(
            !memory
                .add(fact("The server of the lab never restarts"))
                .await?
                .merged
        );
        assert_eq!(memory.list([]).await?.len(), 3);
        Ok(String::new())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_fact_does_not_change_what_happened_about_the_same() {
    once(|cx| async move {
        let memory = session(&cx);
        let happened = NewMemory::of(MemoryKind::Working, "Ada showed her flat in Paris");
        let happened = memory.add(happened.about("where Ada lives").importance(0.9));
        let happened = happened.await?.item.id;
        memory.consolidate(0.7, std::time::Duration::ZERO).await?;
        let fact = NewMemory::fact("Ada lives in Köln").about("where Ada lives");
        let added = memory.add(fact).await?;
        assert!(!added.merged);
        let before = memory.get(happened).await?.unwrap();
        assert_eq!(before.kind, MemoryKind::Episodic);
        assert_eq!(before.content, "Ada showed her flat in Paris");
        Ok(String::new())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn tags_narrow_a_search_and_kinds_do() {
    once(|cx| async move {
        let memory = session(&cx);
        memory
            .add(fact("rust has lifetimes").tag("Rust").tag("language"))
            .await?;
        memory
            .add(fact("go has goroutines").tag("go").tag("language"))
            .await?;
        memory
            .add(NewMemory::of(MemoryKind::Working, "rust builds now").tag("rust"))
            .await?;
        let ids = |hits: Vec<ghostlight_memory::MemoryHit>| {
            hits.into_iter()
                .map(|hit| hit.item.content)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            ids(memory.search(MemoryQuery::new("tag:go")).await?),
            ["go has goroutines"]
        );
        let either = memory
            .search(MemoryQuery::new("tag:go,rust lifetimes"))
            .await?;
        assert_eq!(ids(either)[0], "rust has lifetimes");
        let query = MemoryQuery::new("rust").kind(MemoryKind::Working);
        assert_eq!(ids(memory.search(query).await?), ["rust builds now"]);
        Ok(String::new())
    })
    .await;
}

/// Knows two words for the same thing, and fails where it is told to.
struct Synonyms;

impl Embedder for Synonyms {
    fn space(&self) -> EmbeddingSpace {
        EmbeddingSpace::new("synonyms-1", 3, EmbeddingKind::Semantic)
    }

    async fn embed(
        &self,
        texts: &[&str],
        _: EmbeddingPurpose,
    ) -> Result<Vec<Embedding>, ModelError> {
        if texts.iter().any(|text| text.contains("broken")) {
            return Err(ModelError::new(ErrorKind::Model, "the embedder is down"));
        }
        let has = |text: &str, words: &[&str]| {
            f32::from(u8::from(words.iter().any(|word| text.contains(word))))
        };
        let vector = |text: &&str| {
            vec![
                has(text, &["car", "automobile"]),
                has(text, &["lamp", "light"]),
                0.1,
            ]
        };
        Ok(texts.iter().map(vector).collect())
    }
}

#[tokio::test(start_paused = true)]
async fn with_an_embedder_things_are_found_by_meaning_and_without_it_by_words() {
    once(|cx| async move {
        // Written by one who has no embedder: it gets its vector with a later search.
        session(&cx).add(fact("her automobile is red")).await?;
        session(&cx).add(fact("the light is on")).await?;
        let memory = Memory::new("memory").embedder(Synonyms);
        let memory = memory.on(&cx, MemoryScope::Session);
        memory.search(MemoryQuery::new("warm up")).await?;
        let hits = memory.search(MemoryQuery::new("car").k(1)).await?;
        assert_eq!(hits[0].item.content, "her automobile is red");
        // A search whose embedder fails is one by words.
        let hits = memory.search(MemoryQuery::new("broken light").k(1)).await?;
        assert_eq!(hits[0].item.content, "the light is on");
        Ok(String::new())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_search_that_counts_no_use_makes_the_vectors_that_are_missing() {
    once(|cx| async move {
        session(&cx).add(fact("her automobile is red")).await?;
        let memory = Memory::new("memory").embedder(Synonyms);
        let memory = memory.on(&cx, MemoryScope::Session);
        let asked = || MemoryQuery::new("car").unseen();
        memory.search(asked()).await?;
        let hits = memory.search(asked()).await?;
        assert_eq!(hits[0].item.content, "her automobile is red");
        assert_eq!(hits[0].item.accesses, 0);
        Ok(String::new())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_walk_begins_at_the_entity_that_is_meant() {
    once(|cx| async move {
        let memory = Memory::new("memory").embedder(Synonyms);
        let memory = memory.on(&cx, MemoryScope::Session);
        for (from, to) in [("automobile", "garage"), ("lamp", "hall")] {
            memory.relate(Triple::new(from, "stands in", to)).await?;
        }
        let found = memory.walk("the car", 1).await?;
        let told: Vec<&str> = found.iter().map(|found| found.triple.to.as_str()).collect();
        assert_eq!(told, ["garage"]);
        // By its own name it is found in any case.
        assert_eq!(memory.walk("LAMP", 1).await?.len(), 1);
        // Without an embedder, or where it fails, names alone count.
        assert!(memory.walk("broken car", 1).await?.is_empty());
        assert!(session(&cx).walk("the car", 1).await?.is_empty());
        Ok(String::new())
    })
    .await;
}
