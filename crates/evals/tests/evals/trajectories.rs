//! What was recorded becomes rows for trainers: whole, of one beginning where they are pairs, and without secrets.

use std::time::Duration;

use ghostlight_actors::{
    actor::System,
    contract::InMemoryStore,
    definition::{AgentSpec, TeamSpec},
    run::{BehaviorHandle, Registry, RunContext},
    testing::{EffectLog, ScriptedModel},
    vocabulary::{
        AgentError, Answer, Effect, Message, ModelRequest, ModelResponse, Outcome, Spent, ToolCall,
        ToolDefinition, Usage,
    },
};
use ghostlight_evals::{
    Cell, Evaluation,
    suite::{Sample, SuiteSpec},
    trajectory::{Export, ExportFault, Form, Rows, Secrets, Trajectory, Verdict},
};
use serde_json::{Value, json};

const KEY: &str = "sk-proj-Zx81kLm02QpWvY74RtNa55HcUe";

/// A model that looks once, and answers; every second answer is wrong, but for the sample "same".
fn model() -> ScriptedModel {
    ScriptedModel::from_fn(|request: &ModelRequest, number| {
        let said = request.conversation.messages();
        let asked = said
            .iter()
            .rfind(|m| m.is_from_user())
            .map(|m| m.content())
            .unwrap_or_default();
        let usage = Usage {
            input_tokens: 7,
            output_tokens: 3,
            ..Usage::default()
        };
        let has_looked = said.last().unwrap().tool_results().next().is_some();
        if !has_looked && !asked.contains("plainly") {
            let arguments = json!({ "query": asked, "password": "correct horse" });
            let id = format!("call-{number}");
            let calls = [ToolCall::new(id, "look", arguments)];
            return Ok(ModelResponse::tool_calls(calls).usage(usage));
        }
        let repeat = request.model.len() as u64 + number;
        let is_wrong = repeat % 4 > 1 && !asked.contains("same");
        let text = if is_wrong { "no" } else { "yes" };
        Ok(ModelResponse::text(text).usage(usage))
    })
}

/// Calls tools until the model answers, and says once that it goes on.
async fn works(cx: RunContext) -> Result<Outcome, AgentError> {
    let mut conversation = cx.conversation();
    let begun = conversation.len();
    loop {
        let response = cx.model(cx.model_request(conversation.clone())).await?;
        conversation.push(response.message.clone());
        let calls = response.calls();
        if calls.is_empty() {
            let answer = Answer::text(response.content());
            let answer = answer.with_messages(conversation.since(begun));
            return Ok(Outcome::Answer(answer));
        }
        conversation.push(Message::results(cx.tools(calls).await?));
    }
}

fn team() -> TeamSpec {
    let mut agent = AgentSpec::new("desk");
    agent.model = Some(String::from("model"));
    agent.instructions = format!("Answer with yes or no. The key is {KEY}.");
    agent.tools = vec![String::from("look")];
    agent.behavior = serde_json::from_value(json!("works")).unwrap();
    TeamSpec::new(agent)
}

fn evaluation(samples: Vec<Sample>) -> Evaluation {
    let suite: SuiteSpec = serde_json::from_value(json!({
        "evaluation": "desk", "team": "desk.yaml", "data": [], "repeat": 2, "concurrency": 1,
        "scorers": [{ "answer": {} }],
    }))
    .unwrap();
    Evaluation::new(suite, &team(), samples).unwrap()
}

/// A System that has tried every cell; a cell that is asked for again is read.
async fn recorded(evaluation: &Evaluation) -> System {
    let look = ToolDefinition::new("look", "Looks something up.")
        .effect(Effect::Read)
        .parameters(json!({ "type": "object", "properties": {
            "query": { "type": "string" }, "password": { "type": "string" },
        }}));
    let registry = Registry::new()
        .model("model", model().into())
        .tool(EffectLog::new().tool(look, Duration::ZERO))
        .behavior("works", |_| Ok(BehaviorHandle::from_fn(works)));
    let mut builder = System::builder(InMemoryStore::new()).recover(false);
    for team in evaluation.teams(&registry) {
        builder = builder.team(team);
    }
    let system = builder.start().await.unwrap();
    evaluation.run(&system, |_| {}).await.unwrap();
    system
}

