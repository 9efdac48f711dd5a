//! Agents that say what a task must be.

use ghostlight::behaviors;
use ghostlight_actors::{
    actor::System,
    definition::{DefinitionError, Reach},
    run::{Agent, Registry, RunContext},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{AgentError, ErrorKind, Event, Outcome},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::patterns::acts;

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Trip {
    /// Where to.
    city: String,
    /// How many nights.
    nights: u8,
}

fn booker() -> Agent {
    Agent::from_fn("booker", |cx: RunContext| async move {
        let trip: Trip = cx.input_as()?;
        Ok(Outcome::answer(format!("{}:{}", trip.city, trip.nights)))
    })
    .reach(Reach::Delegate)
    .input::<Trip>()
}

#[tokio::test(start_paused = true)]
async fn a_model_sees_what_an_agent_takes_and_a_task_that_does_not_fit_begins_nothing() {
    let model = ScriptedModel::turns([
        acts([(
            "delegate_to_booker",
            json!({"city": "Ulm", "nights": "two"}),
        )]),
        acts([("delegate_to_booker", json!({"city": "Ulm", "nights": 2}))]),
        "done".into(),
    ]);
    let desk = Agent::new("desk").agent(booker());
    let system = System::builder(InMemoryStore::new())
        .registry(behaviors::register(Registry::new()))
        .model("default", model.clone())
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    assert_eq!(run.outcome().await.unwrap(), Outcome::answer("done"));
    let requests = model.requests();
    let tool = requests[0].tools.get("delegate_to_booker").unwrap().clone();
    assert_eq!(
        tool.parameters["properties"]["city"]["description"],
        "Where to."
    );
    assert_eq!(tool.parameters["required"], json!(["city", "nights"]));
    let said: Vec<String> = requests[2]
        .conversation
        .messages()
        .iter()
        .flat_map(|message| {
            message
                .tool_results()
                .map(|result| result.text.clone())
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(
        said[0].contains("does not fit what booker takes: \"two\""),
        "{said:?}"
    );
    assert_eq!(said[1], "Ulm:2");
    let records = run.events().so_far().await.unwrap();
    let begun = records
        .iter()
        .filter(|r| matches!(r.event, Event::Delegated { .. }));
    assert_eq!(begun.count(), 1);
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_function_gives_it_a_value() {
    let desk = Agent::from_fn("desk", |cx: RunContext| async move {
        let refused = cx.delegate("booker", "a trip to Ulm").await.unwrap_err();
        assert_eq!(refused.kind(), Some(&ErrorKind::Malformed));
        let trip = Trip {
            city: "Ulm".into(),
            nights: 3,
        };
        let task = serde_json::to_string(&trip).map_err(AgentError::failed)?;
        Ok(Outcome::answer(cx.delegate("booker", task).await?.text))
    });
    let system = System::builder(InMemoryStore::new())
        .team(desk.agent(booker()).into_team().unwrap())
        .start()
        .await
        .unwrap();
    let run = system.session("desk", "s").send("go").await.unwrap();
    assert_eq!(run.outcome().await.unwrap(), Outcome::answer("Ulm:3"));
    system.stop().await.unwrap();
}

#[tokio::test]
async fn what_it_takes_is_the_schema_of_an_object() {
    for (schema, told) in [
        (json!({"type": "string"}), "its `type` must be `object`"),
        (json!({"type": "object", "required": 7}), "7"),
    ] {
        let desk = Agent::new("desk").define(|spec| spec.input = Some(schema));
        let started = System::builder(InMemoryStore::new())
            .registry(behaviors::register(Registry::new()))
            .model("default", ScriptedModel::hanging())
            .team(desk.into_team().unwrap())
            .start()
            .await;
        let error = started.unwrap_err();
        let ghostlight_actors::actor::SystemError::Definition(DefinitionError::Settings {
            name,
            reason,
            ..
        }) = &error
        else {
            panic!("{error}");
        };
        assert_eq!(name, "input");
        assert!(reason.contains(told), "{reason}");
    }
}
