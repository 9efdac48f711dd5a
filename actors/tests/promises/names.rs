//! A name belongs to the place that gives it: an agent, its team, the System. What another place
//! calls by the same name is never run in its stead.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ghostlight_actors::{
    actor::{System, SystemBuilder, SystemError, recording},
    contract::{
        Model, ModelContext, ModelError, ModelHandle, Tool, ToolContext, ToolError, ToolHandle,
        ToolOutput,
    },
    definition::{AgentSpec, BehaviorSpec, Reach},
    run::{Agent, Behavior, BehaviorHandle, Policy, Registry, RunContext, Team, replay},
    session::Turn,
    testing::FaultyStore,
    vocabulary::{
        AgentError, Arguments, Effect, ModelRequest, ModelResponse, Outcome, ToolDefinition,
    },
};
use serde_json::json;

use crate::{
    approvals::{caller, questions},
    stage::{Stage, ask, call, crash, text},
};

/// A tool that says which one it is.
struct Says {
    definition: ToolDefinition,
    says: &'static str,
    calls: Arc<AtomicU32>,
}

impl Tool for Says {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Ok(ToolOutput::text(self.says))
    }
}

fn tool(name: &str, says: &'static str, effect: Effect) -> ToolHandle {
    ToolHandle::new(Says {
        definition: ToolDefinition::new(name, format!("is {says}")).effect(effect),
        says,
        calls: Arc::default(),
    })
}

/// A model that says which one it is.
struct Speaks(&'static str);

impl Model for Speaks {
    async fn respond(&self, _: ModelRequest, _: ModelContext) -> Result<ModelResponse, ModelError> {
        Ok(ModelResponse::text(self.0))
    }
}

fn speaks(name: &str, says: &'static str) -> Registry {
    Registry::new().model(name, ModelHandle::new(Speaks(says)))
}

/// An agent that asks its model and says what it says.
fn asker(name: &str) -> Agent {
    Agent::from_fn(name, |cx: RunContext| async move {
        let answer = cx.model(ModelRequest::default()).await?;
        Ok(Outcome::answer(answer.message.content().to_owned()))
    })
}

/// An agent that calls its `search` and says what comes, with what the model is told of it.
fn searcher(name: &str) -> Agent {
    Agent::from_fn(name, |cx: RunContext| async move {
        let told = cx.tools_offered();
        let told = told.get("search").map(|tool| tool.description.clone());
        let result = cx.tool_unasked(call("1", "search")).await?;
        let told = told.unwrap_or_default();
        Ok(Outcome::answer(format!("{} ({told})", result.text)))
    })
}

/// An agent that has each of these do the work and tells what they said.
fn boss(of: &'static [&'static str]) -> Agent {
    Agent::from_fn("boss", move |cx: RunContext| async move {
        let mut said = Vec::new();
        for name in of {
            said.push(cx.delegate(*name, "go").await?.text);
        }
        Ok(Outcome::answer(said.join(", ")))
    })
}

fn builder(stage: &Stage) -> SystemBuilder {
    System::builder(stage.store.clone())
        .options(stage.limits)
        .clock(stage.clock.clone())
}

async fn refused(builder: SystemBuilder) -> String {
    match builder.start().await {
        Err(SystemError::Definition(fault)) => fault.to_string(),
        other => panic!("it starts: {:?}", other.map(drop)),
    }
}

