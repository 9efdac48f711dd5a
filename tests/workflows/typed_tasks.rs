//! Agents that say what a task must be.

use ghostlight::behaviors;
use ghostlight_actors::{
    actor::System,
    definition::{DefinitionError, Reach},
    run::{Agent, Registry, RunContext},
    testing::{InMemoryStore, ScriptedModel},
    vocabulary::{AgentError, ErrorKind, Event, ModelResponse, Outcome},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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
async fn the_model_of_a_called_agent_reads_its_task_and_nothing_of_its_callers_conversation() {
    let counter = Agent::new("counter").model("below").reach(Reach::Delegate);
    let planner = Agent::new("planner").model("below").input::<Trip>();
    let desk = Agent::new("desk")
        .agent(counter)
        .agent(planner.reach(Reach::Delegate));
    let above = ScriptedModel::turns([
        acts([
            ("delegate_to_counter", json!({"task": "Count the mugs."})),
            ("delegate_to_planner", json!({"city": "Ulm", "nights": 2})),
        ]),
        "All is well.".into(),
    ]);
    let below = ScriptedModel::from_fn(|request, _| {
        let asked = request.conversation.last().unwrap().content();
        Ok(ModelResponse::text(format!("I was asked: {asked}")))
    });
    let system = System::builder(InMemoryStore::new())
        .registry(behaviors::register(Registry::new()))
        .model("default", above.clone())
        .model("below", below.clone())
        .team(desk.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let session = system.session("desk", "s");
    let run = session.send("My code is 4711. How many?").await.unwrap();
    assert_eq!(run.outcome().await.unwrap().text(), "All is well.");
    let mut asked: Vec<String> = Vec::new();
    for request in below.requests() {
        let [task] = &request.conversation.messages()[..] else {
            panic!("more than the task: {:?}", request.conversation);
        };
        assert!(task.is_from_user(), "{task:?}");
        asked.push(task.content());
    }
    asked.sort();
    let [text, trip] = &asked[..] else {
        panic!("{asked:?}");
    };
    assert_eq!(text, "Count the mugs.");
    let trip: Value = serde_json::from_str(trip).unwrap();
    assert_eq!(trip, json!({"city": "Ulm", "nights": 2}));
    // What the model below said is what the model above reads.
    let last = above.requests()[1].conversation.last().unwrap();
    let told: Vec<&str> = last
        .tool_results()
        .map(|result| result.text.as_str())
        .collect();
    assert_eq!(told[0], "I was asked: Count the mugs.");
    system.stop().await.unwrap();
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