async fn rows(form: Form, sample: Sample) -> Rows {
    let evaluation = evaluation(vec![sample.clone()]);
    let system = recorded(&evaluation).await;
    let export = Export::new(form).secrets(Secrets::Keep);
    export.sample(&system, &evaluation, &sample).await.unwrap()
}

fn sample(input: &str) -> Sample {
    Sample::new("one", input).expected("yes")
}

fn roles(messages: &Value) -> Vec<&str> {
    let messages = messages.as_array().unwrap().iter();
    messages
        .map(|message| message["role"].as_str().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_chat_has_the_instructions_the_tools_and_every_call_with_its_result() {
    let found = rows(Form::OpenaiChat, sample("is it so?")).await;
    assert_eq!(
        (found.rows.len(), found.left_out),
        (1, 1),
        "the wrong repeat has no place"
    );
    let row = &found.rows[0];
    let messages = &row["messages"];
    assert_eq!(
        roles(messages),
        ["system", "user", "assistant", "tool", "assistant"]
    );
    let call = &messages[2]["tool_calls"][0];
    assert_eq!(call["id"], messages[3]["tool_call_id"]);
    let arguments: Value =
        serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments["query"], "is it so?");
    assert_eq!(messages[2]["content"], Value::Null);
    assert_eq!(messages[4]["content"], "yes");
    let tool = &row["tools"][0]["function"];
    assert_eq!(tool["name"], "look");
    assert_eq!(tool["parameters"]["properties"]["query"]["type"], "string");
}

#[tokio::test(start_paused = true)]
async fn a_pair_is_the_best_and_the_worst_repeat_from_where_they_part() {
    let found = rows(Form::TrlDpo, sample("is it so?")).await;
    let row = &found.rows[0];
    // Both look first, with ids of their calls that differ; they part at the answer.
    assert_eq!(
        roles(&row["prompt"]),
        ["system", "user", "assistant", "tool"]
    );
    assert_eq!(row["chosen"][0]["content"], "yes");
    assert_eq!(row["rejected"][0]["content"], "no");
    let arguments = &row["prompt"][2]["tool_calls"][0]["function"]["arguments"];
    assert_eq!(arguments["query"], "is it so?");
    let tools: Value = serde_json::from_str(row["tools"].as_str().unwrap()).unwrap();
    assert_eq!(tools[0]["type"], "function");

    let found = rows(Form::OpenaiPreference, sample("is it so?")).await;
    let row = &found.rows[0];
    assert_eq!(
        roles(&row["input"]["messages"]),
        ["system", "user", "assistant", "tool"]
    );
    assert_eq!(row["preferred_output"][0]["content"], "yes");
    assert_eq!(row["non_preferred_output"][0]["content"], "no");
    assert_eq!(
        row["preferred_output"].as_array().unwrap().len(),
        1,
        "one answer a side"
    );

    // Repeats that are equally good make no pair.
    assert_eq!(
        rows(Form::TrlDpo, sample("is it the same?")).await.rows,
        Vec::<Value>::new()
    );
}

#[tokio::test(start_paused = true)]
async fn of_a_conversation_only_the_last_turn_is_learnt() {
    let mut turns = Sample::new("two", "");
    turns.input = None;
    turns.turns = vec![String::from("the same?"), String::from("plainly the same?")];
    turns.expected = Some(json!("yes"));
    let found = rows(Form::TrlSft, turns.clone()).await;
    assert_eq!(found.rows.len(), 2);
    assert_eq!(
        roles(&found.rows[0]["prompt"]),
        ["system", "user", "assistant", "tool", "assistant", "user"]
    );
    assert_eq!(roles(&found.rows[0]["completion"]), ["assistant"]);
    let chat = &rows(Form::OpenaiChat, turns.clone()).await.rows[0]["messages"];
    let weights: Vec<&Value> = chat
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "assistant")
        .map(|message| &message["weight"])
        .collect();
    assert_eq!(weights, [&json!(0), &json!(0), &Value::Null]);
    let atif = &rows(Form::Atif, turns).await.rows[0];
    let copied: Vec<bool> = atif["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["is_copied_context"] == true)
        .collect();
    assert_eq!(copied, [false, true, true, true, false, false], "{atif}");
}

#[tokio::test(start_paused = true)]
async fn each_repeat_has_its_label_and_a_sample_one_prompt() {
    let found = rows(Form::TrlKto, sample("is it so?")).await;
    let labels: Vec<&Value> = found.rows.iter().map(|row| &row["label"]).collect();
    assert_eq!(labels.len(), 2);
    assert!(labels.contains(&&json!(true)) && labels.contains(&&json!(false)));
    let found = rows(Form::Verl, sample("is it so?")).await;
    assert_eq!(found.rows.len(), 1);
    let row = &found.rows[0];
    assert_eq!(
        row["reward_model"],
        json!({ "style": "rule", "ground_truth": "yes" })
    );
    assert_eq!(roles(&row["prompt"]), ["system", "user"]);
    assert_eq!(row["extra_info"]["index"], "one");
}

#[tokio::test(start_paused = true)]
async fn an_interchange_document_counts_its_steps_and_what_they_consumed() {
    let found = rows(Form::Atif, sample("is it so?")).await;
    assert_eq!(found.rows.len(), 2);
    let document = &found.rows[0];
    assert_eq!(document["schema_version"], "ATIF-v1.8");
    let steps = document["steps"].as_array().unwrap();
    let sources: Vec<&str> = steps
        .iter()
        .map(|step| step["source"].as_str().unwrap())
        .collect();
    assert_eq!(sources, ["system", "user", "agent", "agent"]);
    for (place, step) in steps.iter().enumerate() {
        assert_eq!(step["step_id"], place + 1);
    }
    let (call, result) = (
        &steps[2]["tool_calls"][0],
        &steps[2]["observation"]["results"][0],
    );
    assert_eq!(call["tool_call_id"], result["source_call_id"]);
    assert_eq!(steps[3]["metrics"]["prompt_tokens"], 7);
    assert_eq!(document["final_metrics"]["total_prompt_tokens"], 14);
    assert_eq!(document["final_metrics"]["total_steps"], 4);
    assert!(steps[3]["timestamp"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test(start_paused = true)]
async fn what_looks_like_a_secret_is_refused_or_left_out() {
    let sample = sample("is it so?");
    let evaluation = evaluation(vec![sample.clone()]);
    let system = recorded(&evaluation).await;
    for form in [
        Form::OpenaiChat,
        Form::TrlDpo,
        Form::Atif,
        Form::TrlKto,
        Form::Verl,
    ] {
        let refused = Export::new(form)
            .sample(&system, &evaluation, &sample)
            .await;
        assert!(matches!(refused, Err(ExportFault::Secret(_))), "{form:?}");
        let export = Export::new(form).secrets(Secrets::Redact);
        let shown = export.sample(&system, &evaluation, &sample).await.unwrap();
        let text = Value::from(shown.rows).to_string();
        assert!(
            !text.contains(KEY) && !text.contains("correct horse"),
            "{text}"
        );
        // The schema of an argument with a secret's name stays.
        assert!(form == Form::Verl || text.contains("password"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_trajectory_tells_each_message_once() {
    let evaluation = evaluation(vec![sample("is it so?")]);
    let system = recorded(&evaluation).await;
    let cells = evaluation
        .recorded(&system, &evaluation.samples()[0])
        .await
        .unwrap();
    assert_eq!(cells.len(), 2);
    let trajectory = Trajectory::read(system.store(), cells[0].runs[0])
        .await
        .unwrap();
    let episode = &trajectory.episodes[0];
    assert_eq!(
        (trajectory.episodes.len(), trajectory.delegated.len()),
        (1, 0)
    );
    assert_eq!((episode.before.len(), episode.earlier), (1, 0));
    assert_eq!(episode.said.len(), 3);
    let calls: Vec<bool> = episode
        .said
        .iter()
        .map(|said| said.call.is_some())
        .collect();
    assert_eq!(calls, [true, false, true]);
}

#[test]
fn a_cell_whose_verdict_cannot_be_read_is_no_better_example() {
    let mut cell = json!({
        "variant": "base", "sample": "s", "repeat": 1, "result": "unreadable", "why": "no verdict",
        "scores": { "answer": { "value": 1.0, "passes": true, "why": "" } },
        "spent": Spent::default(), "latency_ms": 1,
    });
    let reward = |cell: &Value| {
        let cell: Cell = serde_json::from_value(cell.clone()).unwrap();
        Verdict::of(&cell).reward
    };
    assert_eq!(reward(&cell), None);
    cell["result"] = json!("scored");
    assert_eq!(reward(&cell), Some(1.0));
}