#[tokio::test(start_paused = true)]
async fn two_teams_with_a_tool_of_one_name_each_run_their_own_by_their_own_rules() {
    let mut stage = Stage::new();
    let guarded: Arc<AtomicU32> = Arc::default();
    let open: Arc<AtomicU32> = Arc::default();
    let start = |stage: &Stage| {
        let of = |team: &str, says, calls: &Arc<AtomicU32>, approval| {
            let mut definition = ToolDefinition::new("pay", says);
            if approval {
                definition = definition.approval("Pay?");
            }
            let mut agent = caller(vec![call("1", "pay")]).tool(ToolHandle::new(Says {
                definition,
                says,
                calls: calls.clone(),
            }));
            agent = agent.define(|spec| spec.name = team.to_owned());
            agent.into_team().unwrap()
        };
        // Whichever is added last must not be the one for both.
        let guarded_team = of("a", "guarded", &guarded, true);
        let open_team = of("b", "open", &open, false);
        builder(stage).team(guarded_team).team(open_team).start()
    };
    let system = start(&stage).await.unwrap();
    let asks = ask(&system, "a", "go").await;
    assert_eq!(questions(&asks).await.len(), 1, "the guarded one asks");
    let runs = ask(&system, "b", "go").await;
    assert!(text(&runs).await.contains("open"));
    let counted = || (guarded.load(Ordering::SeqCst), open.load(Ordering::SeqCst));
    assert_eq!(counted(), (0, 1));
    stage.crash(&system).await;
    let system = start(&stage).await.unwrap();
    let asks = system.run(asks.id());
    let (question, _) = questions(&asks).await.remove(0);
    asks.answer(question, json!(true)).await.unwrap();
    assert!(text(&asks).await.contains("guarded"));
    assert_eq!(counted(), (1, 1), "each ran its own, once");
    system.stop().await.unwrap();
}

fn two_searchers() -> Team {
    let left = searcher("left").tool(tool("search", "books", Effect::Once));
    // What is given to an agent is for those below it too.
    let below = searcher("below").tool_named("search");
    let right = Agent::from_fn("right", |cx: RunContext| async move {
        let own = cx.tool_unasked(call("1", "search")).await?;
        let below = cx.delegate("below", "go").await?;
        Ok(Outcome::answer(format!("{}, {}", own.text, below.text)))
    });
    let right = right.tool(tool("search", "people", Effect::Once));
    let team = boss(&["left", "right"])
        .agent(left)
        .agent(right.agent(below));
    team.into_team().unwrap()
}

