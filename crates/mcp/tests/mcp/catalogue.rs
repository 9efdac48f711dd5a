//! What a server has besides tools: resources, prompts and completion, and calls that are answered in another order.

use std::{sync::Arc, time::Duration};

use ghostlight_actors::{
    contract::{ToolContext, ToolErrorKind, Toolset},
    vocabulary::{Arguments, OperationId, Preview, RunId},
};
use ghostlight_mcp::Completing;
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{call, connected, names, peer::Peer, tool};

const WIRES: [&[(&str, &str)]; 2] = [&[], &[("new_wire", "")]];

#[tokio::test]
async fn resources_are_listed_and_read() {
    for (number, wire) in WIRES.into_iter().enumerate() {
        let peer = Peer::new(&format!("resources{number}"), wire);
        let toolset = connected(peer.settings()).await;
        let resources = toolset.resources().await.unwrap();
        assert_eq!(
            (resources.len(), resources[0].uri.as_str()),
            (1, "house://kitchen")
        );
        let templates = toolset.resource_templates().await.unwrap();
        assert_eq!(templates[0].uri, "house://{room}");
        let read = toolset.read_resource("house://kitchen").await.unwrap();
        assert_eq!((read.text.as_str(), read.attachments.len()), ("a stove", 1));
        toolset.disconnect().await;
    }
}

#[tokio::test]
async fn prompts_are_listed_and_filled_and_values_are_completed() {
    for (number, wire) in WIRES.into_iter().enumerate() {
        let peer = Peer::new(&format!("prompts{number}"), wire);
        let toolset = connected(peer.settings()).await;
        let prompts = toolset.prompts().await.unwrap();
        assert_eq!(prompts[0].arguments, [("room".to_owned(), true)]);
        let room = [("room".to_owned(), "cellar".to_owned())];
        let messages = toolset.prompt("tidy", room).await.unwrap();
        assert_eq!(messages[0].content(), "Tidy the cellar.");
        let of = Completing::Resource("house://{room}".to_owned());
        let completed = toolset.complete(of, "room", "k", []).await.unwrap();
        assert_eq!(completed, ["kitchen"]);
        toolset.disconnect().await;
    }
}

#[tokio::test]
async fn a_model_has_resources_and_prompts_as_tools_where_the_settings_say_so() {
    let peer = Peer::new("catalogue", &[]);
    let plain = connected(peer.settings()).await;
    assert!(!names(&plain).contains(&"read_resource".to_owned()));
    plain.disconnect().await;
    let toolset = connected(peer.settings().resources().prompts()).await;
    let call = async |name: &str, arguments| {
        let tool = tool(&toolset, name);
        let called = tool
            .call(Arguments::from(arguments), ToolContext::detached())
            .await;
        called.unwrap().text
    };
    let listed = call("list_resources", json!({})).await;
    assert!(
        listed.contains("house://kitchen") && listed.contains("house://{room}"),
        "{listed}"
    );
    assert_eq!(
        call("read_resource", json!({ "uri": "house://kitchen" })).await,
        "a stove"
    );
    assert!(call("list_prompts", json!({})).await.contains("tidy(room)"));
    let tidy = json!({ "name": "tidy", "arguments": { "room": "hall" } });
    assert_eq!(call("get_prompt", tidy).await, "Tidy the hall.");
    toolset.disconnect().await;
}

#[tokio::test]
async fn whoever_listens_to_a_resource_is_told_to_the_server_and_the_end_of_it_too() {
    let peer = Peer::new("updates", &[]);
    let toolset = connected(peer.settings()).await;
    let updates = toolset.resource_updates("house://kitchen").await.unwrap();
    peer.logs("resources/subscribe").await;
    drop(updates);
    peer.logs("resources/unsubscribe").await;
    toolset.disconnect().await;
}

#[tokio::test]
async fn two_calls_that_are_answered_in_the_other_order_have_their_own_answers() {
    for (number, wire) in WIRES.into_iter().enumerate() {
        let peer = Peer::new(&format!("swap{number}"), wire);
        peer.set("more", "");
        let toolset = connected(peer.settings()).await;
        let swap = tool(&toolset, "swap");
        let call = |text: &'static str| {
            let swap = swap.clone();
            async move {
                let arguments = Arguments::from(json!({ "text": text }));
                swap.call(arguments, ToolContext::detached())
                    .await
                    .unwrap()
                    .text
            }
        };
        let first = tokio::spawn(call("first"));
        peer.logs("swap").await;
        assert_eq!(call("second").await, "\"second\"");
        assert_eq!(first.await.unwrap(), "\"first\"");
        toolset.disconnect().await;
    }
}

/// Scenario 19 of the field's conformance list, over one connection of each wire.
#[tokio::test]
async fn one_connection_cancels_shows_progress_follows_its_server_and_tells_answers_apart() {
    for (number, wire) in WIRES.into_iter().enumerate() {
        let peer = Peer::new(&format!("all{number}"), wire);
        peer.set("more", "");
        let toolset = connected(peer.settings()).await;
        let no_arguments = || Arguments::from(json!({}));

        // A call shows its progress, and is cancelled while another one is under way.
        let (shown, cancel) = (Arc::new(Mutex::new(Vec::new())), CancellationToken::new());
        let (keeps, run) = (shown.clone(), RunId::from_random(1));
        let cx = ToolContext::new(run, OperationId::default(), "desk", cancel.clone())
            .previews(Arc::new(move |preview| keeps.lock().push(preview)));
        let slow = tool(&toolset, "slow");
        let cancelled = tokio::spawn(async move { slow.call(no_arguments(), cx).await });
        peer.logs("slow").await;
        let swap = tool(&toolset, "swap");
        let swapped = |text: &'static str| {
            let swap = swap.clone();
            async move {
                let arguments = Arguments::from(json!({ "text": text }));
                let called = swap.call(arguments, ToolContext::detached()).await;
                called.unwrap().text
            }
        };
        let first = tokio::spawn(swapped("first"));
        peer.logs("swap").await;
        while shown.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let is_quarter = |shown: &Preview| matches!(shown, Preview::ToolProgress { fraction: Some(done), .. } if *done == 0.25);
        assert!(shown.lock().iter().any(is_quarter), "{:?}", shown.lock());
        cancel.cancel();
        let error = cancelled.await.unwrap().unwrap_err();
        assert_eq!(error.kind, ToolErrorKind::InDoubt, "{error}");
        peer.logs("cancelled").await;
        // The later of the two calls is answered first.
        assert_eq!(swapped("second").await, "\"second\"");
        assert_eq!(first.await.unwrap(), "\"first\"");

        let read = toolset.read_resource("house://kitchen").await.unwrap();
        assert_eq!(read.text, "a stove");
        let room = [("room".to_owned(), "cellar".to_owned())];
        let prompt = toolset.prompt("tidy", room).await.unwrap();
        assert_eq!(prompt[0].content(), "Tidy the cellar.");

        if !wire.is_empty() {
            while !peer.folder.join("subscription").exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        let before = toolset.revision();
        assert!(!names(&toolset).contains(&"grown".to_owned()));
        assert_eq!(call(&toolset, "grow").await.unwrap(), "grown");
        while toolset.revision() == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(names(&toolset).contains(&"grown".to_owned()));
        toolset.disconnect().await;
    }
}
