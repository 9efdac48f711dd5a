//! A registry knows the agents that announced themselves a moment ago, and lets nobody speak for another.

use std::time::Duration;

use ghostlight_anp::{Announcement, Registry, RegistryError};
use proptest::prelude::*;
use serde_json::json;

fn service(id: &str, kind: &str, health: f64, load: f64) -> Announcement {
    let value = json!({
        "id": id, "type": kind, "health": health, "load": load, "capabilities": ["text", id], "ttl_s": 10,
    });
    serde_json::from_value(value).unwrap()
}

fn ids(found: &[ghostlight_anp::Service]) -> Vec<&str> {
    found
        .iter()
        .map(|service| service.announcement.id.as_str())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn services_are_found_by_type_and_capabilities_and_the_best_has_the_highest_score() {
    let registry = Registry::default();
    // health / (1 + load), where a health that is not above 0 counts as 1.
    for (id, kind, health, load, score) in [
        ("c", "poet", 1.0, 1.0, 0.5),
        ("a", "poet", 0.0, 0.0, 1.0),
        ("b", "poet", -3.0, 0.25, 0.8),
        ("d", "clerk", 8.0, 1.0, 4.0),
    ] {
        let announced = registry
            .announce(None, service(id, kind, health, load))
            .unwrap();
        assert_eq!(announced.score, score);
    }
    assert_eq!(ids(&registry.discover(Some("poet"), &[])), ["a", "b", "c"]);
    assert_eq!(
        ids(&registry.discover(None, &["text"])),
        ["a", "b", "c", "d"]
    );
    assert_eq!(ids(&registry.discover(Some("poet"), &["text", "b"])), ["b"]);
    assert!(registry.discover(Some("nobody"), &[]).is_empty());
    assert_eq!(
        registry.best(Some("poet"), &[]).unwrap().announcement.id,
        "a"
    );
    assert_eq!(registry.best(None, &[]).unwrap().announcement.id, "d");
    let busy = registry.best_by(Some("poet"), &[], |service| service.announcement.load);
    assert_eq!(busy.unwrap().announcement.id, "c");
    // Of equal ones the first.
    assert_eq!(
        registry
            .best_by(None, &[], |_| 0.0)
            .unwrap()
            .announcement
            .id,
        "a"
    );
    let statistics = registry.statistics();
    assert_eq!((statistics.services, statistics.types["poet"]), (4, 3));
    assert_eq!(statistics.mean_load, 2.25 / 4.0);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_silent_is_gone() {
    let registry = Registry::default();
    registry
        .announce(None, service("a", "poet", 1.0, 0.0))
        .unwrap();
    tokio::time::advance(Duration::from_secs(6)).await;
    let again = registry
        .announce(None, service("a", "poet", 1.0, 3.0))
        .unwrap();
    assert_eq!((again.score, again.ends_in_s), (0.25, 10));
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!(registry.discover(None, &[]).len(), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(registry.discover(None, &[]).is_empty());
    assert_eq!(registry.statistics().services, 0);
    assert_eq!(registry.withdraw(None, "a"), Ok(false));
}

#[tokio::test(start_paused = true)]
async fn nobody_speaks_for_another() {
    let registry = Registry::default();
    registry
        .announce(Some("ada"), service("a", "poet", 1.0, 0.0))
        .unwrap();
    for other in [None, Some("bob")] {
        let foreign = Err(RegistryError::Foreign("a".to_owned()));
        assert_eq!(
            registry
                .announce(other, service("a", "poet", 9.0, 0.0))
                .map(|_| ()),
            foreign
        );
        assert_eq!(registry.withdraw(other, "a").map(|_| ()), foreign);
    }
    assert_eq!(registry.withdraw(Some("ada"), "a"), Ok(true));
    registry
        .announce(Some("bob"), service("a", "poet", 1.0, 0.0))
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_owner_cannot_fill_it_and_it_has_its_bounds() {
    let registry = Registry::default();
    for at in 0..100 {
        registry
            .announce(Some("ada"), service(&format!("a{at}"), "poet", 1.0, 0.0))
            .unwrap();
    }
    let more = registry.announce(Some("ada"), service("more", "poet", 1.0, 0.0));
    assert_eq!(more.unwrap_err(), RegistryError::Full);
    registry
        .announce(Some("bob"), service("b", "poet", 1.0, 0.0))
        .unwrap();
    let long = "x".repeat(20_000);
    for wrong in [
        json!({ "id": "", "type": "t" }),
        json!({ "id": "a\n", "type": "t" }),
        json!({ "id": "x".repeat(201), "type": "t" }),
        json!({ "id": "x", "type": "" }),
        json!({ "id": "x", "type": "t", "load": -1 }),
        json!({ "id": "x", "type": "t", "ttl_s": 4 }),
        json!({ "id": "x", "type": "t", "ttl_s": 3_601 }),
        json!({ "id": "x", "type": "t", "metadata": { "x": long } }),
    ] {
        let wrong: Announcement = serde_json::from_value(wrong).unwrap();
        let refused = registry.announce(None, wrong).unwrap_err();
        assert!(matches!(refused, RegistryError::Invalid(_)), "{refused}");
    }
}

proptest! {
    #[test]
    fn whatever_comes_and_goes_the_best_is_among_those_that_are_there(
        steps in prop::collection::vec((0..8_u8, 0..3_u8, -1.0..5.0_f64, 0.0..9.0_f64), 1..60),
    ) {
        let registry = Registry::default();
        for (id, kind, health, load) in steps {
            let (id, kind) = (format!("s{id}"), format!("k{kind}"));
            if load < 1.0 {
                let _ = registry.withdraw(None, &id);
            } else {
                registry.announce(None, service(&id, &kind, health, load)).unwrap();
            }
            let found = registry.discover(Some(&kind), &[]);
            prop_assert!(ids(&found).is_sorted());
            let best = registry.best(Some(&kind), &[]);
            let most = found.iter().map(|service| service.score).fold(f64::MIN, f64::max);
            prop_assert_eq!(best.map(|best| best.score), (!found.is_empty()).then_some(most));
        }
    }
}