#[tokio::test(start_paused = true)]
async fn two_agents_of_a_team_with_different_tools_of_one_name_each_have_their_own() {
    let mut stage = Stage::new();
    let said = "books (is books), people, people (is people)";
    // Wherever the process dies, the next one runs the code of the same agent.
    for number in 0.. {
        stage = Stage::new();
        let store = FaultyStore::at_commit(stage.store.clone(), crash(number));
        let system = System::builder(store.clone()).options(stage.limits);
        let system = system.clock(stage.clock.clone()).team(two_searchers());
        let system = system.start().await.unwrap();
        let session = system.session("boss", "s");
        let sent = session.send(Turn::text("go").id("1"));
        let sent = tokio::time::timeout(Duration::from_secs(60), sent).await;
        if let Ok(Ok(run)) = sent {
            let _ = tokio::time::timeout(Duration::from_secs(60), run.outcome()).await;
        }
        let struck = store.is_dead();
        stage.crash(&system).await;
        let system = builder(&stage).team(two_searchers()).start().await.unwrap();
        let session = system.session("boss", "s");
        let run = session.send(Turn::text("go").id("1")).await.unwrap();
        let answer = text(&run).await;
        // A call whose end was lost is in doubt; it is never another's.
        if !answer.contains("unknown") {
            assert_eq!(answer, said, "crash {number}");
        }
        let recording = recording(system.store(), run.id()).await.unwrap();
        let replayed = replay(&recording, &two_searchers().registry, None).unwrap();
        assert!(replayed.is_faithful(), "{replayed}");
        system.stop().await.unwrap();
        if !struck {
            break;
        }
    }
    drop(stage);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_only_two_others_give_to_different_tools_is_refused_with_both() {
    let stage = Stage::new();
    let left = searcher("left").tool(tool("search", "books", Effect::Read));
    let right = searcher("right").tool(tool("search", "people", Effect::Read));
    let team = boss(&["left"])
        .agent(left)
        .agent(right)
        .tool_named("search");
    let fault = refused(builder(&stage).team(team.into_team().unwrap())).await;
    for part in ["\"boss\"", "\"left\"", "\"right\"", "\"search\""] {
        assert!(fault.contains(part), "{part}: {fault}");
    }
    // One tool that several have is no question.
    let one = tool("search", "books", Effect::Read);
    let left = searcher("left").tool(one.clone());
    let right = searcher("right").tool(one);
    let team = searcher("boss")
        .agent(left)
        .agent(right)
        .tool_named("search");
    let system = builder(&stage).team(team.into_team().unwrap());
    let system = system.start().await.unwrap();
    assert_eq!(
        text(&ask(&system, "boss", "go").await).await,
        "books (is books)"
    );
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_different_things_under_one_name_in_one_place_are_refused() {
    let stage = Stage::new();
    let two = || {
        [
            tool("search", "books", Effect::Read),
            tool("search", "people", Effect::Read),
        ]
    };
    let [one, other] = two();
    let of_system = builder(&stage).tool(one.clone()).tool(other);
    let fault = refused(of_system).await;
    assert!(
        fault.contains("the System") && fault.contains("\"search\""),
        "{fault}"
    );
    // The same one twice is one.
    let again = builder(&stage).tool(one.clone()).tool(one);
    again.start().await.unwrap().stop().await.unwrap();
    let [one, other] = two();
    let team = searcher("a").tool(one).into_team().unwrap();
    let registry = Registry::new().tool(other.clone());
    let fault = refused(
        builder(&Stage::new()).team(team.registry(registry.tool(tool(
            "search",
            "x",
            Effect::Read,
        )))),
    )
    .await;
    assert!(
        fault.contains("team \"a\"") && fault.contains("\"search\""),
        "{fault}"
    );
    let models = builder(&stage).model("default", Speaks("one"));
    let fault = refused(models.model("default", Speaks("two"))).await;
    assert!(
        fault.contains("model") && fault.contains("\"default\""),
        "{fault}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_tool_called_like_one_that_the_engine_gives_is_refused_with_both_sources() {
    let stage = Stage::new();
    let below = || Agent::from_fn("below", |_| async { Ok(Outcome::answer("done")) });
    for name in ["delegate_to_below", "transfer_to_below"] {
        let desk = searcher("desk").tool(tool(name, "own", Effect::Read));
        let desk = desk.agent(below().define(|spec| spec.reach = Reach::Both));
        let fault = refused(builder(&stage).team(desk.into_team().unwrap())).await;
        for part in ["\"desk\"", name, "the engine", "its own"] {
            assert!(fault.contains(part), "{part}: {fault}");
        }
    }
    // An agent that is made later is held to the same.
    let made = |name: &'static str| {
        let desk = Agent::from_fn("desk", move |cx: RunContext| async move {
            let mut made = AgentSpec::new("made");
            made.behavior = BehaviorSpec::new("agent:below");
            made.tools = vec![name.to_owned()];
            made.publishes = vec!["news".to_owned()];
            Ok(Outcome::answer(match cx.delegate(made, "go").await {
                Ok(done) => done.text,
                Err(error) => error.to_string(),
            }))
        });
        desk.tool(tool(name, "own", Effect::Read)).agent(below())
    };
    for (name, expected) in [("publish", "the engine"), ("print", "done")] {
        let system = builder(&Stage::new()).team(made(name).into_team().unwrap());
        let system = system.model("default", Speaks("nothing"));
        let system = system.start().await.unwrap();
        let said = text(&ask(&system, "desk", "go").await).await;
        assert!(said.contains(expected), "{name}: {said}");
        system.stop().await.unwrap();
    }
}

/// A policy and a behavior that answer calls of tools with these names.
struct Offers(&'static [&'static str]);

impl Policy for Offers {
    fn tools(&self) -> Vec<String> {
        self.0.iter().copied().map(str::to_owned).collect()
    }
}

impl Behavior for Offers {
    fn tools(&self) -> Vec<String> {
        Policy::tools(self)
    }

    async fn run(&self, _: RunContext) -> Result<Outcome, AgentError> {
        Ok(Outcome::answer("done"))
    }
}

#[tokio::test(start_paused = true)]
async fn tools_of_one_name_from_two_policies_a_behavior_or_the_engine_are_refused_with_both_sources()
 {
    let team = |of_team: &'static [&'static str], behavior: &'static [&'static str]| {
        let desk = Agent::new("desk").behavior(Offers(behavior));
        let desk = desk.policy("first", || Offers(&["look", "note"]));
        let desk = desk.policy("second", || Offers(&["list"]));
        let below = Agent::from_fn("below", |_| async { Ok(Outcome::answer("done")) });
        let below = below.define(|spec| spec.reach = Reach::Both);
        let team = desk.agent(below).into_team().unwrap();
        builder(&Stage::new()).team(team.policy("third", move || Offers(of_team)))
    };
    for (of_team, behavior, sources) in [
        (&["list"][..], &[][..], ["second", "third"]),
        (&["a", "note"], &["b"], ["first", "third"]),
        (&["a"], &["look"], ["first", "behavior"]),
        (&["a"], &["a"], ["third", "behavior"]),
        (&["delegate_to_below"], &[], ["third", "the engine"]),
        (&[], &["delegate_to_below"], ["behavior", "the engine"]),
    ] {
        let fault = refused(team(of_team, behavior)).await;
        for part in ["\"desk\"", sources[0], sources[1]] {
            assert!(fault.contains(part), "{part}: {fault}");
        }
    }
    let apart = team(&["a"], &["b"]).start().await.unwrap();
    apart.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_team_s_own_model_is_the_team_s_alone() {
    let stage = Stage::new();
    let team = |name: &str| asker(name).into_team().unwrap();
    let system = builder(&stage)
        .model("default", Speaks("shared"))
        .team(team("a").registry(speaks("default", "a's own")))
        .team(team("b"))
        .team(team("c").registry(speaks("default", "c's own")));
    let system = system.start().await.unwrap();
    for (name, says) in [("a", "a's own"), ("b", "shared"), ("c", "c's own")] {
        assert_eq!(text(&ask(&system, name, "go").await).await, says);
    }
    system.stop().await.unwrap();
    // So with the agents of one team.
    let left = asker("left").registry(speaks("default", "left's own"));
    let right = asker("right").registry(speaks("default", "right's own"));
    let team = boss(&["left", "right", "third"])
        .agent(left)
        .agent(right)
        .agent(asker("third"));
    let stage = Stage::new();
    let system = builder(&stage).model("default", Speaks("shared"));
    let system = system
        .team(team.into_team().unwrap())
        .start()
        .await
        .unwrap();
    let said = text(&ask(&system, "boss", "go").await).await;
    assert_eq!(said, "left's own, right's own, shared");
    system.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_made_has_the_tools_of_the_agent_that_made_it() {
    let stage = Stage::new();
    // It makes one that makes another, which is called like an agent of the team.
    let search = Registry::new().behavior("search", |_| {
        Ok(BehaviorHandle::from_fn(|cx: RunContext| async move {
            let result = cx.tool_unasked(call("1", "search")).await?;
            Ok(Outcome::answer(result.text))
        }))
    });
    let make = search.behavior("make", |_| {
        Ok(BehaviorHandle::from_fn(|cx: RunContext| async move {
            let mut agent = AgentSpec::new("right");
            agent.behavior = BehaviorSpec::new("search");
            agent.tools = vec!["search".to_owned()];
            Ok(Outcome::answer(cx.delegate(agent, "go").await?.text))
        }))
    });
    let left = Agent::from_fn("left", |cx: RunContext| async move {
        let mut agent = AgentSpec::new("made");
        agent.behavior = BehaviorSpec::new("make");
        Ok(Outcome::answer(cx.delegate(agent, "go").await?.text))
    });
    let left = left
        .tool(tool("search", "books", Effect::Read))
        .registry(make);
    let right = searcher("right").tool(tool("search", "people", Effect::Read));
    let team = boss(&["left"])
        .agent(left)
        .agent(right)
        .into_team()
        .unwrap();
    let system = builder(&stage)
        .model("default", Speaks("nothing"))
        .team(team);
    let system = system.start().await.unwrap();
    assert_eq!(text(&ask(&system, "boss", "go").await).await, "books");
    system.stop().await.unwrap();
}
